"""Checks of batches before they are written: those of UnifiedLog.appendAsFollower, and those that recovery needs

framing and checksum        as ensureValid; payloads are not decompressed
offsets                     strictly ascending from batch to batch and not below the log's end offset
codec                       a known one
size                        not above segment_bytes (RecordBatchTooLargeException)
transactions                no plain batch of a producer whose transaction is open (InvalidTxnStateException: a broker
                            that recovers such a log fails on it), no control batch without a readable end marker
"""

from __future__ import annotations

import binascii
from typing import Any, NamedTuple

from crc32c import crc32c

from kafkarec import damage
from kafkarec.errors import KafkaRecordError
from kafkarec.read import reader
from kafkarec.state.producers import Marker, ProducerStates, read_marker
from kafkarec.state.recovery_walk import CHECKED_FROM
from kafkarec.state.recovery_walk import COLUMNS as WALKED
from kafkarec.write.stamping import stamp

from .roll_params import WriterSettings

COLUMNS = (*WALKED, "compression", "record_count")
_STAMPED = ("position", "magic", "base_offset", "last_offset", "partition_leader_epoch")
_LONG_MAX = 2**63 - 1
_PREFIX = 12  # offset and size, which the size field does not count


class AppendRefused(ValueError):
    """Good batches that cannot be appended to the log. Nothing of the append was written.

    position: int       position of the batch in the appended bytes
    base_offset: int    its own; of a compressed message of magic 0 or 1 the last offset
    """

    def __init__(self, message: str, position: int, base_offset: int) -> None:
        super().__init__(message)
        self.position, self.base_offset = position, base_offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.position, self.base_offset)


class CheckedBatches(NamedTuple):
    """Whole batches: their bytes, a list for each name of COLUMNS, and the markers of control batches by position."""

    data: memoryview
    columns: dict[str, list[Any]]
    markers: dict[int, Marker | None]

    def __len__(self) -> int:
        return len(self.columns["position"])

    def row(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.columns.items()}

    def part(self, start: int, stop: int, at: int) -> CheckedBatches:
        """Batches [start, stop), with positions for a file in which they begin at byte `at`."""
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        positions = columns["position"]
        begin, end = positions[0], positions[-1] + columns["size_in_bytes"][-1]
        markers = {position - begin + at: self.markers[position] for position in positions if position in self.markers}
        columns["position"] = [position - begin + at for position in positions]
        return CheckedBatches(self.data[begin:end], columns, markers)


def checked(
    data: Any,
    settings: WriterSettings,
    states: ProducerStates,
    next_offset: int,
    epoch: int,
    blank_epoch: int | None = None,
) -> CheckedBatches:
    """The batches of a buffer, checked for a log that ends at `next_offset` with the leader epoch `epoch`.

    blank_epoch: the epoch to set on batches without a leader epoch

    CorruptRecordError, InvalidRecordError, ... for bytes that are not whole good batches; AppendRefused for good ones
    that cannot be appended to this log.
    """
    view = memoryview(data).cast("B")
    found = _framed(view)
    if settings.assign_offsets or settings.leader_epoch is not None or blank_epoch is not None:
        view = memoryview(_stamped(view, found, settings, next_offset, blank_epoch))
        found = _framed(view)
    made = CheckedBatches(view, found, {})
    open_now: dict[int, bool] = {}
    for number in range(len(made)):
        row = made.row(number)
        _check_bytes(view, row)
        _check_place(row, settings, next_offset, epoch)
        if row["producer_id"] is not None and row["producer_id"] >= 0:
            _check_producer(view, row, states, open_now, made.markers)
        next_offset = row["last_offset"] + 1
        epoch = max(epoch, _number(row["partition_leader_epoch"]))
    return made


def _framed(view: memoryview) -> dict[str, list[Any]]:
    table = reader.scan(view)
    if table.remaining:
        position = len(view) - table.remaining
        fault: dict[str, Any] = {"position": position, "detail": "whole batches are expected"}
        if table.remaining >= _PREFIX:
            claimed = int.from_bytes(view[position + 8 : position + _PREFIX], "big", signed=True) + _PREFIX
            fault |= {"base_offset": int.from_bytes(view[position : position + 8], "big", signed=True)}
            fault |= {"expected": claimed, "found": table.remaining}
        raise damage.error("length_beyond_end", fault)
    return {name: table.column(name) for name in COLUMNS}


