"""SegmentWriter: writes a partition folder as a broker does, batch by batch


    orders-0/00000000000000000000.log         batches; only the last segment grows
    orders-0/00000000000000000000.index       with .timeindex and, if transactions were aborted, .txnindex
    orders-0/00000000000000000120.snapshot    producers before segment 120, and at the log's end
    orders-0/leader-epoch-checkpoint  partition.metadata

After a kill, a full disk or a power failure the log has every batch below `recovery_point`. It may have more whole
batches, and an incomplete one, which the next writer and a broker truncate and readers ignore. All files but the .log
are complete or do not exist. A segment and its side files are synced before the next one is created.
"""

from __future__ import annotations

import errno
import logging
import os
import time
import warnings
from typing import Any
from uuid import UUID, uuid4

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.format.uuids import uuid_text
from kafkarec.sidecars import leader_epochs, partition_metadata, producer_snapshot
from kafkarec.state.index_builders import SegmentIndexBuilder
from kafkarec.storage import names
from kafkarec.storage.rebuild_folder import snapshot_name
from kafkarec.support.durable import make_folder, sync_folder, write_file
from kafkarec.support.text_table import counted
from kafkarec.tables.records import RecordColumns

from .active_segment import (
    WEEK_MS,
    ActiveSegment,
    WriterSettings,
    WrittenSegment,
    check_batches,
)
from .recovery import FolderLock, check_is_partition, drop_snapshots, recover, remove_partial_files

_log = logging.getLogger("kafkarec")


def _now() -> int:
    """The current time in milliseconds."""
    return time.time_ns() // 1_000_000


