"""The active segment, to which batches are appended: its file, and its indexes in memory until it is finished

    NNN.log                            whole batches are appended; `sync` calls fsync
    NNN.index .timeindex .txnindex     written when the segment is finished, as by LogSegment.recover()

Until then there are no index files: a reader searches the segment from its start, and after a crash a broker or writer
rebuilds the indexes. A .txnindex that was written earlier would lack the transactions that were aborted later.

A segment is rolled as by LogSegment.shouldRoll of Kafka 4.4, applied to each batch. Kafka checks once per append of
several batches. Here each batch is checked as if it were appended alone. There is no jitter (segment.jitter.ms).

    size + batch size > segment_bytes                      a first batch above segment_bytes is refused
    max timestamp - that of the first batch > segment_ms   without a timestamp in the first batch: time since opening
    .index has max_index_size // 8 entries                 or .timeindex has one less than max_index_size // 12
    last offset - segment's base offset > 2^31-1           the limit of an index entry

Before they are appended, batches are checked as by UnifiedLog.appendAsFollower, and for a later recovery:

    framing and checksum   as by ensureValid; payloads of data are not decompressed
    offsets                strictly ascending from batch to batch and not below the log's end offset
    codec                  a known one
    size                   not above segment_bytes (RecordBatchTooLargeException)
    transactions           no plain batch of a producer whose transaction is open (InvalidTxnStateException: a broker
                           that recovers such a log fails on it), no control batch without a readable end marker
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec import damage
from kafkarec._core import Layout
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.java_integers import INT_MAX, LONG_MAX
from kafkarec.format.layout import LOG_OVERHEAD, batch_length
from kafkarec.format.schema import BATCH_FIELDS, Schema
from kafkarec.read.decode_options import checked_bytes
from kafkarec.read.walk import CHECKSUMS, MARKERS, BytesSegment, steps_of, walk_request
from kafkarec.recover.steps import Step, as_stored
from kafkarec.sidecars import offset_index, time_index, txn_index
from kafkarec.state.index_builders import SegmentIndexBuilder
from kafkarec.state.producers import ProducerStates
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.support.durable import fsync, write_file

WEEK_MS = 7 * 24 * 60 * 60 * 1000
# The minimum and maximum of each option. An index with fewer bytes than two time entries would always be full.
_LIMITS = {
    "segment_bytes": (1, INT_MAX),
    "segment_ms": (1, LONG_MAX),
    "index_interval_bytes": (0, INT_MAX),
    "max_index_size": (2 * time_index.ENTRY_SIZE, INT_MAX),
    "leader_epoch": (0, INT_MAX),
    "start_offset": (0, LONG_MAX - 1),
}
_NONE_ALLOWED = {"leader_epoch", "start_offset"}


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The options of a SegmentWriter, described there. Raises ValueError for a value out of range."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    max_index_size: int
    leader_epoch: int | None
    start_offset: int | None
    assign_offsets: bool
    preallocate: bool

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in _NONE_ALLOWED:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} {value!r}: must be an integer")
            if not low <= value <= high:
                raise ValueError(f"{name} {value}: must be {low} to {high}")


class AppendRefused(ValueError):
    """Good batches that cannot be appended to the log. Nothing of the append was written.

    why: str            the reason, without the position
    position: int       position of the batch in the appended bytes
    base_offset: int    of the batch; for a compressed message of magic 0 or 1 the last offset
    size: int | None    bytes of a batch that is above `segment_bytes`; None: the reason is another one
    """

    def __init__(self, why: str, position: int, base_offset: int, size: int | None = None) -> None:
        super().__init__(why, position, base_offset, size)
        self.why, self.position, self.base_offset, self.size = why, position, base_offset, size

    def __str__(self) -> str:
        place = f"at byte {self.position} (base offset {self.base_offset})"
        return f"the batch {place} was refused and nothing was written: {self.why}"


class CheckedBatches(NamedTuple):
    """Whole batches: the bytes that they are in, a step with them, and the columns of the batch table for each."""

    data: memoryview
    step: Step
    headers: list[dict[str, Any]]


_HEADER = Layout(
    Schema(
        BATCH_FIELDS[name]
        for name in (
            "position",
            "size_in_bytes",
            "magic",
            "base_offset",
            "last_offset",
            "record_count",
            "compression",
            "max_timestamp",
            "partition_leader_epoch",
            "is_control",
            "is_transactional",
            "producer_id",
        )
    )
)
_REQUEST = walk_request(MARKERS | CHECKSUMS)


def check_batches(
    data: Any,
    settings: WriterSettings,
    states: ProducerStates,
    next_offset: int,
    epoch: int,
    blank_epoch: int | None,
) -> list[CheckedBatches]:
    """The batches of a buffer, checked for a log that ends at `next_offset` with the leader epoch `epoch`.

    blank_epoch: the epoch to set on batches without a leader epoch

    Raises a KafkaRecordError for bytes that are not whole good batches, and AppendRefused for good batches that cannot
    be appended to this log.
    """
    view = checked_bytes(data)
    steps = _steps_of_good_batches(view)
    if settings.assign_offsets or settings.leader_epoch is not None or blank_epoch is not None:
        copy = bytearray(view)  # no checksum covers what a leader assigns
        view, offset = memoryview(copy), next_offset if settings.assign_offsets else -1
        for step in steps:
            offset = step.rows.stamp(copy, offset, as_stored(settings.leader_epoch), as_stored(blank_epoch))
    found = [CheckedBatches(view, step, step.rows.dicts(_HEADER, 0, len(step.rows))) for step in steps]
    open_now: dict[int, bool] = {}  # whether it has an open transaction, for the producers of this append
    for batches in found:
        for row, header in enumerate(batches.headers):
            position, size, last = header["position"], header["size_in_bytes"], header["last_offset"]
            first = last if header["base_offset"] is None else header["base_offset"]
            if header["compression"] is None:
                fault = {"position": position, "base_offset": header["base_offset"], "next_position": position + size}
                raise damage.error("unsupported_codec", fault)
            if settings.assign_offsets and header["base_offset"] is None:
                text = "offsets are within the compressed payload: convert the batch to magic 2 first"
                raise AppendRefused(text, position, last)
            if first < next_offset or last < first or last >= LONG_MAX:
                text = f"offsets {first} to {last} do not follow the log, which ends before offset {next_offset}"
                raise AppendRefused(text, position, first)
            if size > settings.segment_bytes:
                text = f"{size} bytes are above the limit of a segment (segment_bytes={settings.segment_bytes})"
                raise AppendRefused(text, position, first, size)
            new_epoch = as_stored(header["partition_leader_epoch"])
            if 0 <= new_epoch < epoch:
                text = f"leader epoch {new_epoch} is below {epoch}, the latest one of the log"
                raise AppendRefused(text, position, first)
            producer_id = as_stored(header["producer_id"])
            if producer_id < 0:
                pass
            elif header["is_control"]:
                if header["record_count"]:
                    _demand_end_marker(batches.step, row, {"position": position, "base_offset": first})
                    open_now[producer_id] = False
            elif header["is_transactional"]:
                open_now[producer_id] = True
            elif open_now.get(producer_id, states.has_open_transaction(producer_id)):
                text = f"a plain batch of producer {producer_id}, whose transaction is open: a broker would not start"
                raise AppendRefused(f"{text} on it", position, first)
            next_offset, epoch = last + 1, max(epoch, new_epoch)
    return found


def _steps_of_good_batches(view: memoryview) -> list[Step]:
    """Of all batches. KafkaRecordError for bytes that are not whole good batches; data batches are not decompressed."""
    segment = BytesSegment(view)
    part = _REQUEST.decoders.read(segment.source)
    if part.remaining:
        position = len(view) - part.remaining
        fault = {"position": position, "detail": "whole batches are expected"}
        if part.remaining >= LOG_OVERHEAD:
            fault |= {"base_offset": int.from_bytes(view[position : position + 8], "big", signed=True)}
            fault |= {"expected": batch_length(view, position) + LOG_OVERHEAD, "found": part.remaining}
        raise damage.error("length_beyond_end", fault)
    return list(steps_of(segment, 0, part))


def _demand_end_marker(step: Step, row: int, fault: dict[str, Any]) -> None:
    """Raises InvalidRecordError unless a control batch has the marker of an ended transaction. fault: its place"""
    try:
        if isinstance(control.parse(*step.control_record(row)), control.EndTxnMarker):
            return
    except KafkaRecordError as error:
        fault |= {"expected": error.expected, "found": error.found, "detail": error.cause}
        raise damage.error("control_record_invalid", fault) from None
    detail = "a control batch with a producer ends a transaction: ABORT or COMMIT"
    raise damage.error("control_record_invalid", fault | {"detail": detail})


INDEXES = (offset_index.SUFFIX, time_index.SUFFIX, txn_index.SUFFIX)
_LOG = ".log"


class WrittenSegment(NamedTuple):
    """A segment of the folder. size: number of bytes of its batches."""

    path: str
    base_offset: int
    size: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def log_name(base: int) -> str:
    return filename_prefix(base) + _LOG


class ActiveSegment:
    """A segment opened for writing; created if it does not exist. Index files with its name are removed; the caller
    syncs the folder.

    size             number of bytes of the whole batches in it, to which the file is truncated
    first_timestamp  max timestamp (ms) of its first batch; None: it has no batch yet
    now              current time (ms), from which the age of a segment without timestamps is computed
    """

    def __init__(
        self,
        folder: str,
        base: int,
        index_builder: SegmentIndexBuilder,
        states: ProducerStates,
        settings: WriterSettings,
        now: int,
        *,
        size: int = 0,
        first_timestamp: int | None = None,
    ) -> None:
        self.base, self.index_builder, self.size, self._states = base, index_builder, size, states
        self._folder, self._settings, self._opened_at = folder, settings, now
        self._first_timestamp = first_timestamp
        self.path = os.path.join(folder, log_name(base))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o644)
        try:
            os.ftruncate(self._descriptor, size)
            if settings.preallocate:
                os.posix_fallocate(self._descriptor, 0, settings.segment_bytes)
            for suffix in INDEXES:  # of these batches, or of a segment that was lost
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, filename_prefix(base) + suffix))
        except BaseException:
            self.close()
            raise

    @property
    def as_written(self) -> WrittenSegment:
        return WrittenSegment(self.path, self.base, self.size)

    def end_of_run(self, batches: CheckedBatches, start: int, now: int) -> int:
        """The end index of the run of batches from `start` on that can be appended to this segment; `start`: the log
        must be rolled before the first one."""
        settings, size, first = self._settings, self.size, self._first_timestamp
        offset_entries, time_entries = self.index_builder.entry_counts  # 0 or less is left of a full index
        left = min(
            settings.max_index_size // offset_index.ENTRY_SIZE - offset_entries,
            settings.max_index_size // time_index.ENTRY_SIZE - 1 - time_entries,
        )
        for number in range(start, len(batches.headers)):
            header = batches.headers[number]
            timestamp = as_stored(header["max_timestamp"])
            age = now - self._opened_at if first is None or first < 0 else max(timestamp, -1) - first
            # This assumes one index entry per batch. If the run ends because of that, the next run begins with the
            # real number of entries.
            if (
                size + header["size_in_bytes"] > settings.segment_bytes
                or (size and age > settings.segment_ms)
                or left <= number - start
                or header["last_offset"] - self.base > INT_MAX
            ):
                return number
            size += header["size_in_bytes"]
            first = timestamp if first is None else first
        return len(batches.headers)

    def append(self, batches: CheckedBatches, start: int, stop: int) -> None:
        """Appends batches [start, stop). On OSError the file is truncated to its previous size, if possible."""
        first, last = batches.headers[start], batches.headers[stop - 1]
        begin, end = first["position"], last["position"] + last["size_in_bytes"]
        view, at, moved = batches.data[begin:end], self.size, self.size - begin
        try:
            while view:
                done = os.pwrite(self._descriptor, view, at)
                at += done
                view = view[done:]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        aborted = self._states.take(batches.step, start, stop).aborted
        self.index_builder.add(batches.step.rows, aborted, start, stop, moved)
        if self._first_timestamp is None:
            self._first_timestamp = as_stored(first["max_timestamp"])
        self.size = at

    def sync(self) -> None:
        """Calls fsync. After an OSError the state of the file on the disk is not known."""
        fsync(self._descriptor, self.path)

    def finish(self) -> None:
        """Truncates the file to its batches, syncs it and writes the indexes. The caller syncs the folder."""
        os.ftruncate(self._descriptor, self.size)
        fsync(self._descriptor, self.path)
        for suffix, data in self.index_builder.finish().items():
            write_file(self._folder, filename_prefix(self.base) + suffix, data)

    def close(self) -> None:
        """Closes the file. May be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