def _stamped(
    view: memoryview, columns: dict[str, list[Any]], settings: WriterSettings, next_offset: int, blank_epoch: int | None
) -> bytearray:
    """A copy with the offsets and leader epoch that a leader assigns; no checksum covers them."""
    copy = bytearray(view)
    for position, magic, base, last, epoch in zip(*(columns[name] for name in _STAMPED), strict=True):
        if settings.assign_offsets:
            if base is None:
                text = "offsets are within the compressed payload: convert the batch to magic 2 first"
                raise AppendRefused(_sentence(text, position, last), position, last)
            stamp(copy, position=position, base_offset=next_offset)
            next_offset += max(last - base, 0) + 1
        given = blank_epoch if settings.leader_epoch is None and _number(epoch) < 0 else settings.leader_epoch
        if magic >= 2 and given is not None:
            stamp(copy, position=position, partition_leader_epoch=given)
    return copy


def _check_bytes(view: memoryview, row: dict[str, Any]) -> None:
    position, size, magic = row["position"], row["size_in_bytes"], row["magic"]
    checksum = crc32c if magic == 2 else binascii.crc32
    fault = {"position": position, "base_offset": row["base_offset"], "next_position": position + size}
    computed = checksum(view[position + CHECKED_FROM[magic] : position + size])
    if computed != row["crc"]:
        raise damage.error("crc_mismatch", fault | {"expected": row["crc"], "found": computed})
    if row["compression"] is None:
        raise damage.error("unsupported_codec", fault)


def _check_place(row: dict[str, Any], settings: WriterSettings, next_offset: int, epoch: int) -> None:
    base, last = row["base_offset"], row["last_offset"]
    first = last if base is None else base
    if first < next_offset or last < first or last >= _LONG_MAX:
        text = f"offsets {first} to {last} do not follow the log, which goes on at {next_offset}"
        raise AppendRefused(_sentence(text, row["position"]), row["position"], first)
    if row["size_in_bytes"] > settings.segment_bytes:
        text = f"{row['size_in_bytes']} bytes are more than a segment holds (segment_bytes={settings.segment_bytes})"
        raise AppendRefused(_sentence(text, row["position"], first), row["position"], first)
    if 0 <= _number(row["partition_leader_epoch"]) < epoch:
        text = f"leader epoch {row['partition_leader_epoch']} is below {epoch}, which the log has reached"
        raise AppendRefused(_sentence(text, row["position"], first), row["position"], first)


def _check_producer(
    view: memoryview,
    row: dict[str, Any],
    states: ProducerStates,
    open_now: dict[int, bool],
    markers: dict[int, Marker | None],
) -> None:
    """open_now: producer id -> whether it has an open transaction, for the producers of this append"""
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
        raise AppendRefused(_sentence(text, position, row["base_offset"]), position, row["base_offset"])


def _marker(view: memoryview, row: dict[str, Any]) -> Marker | None:
    fault = {"position": row["position"], "base_offset": row["base_offset"]}
    try:
        marker = read_marker(bytes(view[row["position"] : row["position"] + row["size_in_bytes"]]))
    except KafkaRecordError as error:
        reason = error.reason or "control_record_invalid"
        raise type(error)(damage.sentence(reason, fault | {"detail": str(error)}), reason=reason, **fault) from None
    if marker is None and row["record_count"]:
        detail = "a control batch with a producer ends a transaction: ABORT or COMMIT"
        raise damage.error("control_record_invalid", fault | {"detail": detail})
    return marker


def _sentence(text: str, position: int, base_offset: int | None = None) -> str:
    offset = "" if base_offset is None else f" (base offset {base_offset})"
    return f"the batch at byte {position}{offset} is refused, nothing was written: {text}"


def _number(value: int | None) -> int:
    return -1 if value is None else int(value)
