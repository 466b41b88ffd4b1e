"""Checks of batches before they are appended: those of UnifiedLog.appendAsFollower, and those for a later recovery

framing and checksum        as by ensureValid; payloads are not decompressed
offsets                     strictly ascending from batch to batch and not below the log's end offset
codec                       a known one
size                        not above segment_bytes (RecordBatchTooLargeException)
transactions                no plain batch of a producer whose transaction is open (InvalidTxnStateException: a broker
                            that recovers such a log fails on it), no control batch without a readable end marker
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec import damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.layout import BATCH_MAGIC, LOG_OVERHEAD, batch_length
from kafkarec.read import reader
from kafkarec.state.producers import Marker, ProducerStates, read_marker
from kafkarec.state.recovery_walk import COLUMNS as WALKED
from kafkarec.write.stamping import stamp

from .roll_params import WriterSettings

COLUMNS = (*WALKED, "compression", "record_count")
_STAMPED = ("position", "magic", "base_offset", "last_offset", "partition_leader_epoch")
_LONG_MAX = 2**63 - 1


class AppendRefused(ValueError):
    """Good batches that cannot be appended to the log. Nothing of the append was written.

    why: str            the reason, without the position
    position: int       position of the batch in the appended bytes
    base_offset: int    of the batch; for a compressed message of magic 0 or 1 the last offset
    """

    def __init__(self, why: str, position: int, base_offset: int) -> None:
        super().__init__(why, position, base_offset)
        self.why, self.position, self.base_offset = why, position, base_offset

    def __str__(self) -> str:
        place = f"at byte {self.position} (base offset {self.base_offset})"
        return f"the batch {place} was refused and nothing was written: {self.why}"


class CheckedBatches(NamedTuple):
    """Whole batches: their bytes, a list for each name of COLUMNS, and the markers of control batches by position."""

    data: memoryview
    columns: dict[str, list[Any]]
    markers: dict[int, Marker | None]

    def __len__(self) -> int:
        return len(self.columns["position"])

    def row(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.columns.items()}

    def slice(self, start: int, stop: int, at: int) -> CheckedBatches:
        """Batches [start, stop), with positions for a file in which they begin at byte `at`."""
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        positions = columns["position"]
        begin, end = positions[0], positions[-1] + columns["size_in_bytes"][-1]
        markers = {position - begin + at: self.markers[position] for position in positions if position in self.markers}
        columns["position"] = [position - begin + at for position in positions]
        return CheckedBatches(self.data[begin:end], columns, markers)


def check_batches(
    data: Any,
    settings: WriterSettings,
    states: ProducerStates,
    next_offset: int,
    epoch: int,
    blank_epoch: int | None = None,
) -> CheckedBatches:
    """The batches of a buffer, checked for a log that ends at `next_offset` with the leader epoch `epoch`.

    blank_epoch: the epoch to set on batches without a leader epoch

    Raises a KafkaRecordError for bytes that are not whole good batches, and AppendRefused for good batches that cannot
    be appended to this log.
    """
    view = memoryview(data).cast("B")
    columns = _scan(view)
    if settings.assign_offsets or settings.leader_epoch is not None or blank_epoch is not None:
        view = memoryview(_with_assigned_fields(view, columns, settings, next_offset, blank_epoch))
        columns = _scan(view)
    batches = CheckedBatches(view, columns, {})
    open_now: dict[int, bool] = {}
    for number in range(len(batches)):
        row = batches.row(number)
        _check_bytes(view, row)
        _check_fits_log(row, settings, next_offset, epoch)
        if row["producer_id"] is not None and row["producer_id"] >= 0:
            _check_producer(view, row, states, open_now, batches.markers)
        next_offset = row["last_offset"] + 1
        epoch = max(epoch, _number(row["partition_leader_epoch"]))
    return batches


def _scan(view: memoryview) -> dict[str, list[Any]]:
    table = reader.scan(view)
    if table.remaining:
        position = len(view) - table.remaining
        fault: dict[str, Any] = {"position": position, "detail": "whole batches are expected"}
        if table.remaining >= LOG_OVERHEAD:
            fault |= {"base_offset": int.from_bytes(view[position : position + 8], "big", signed=True)}
            fault |= {"expected": batch_length(view, position) + LOG_OVERHEAD, "found": table.remaining}
        raise damage.error("length_beyond_end", fault)
    return {name: table.column(name) for name in COLUMNS}


def _with_assigned_fields(
    view: memoryview, columns: dict[str, list[Any]], settings: WriterSettings, next_offset: int, blank_epoch: int | None
) -> bytearray:
    """A copy with the offsets and leader epoch that a leader assigns; no checksum covers them."""
    copy = bytearray(view)
    for position, magic, base, last, epoch in zip(*(columns[name] for name in _STAMPED), strict=True):
        if settings.assign_offsets:
            if base is None:
                text = "offsets are within the compressed payload: convert the batch to magic 2 first"
                raise AppendRefused(text, position, last)
            stamp(copy, position=position, base_offset=next_offset)
            next_offset += max(last - base, 0) + 1
        new_epoch = blank_epoch if settings.leader_epoch is None and _number(epoch) < 0 else settings.leader_epoch
        if magic >= BATCH_MAGIC and new_epoch is not None:
            stamp(copy, position=position, partition_leader_epoch=new_epoch)
    return copy


def _check_bytes(view: memoryview, row: dict[str, Any]) -> None:
    position, size, magic = row["position"], row["size_in_bytes"], row["magic"]
    fault = {"position": position, "base_offset": row["base_offset"], "next_position": position + size}
    stored, computed = batch_checksums(view[position : position + size], magic)
    if computed != stored:
        raise damage.error("crc_mismatch", fault | {"expected": stored, "found": computed})
    if row["compression"] is None:
        raise damage.error("unsupported_codec", fault)


def _check_fits_log(row: dict[str, Any], settings: WriterSettings, next_offset: int, epoch: int) -> None:
    base, last = row["base_offset"], row["last_offset"]
    first = last if base is None else base
    if first < next_offset or last < first or last >= _LONG_MAX:
        text = f"offsets {first} to {last} do not follow the log, which ends before offset {next_offset}"
        raise AppendRefused(text, row["position"], first)
    if row["size_in_bytes"] > settings.segment_bytes:
        text = f"{row['size_in_bytes']} bytes are above the limit of a segment (segment_bytes={settings.segment_bytes})"
        raise AppendRefused(text, row["position"], first)
    if 0 <= _number(row["partition_leader_epoch"]) < epoch:
        text = f"leader epoch {row['partition_leader_epoch']} is below {epoch}, the latest one of the log"
        raise AppendRefused(text, row["position"], first)


def _check_producer(
    view: memoryview,
    row: dict[str, Any],
    states: ProducerStates,
    open_now: dict[int, bool],
    markers: dict[int, Marker | None],
) -> None:
    """Raises AppendRefused for a plain batch within an open transaction of its producer; reads the marker of a control
    batch.

    open_now   {producer id: whether it has an open transaction}, for the producers of this append
    """
    producer_id, position = row["producer_id"], row["position"]
    if row["is_control"]:
        marker = markers[position] = _marker(view, row)
        if marker is not None:
            open_now[producer_id] = False
        return
    if producer_id not in open_now:
        known = states.producers.get(producer_id)
        open_now[producer_id] = known is not None and known.first_offset is not None
    if row["is_transactional"]:
        open_now[producer_id] = True
    elif open_now[producer_id]:
        text = f"a plain batch of producer {producer_id}, whose transaction is open: a broker would not start on it"
        raise AppendRefused(text, position, row["base_offset"])


def _marker(view: memoryview, row: dict[str, Any]) -> Marker | None:
    fault = {"position": row["position"], "base_offset": row["base_offset"]}
    try:
        marker = read_marker(bytes(view[row["position"] : row["position"] + row["size_in_bytes"]]))
    except KafkaRecordError as error:
        fault |= {name: getattr(error, name) for name in ("expected", "found", "record")} | {"detail": error.cause}
        raise damage.error(error.reason or "control_record_invalid", fault) from None
    if marker is None and row["record_count"]:
        detail = "a control batch with a producer ends a transaction: ABORT or COMMIT"
        raise damage.error("control_record_invalid", fault | {"detail": detail})
    return marker


def _number(value: int | None) -> int:
    return -1 if value is None else int(value)