class SegmentWriter:
    """Writes record batches to a partition folder, TOPIC-PARTITION, for a broker. A context manager.

    folder                created if it does not exist; an existing log is appended to: an incomplete batch at its end
                          is truncated (`.cut`), a log damaged before its end is refused (CorruptRecordError)
    segment_bytes         max size of a segment (segment.bytes)
    segment_ms            max time between the max timestamps of its first and last batch (segment.ms)
    index_interval_bytes  bytes of log between two index entries (index.interval.bytes)
    max_index_size        max bytes of an .index or .timeindex; a full one rolls the segment (segment.index.bytes)
    leader_epoch          set in every batch of magic 2, as a leader does; None: keep that of the batches
    assign_offsets        assign offsets from `next_offset` on, as a leader does; False: keep those of the batches, with
                          possible gaps (a follower's, or a compacted log)
    start_offset          first offset of a new log; None: the first batch's base offset
    topic_id              a UUID or Kafka's 22 characters, for partition.metadata; None: keep it, or create one
    preallocate           allocate all bytes of a segment when it is created
    check_all             read an existing log completely, with checksums; False: only its last segment

    .next_offset         the log end offset                    .segments   WrittenSegment of each segment
    .recovery_point      everything below it is synced         .position   bytes in the last segment
    .topic, .partition   from the folder's name, or None       .cut        bytes that were truncated at the end

    Raises OSError if writing fails. The writer then refuses further calls, as after a failed fsync the state of the
    disk is not known (a broker takes such a data folder offline); create a new writer to continue. Raises
    BlockingIOError if another writer or a running broker uses the folder. Not thread-safe.

    Implements LocalLog and LogSegment of Kafka 4.4; KIP-98, KIP-101, KIP-516.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        segment_bytes: int = 1 << 30,
        segment_ms: int = WEEK_MS,
        index_interval_bytes: int = 4096,
        max_index_size: int = 10 << 20,
        leader_epoch: int | None = None,
        assign_offsets: bool = False,
        start_offset: int | None = None,
        topic_id: str | UUID | None = None,
        preallocate: bool = False,
        check_all: bool = True,
    ) -> None:
        self._lock: FolderLock | None = None
        self._active: ActiveSegment | None = None
        self._failure: BaseException | None = None
        self._settings = WriterSettings(
            segment_bytes,
            segment_ms,
            index_interval_bytes,
            max_index_size,
            leader_epoch,
            start_offset,
            assign_offsets,
            preallocate,
        )
        self._folder = os.path.abspath(os.fsdecode(folder))
        named = names.folder(os.path.basename(self._folder))
        self.topic = named.topic if named else None
        self.partition = named.partition if named else None
        check_is_partition(self._folder)
        make_folder(self._folder)
        self._lock = FolderLock(self._folder)
        try:
            self._recover_or_create(topic_id, check_all)
        except BaseException:
            self._release()
            raise

    def _recover_or_create(self, topic_id: str | UUID | None, check_all: bool) -> None:
        keep = _topic_id(self._folder, topic_id)
        recovered = recover(self._folder, self._settings, check_all)
        remove_partial_files(self._folder)
        start = recovered.segments[0].base_offset if recovered.segments else recovered.base
        requested = self._settings.start_offset
        if recovered.index_builder is not None and requested is not None and requested != start:
            raise ValueError(f"start_offset {requested}: the existing log begins at offset {start}")
        self._states, self._epochs = recovered.states, recovered.epochs
        self._segments = recovered.segments
        self._next = self._recovery_point = recovered.next_offset
        self._has_earlier_snapshots = recovered.index_builder is not None
        self.cut = recovered.cut
        if recovered.index_builder is not None:
            self._active = ActiveSegment(
                self._folder,
                recovered.base,
                recovered.index_builder,
                self._states,
                self._settings,
                _now(),
                size=recovered.size,
                first_timestamp=recovered.first_timestamp,
            )
        else:
            drop_snapshots(self._folder, lambda offset: False)
            if requested is not None:
                self._open_segment(requested, _now())
        if recovered.cut:
            text = "%s: %d bytes after offset %d are not a whole good batch and are truncated"
            _log.warning(text, self._active.path if self._active else "", recovered.cut, self._next - 1)
        if keep is None:
            made = uuid4() if topic_id is None else topic_id
            write_file(self._folder, partition_metadata.NAME, partition_metadata.write(made))
        self._written_epochs: bytes | None = None
        self._write_epochs()
        sync_folder(self._folder)

    def append(self, data: Any) -> range:
        """Appends the record batches of a buffer and returns their offsets. All are checked before any is written.

        Raises KafkaRecordError for bytes that are not whole good batches (of data the headers and checksums), and
        AppendRefused (a ValueError) for batches that cannot be appended: offsets that do not ascend, a batch above
        `segment_bytes`, a non-transactional batch within its producer's open transaction. Nothing was written then.
        """
        return self._append(data, None)

    def _append(self, data: Any, blank_epoch: int | None) -> range:
        self._check_open()
        epoch = self._epochs[-1].epoch if self._epochs else -1
        found = check_batches(data, self._settings, self._states, self._next, epoch, blank_epoch)
        first = next((header["base_offset"] for batches in found for header in batches.headers), None)
        begin = self._next if first is None else first
        with _ClosingOnFailure(self):
            for batches in found:
                start = 0
                while start < len(batches.headers):
                    now = _now()
                    stop = start if self._active is None else self._active.end_of_run(batches, start, now)
                    if stop == start:
                        stop = self._roll(batches.headers[start], now).end_of_run(batches, start, now)
                    assert self._active is not None and stop > start
                    self._active.append(batches, start, stop)
                    self._next = batches.headers[stop - 1]["last_offset"] + 1
                    start = stop
        return range(begin, self._next)

    def write(self, records: Any, **options: Any) -> range:
        """Encodes records (rows, Record objects, or Arrow; options as for kafkarec.encode) and appends them. Offsets
        are assigned from `next_offset` on (base_offset=None: they are kept); batches without a leader epoch get the
        log's newest one, 0 in a new log. No batch is larger than a segment."""
        from kafkarec.write import encode
        from kafkarec.write.encoding import BATCH_SIZE

        self._check_open()
        if self._settings.segment_bytes < BATCH_SIZE and not isinstance(records, RecordColumns):
            options.setdefault("batch_size", self._settings.segment_bytes)
        data = encode(records, **{"base_offset": self._next, **options})
        return self._append(data, self._epochs[-1].epoch if self._epochs else 0)

    def flush(self) -> int:
        """Syncs everything written so far. Returns `recovery_point`, which is then equal to `next_offset`."""
        self._check_open()
        with _ClosingOnFailure(self):
            if self._active is not None:
                self._active.sync()
            if self._write_epochs():
                sync_folder(self._folder)
        self._recovery_point = self._next
        return self._next

    def roll_to(self, base_offset: int) -> None:
        """Ends the log at this offset if it is above `next_offset`, with an empty segment, as the log of a broker ends
        that lost its last batches. Later batches begin there."""
        self._check_open()
        if base_offset > self._next:
            with _ClosingOnFailure(self):
                if self._active is not None:
                    self._finish_segment(base_offset)
                self._open_segment(base_offset, _now())
                self._next = base_offset

    def close(self) -> None:
        """Finishes the last segment: everything is synced, with all side files, as after a broker's clean shutdown. A
        log without batches gets one empty segment. May be called twice."""
        if self._lock is None and self._failure is None:
            return
        self._check_open()
        with _ClosingOnFailure(self):
            if self._active is None:
                self._open_segment(self._next, _now())
            self._finish_segment(self._next)
        self._recovery_point = self._next
        self._release()

    @property
    def next_offset(self) -> int:
        return self._next

    @property
    def recovery_point(self) -> int:
        return self._recovery_point

    @property
    def segments(self) -> tuple[WrittenSegment, ...]:
        return (*self._segments, *((self._active.as_written,) if self._active else ()))

    @property
    def position(self) -> int:
        return self._active.size if self._active else 0

    def _roll(self, header: dict[str, Any], now: int) -> ActiveSegment:
        """Creates a segment for a batch, as UnifiedLog.maybeRoll: named after the batch's base offset or, if that is
        not known (magic 0 and 1), after the log end offset."""
        known = header["base_offset"] if header["magic"] >= 2 else None
        base = max(header["last_offset"] - INT_MAX if known is None else known, self._next)
        if self._active is not None:
            self._finish_segment(base)
        return self._open_segment(base, now)

    def _open_segment(self, base: int, now: int) -> ActiveSegment:
        self._states.end_offset = max(self._states.end_offset, base)
        index_builder = SegmentIndexBuilder(base, self._epochs, self._settings.index_interval_bytes)
        if self._active is None:  # the log's first segment
            self._recovery_point = base
            if base > 0:
                self._write_snapshot(base)
        new_segment = ActiveSegment(self._folder, base, index_builder, self._states, self._settings, now)
        if self._active is not None:
            self._segments.append(self._active.as_written)
            self._active.close()
        self._active = new_segment
        sync_folder(self._folder)
        return new_segment

    def _finish_segment(self, end: int) -> None:
        """Finishes the last segment and writes its side files. end: the log end offset, or the next base offset."""
        assert self._active is not None
        self._active.finish()
        if end > self._active.base:
            self._write_snapshot(end)
        if self._has_earlier_snapshots:  # such as that of the log's end when an earlier writer was closed
            kept = {one.base_offset for one in self.segments} | {end}
            drop_snapshots(self._folder, kept.__contains__)
            self._has_earlier_snapshots = False
        self._write_epochs()
        sync_folder(self._folder)
        self._recovery_point = self._next

    def _write_snapshot(self, offset: int) -> None:
        write_file(self._folder, snapshot_name(offset), producer_snapshot.write(self._states.snapshot()))

    def _write_epochs(self) -> bool:
        """Writes leader-epoch-checkpoint; returns False if nothing changed."""
        data = leader_epochs.write(self._epochs) if self._epochs else b""
        if data == self._written_epochs:
            return False
        write_file(self._folder, leader_epochs.NAME, data)
        self._written_epochs = data
        return True

    def _check_open(self) -> None:
        if self._failure is not None:
            failure = self._failure
            number = failure.errno if isinstance(failure, OSError) and failure.errno else errno.EIO
            synced = f"batches below offset {self._recovery_point} are on the disk"
            text = f"the writer was closed when writing failed ({failure}); {synced}"
            raise OSError(number, text, self._folder) from failure
        if self._lock is None:
            raise ValueError(f"the writer of {self._folder} is closed")
        if not self._lock.is_ours:
            raise ValueError(f"the writer of {self._folder} belongs to the process that opened it")

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if self._active is not None:
            self._active.close()
        if lock is not None:
            lock.release()

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Closes the writer, also after an exception, as the appended batches are good. If closing fails after an
        exception, this is only logged."""
        try:
            self.close()
        except OSError as error:
            if kind is None:
                raise
            _log.warning("%s was not finished: %s", self._folder, error)

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            warnings.warn(f"the writer of {self._folder} was not closed", ResourceWarning, stacklevel=2)
            self._release()

    def __repr__(self) -> str:
        state = "failed" if self._failure else "closed" if self._lock is None else f"{self.position} bytes in the last"
        count = counted(len(self.segments), "segment")
        return f"<SegmentWriter {self._folder}: {count}, next offset {self._next}, {state}>"


class _ClosingOnFailure:
    """Closes a writer after an exception, without writing more. The next writer reads what is on the disk. A class, as
    a generator of contextlib takes a tenth of the time of a small append."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, place: Any) -> None:
        if error is not None:
            self._writer._failure = error
            self._writer._release()


def _topic_id(folder: str, requested: str | UUID | None) -> str | None:
    """The topic id in the folder's partition.metadata, or None. Raises ValueError if `requested` is another or an
    invalid one."""
    wanted_id = uuid_text(requested.bytes) if isinstance(requested, UUID) else requested
    try:
        if wanted_id is not None:
            partition_metadata.read(partition_metadata.write(wanted_id))
    except KafkaRecordError:
        raise ValueError(f"topic_id {requested!r}: a UUID, or its 22 characters as Kafka writes them") from None
    try:
        with open(os.path.join(folder, partition_metadata.NAME), "rb") as file:
            stored = partition_metadata.read(file.read()).topic_id
    except FileNotFoundError:
        return None
    if wanted_id is not None and wanted_id != stored:
        raise ValueError(f"topic_id {requested}: the folder has the topic id {stored}")
    return stored
