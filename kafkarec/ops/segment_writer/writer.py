"""SegmentWriter: writes a partition folder as a broker does, batch by batch


    orders-0/00000000000000000000.log         batches; the last segment's grows
    orders-0/00000000000000000000.index       with .timeindex and, where transactions were aborted, .txnindex
    orders-0/00000000000000000120.snapshot    producers before segment 120, and at the log's end
    orders-0/leader-epoch-checkpoint  partition.metadata

After a kill, a full disk or a power failure every batch below `recovery_point` is there; after it there are whole
batches or an incomplete one, which the next writer, a broker and every reader cut off. All files but the .log are
complete or do not exist. A segment and its side files are synced before the next one is created.
"""

from __future__ import annotations

import errno
import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import leader_epochs, partition_metadata, producer_snapshot
from kafkarec.state.index_builders import SegmentRebuild
from kafkarec.state.rebuild_folder import stem
from kafkarec.storage import names
from kafkarec.support.durable import make_folder, sync_folder, write_file
from kafkarec.tables.records import RecordColumns

from .active_segment import ActiveSegment, SegmentFile
from .append_checks import CheckedBatches, checked
from .folder_lock import FolderLock
from .recovery import demand_partition, drop_snapshots, recover, remove_partial_files
from .roll_params import INT_MAX, WEEK_MS, WriterSettings

_log = logging.getLogger("kafkarec")


def _now() -> int:
    """ms"""
    return time.time_ns() // 1_000_000


class SegmentWriter:
    """Writes record batches to a partition folder, TOPIC-PARTITION, for a broker. A context manager.

    folder                created if it does not exist; an existing log is appended to: an incomplete batch at its end
                          is cut off (`.cut`), a log damaged before its end is refused (CorruptRecordError)
    segment_bytes         max size of a segment (segment.bytes)
    segment_ms            max time between the max timestamps of its first and last batch (segment.ms)
    index_interval_bytes  bytes of log between two index entries (index.interval.bytes)
    max_index_size        max bytes of an .index or .timeindex; a full one rolls the segment (segment.index.bytes)
    flush_messages        flush after this many offsets (flush.messages); None: never
    leader_epoch          set in every batch of magic 2, as a leader does; None: keep that of the batches
    assign_offsets        assign offsets from `next_offset` on, as a leader does; False: keep those of the batches, with
                          possible gaps (a follower's, or a compacted log)
    start_offset          first offset of a new log; None: the first batch's base offset
    topic_id              a UUID or Kafka's 22 characters, for partition.metadata; None: keep it, or create one
    preallocate           allocate a segment's bytes when it is created
    check_all             read an existing log completely, with checksums; False: its last segment only

    .next_offset         the log end offset                    .segments   SegmentFile of each segment
    .recovery_point      everything below it is synced         .position   bytes in the last segment
    .topic, .partition   from the folder's name, or None       .cut        bytes that were cut off at the end

    OSError if writing fails. The writer then refuses further calls, as after a failed fsync it is not known what the
    disk holds (a broker takes such a data folder offline); create a new one to continue. BlockingIOError if another
    writer or a running broker has the folder. Not thread-safe.

    Follows LocalLog and LogSegment of Kafka 4.3; KIP-98, KIP-101, KIP-516.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        segment_bytes: int = 1 << 30,
        segment_ms: int = WEEK_MS,
        index_interval_bytes: int = 4096,
        max_index_size: int = 10 << 20,
        flush_messages: int | None = None,
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
            flush_messages,
            leader_epoch,
            start_offset,
            assign_offsets,
            preallocate,
        )
        self._folder = os.path.abspath(os.fsdecode(folder))
        named = names.folder(os.path.basename(self._folder))
        self.topic = named.topic if named else None
        self.partition = named.partition if named else None
        demand_partition(self._folder)
        make_folder(self._folder)
        self._lock = FolderLock(self._folder)
        try:
            self._begin(topic_id, check_all)
        except BaseException:
            self._release()
            raise

    def _begin(self, topic_id: str | UUID | None, check_all: bool) -> None:
        keep = _topic_id(self._folder, topic_id)
        found = recover(self._folder, self._settings, check_all)
        remove_partial_files(self._folder)
        start = found.segments[0].base_offset if found.segments else found.base
        asked = self._settings.start_offset
        if found.maker is not None and asked is not None and asked != start:
            raise ValueError(f"start_offset {asked}: there is a log that begins at offset {start}")
        self._states, self._epochs = found.states, found.epochs
        self._segments = found.segments
        self._next = found.next_offset
        self._recovery_point = found.next_offset
        self.cut = found.cut
        if found.maker is not None:
            self._active = ActiveSegment(
                self._folder,
                found.base,
                found.maker,
                self._settings,
                _now(),
                size=found.size,
                first_timestamp=found.first_timestamp,
            )
            self._active.remove_old_indexes()
            self._active.sync()
        else:
            drop_snapshots(self._folder, set())
            if asked is not None:
                self._open_segment(asked, _now())
        if found.cut:
            text = "%s: %d bytes behind offset %d were no whole good batch and are cut off"
            _log.warning(text, self._active.path if self._active else "", found.cut, self._next - 1)
        if keep is None:
            made = uuid4() if topic_id is None else topic_id
            write_file(self._folder, partition_metadata.NAME, partition_metadata.write(made))
        self._written_epochs: bytes | None = None
        self._write_epochs()
        sync_folder(self._folder)

    def append(self, data: Any) -> range:
        """Appends the record batches of a buffer and returns their offsets. All are checked before any is written.

        KafkaRecordError for bytes that are not whole good batches (payloads are not decompressed), AppendRefused (a
        ValueError) for batches that cannot be appended: offsets that do not ascend, a batch above `segment_bytes`, a
        non-transactional batch within its producer's open transaction. Nothing is written then.
        """
        return self._append(data, None)

    def _append(self, data: Any, blank_epoch: int | None) -> range:
        self._demand_open()
        epoch = self._epochs[-1].epoch if self._epochs else -1
        batches = checked(data, self._settings, self._states, self._next, epoch, blank_epoch)
        if not len(batches):
            return range(self._next, self._next)
        first = batches.columns["base_offset"][0]
        begin = self._next if first is None else first
        with self._closing_at_failure():
            self._put(batches)
        most = self._settings.flush_messages
        if most is not None and self._next - self._recovery_point >= most:
            self.flush()
        return range(begin, self._next)

    def _put(self, batches: CheckedBatches) -> None:
        start = 0
        while start < len(batches):
            row, now = batches.row(start), _now()
            if self._active is None or not self._active.takes(row, now):
                self._roll(row, now)
            assert self._active is not None
            stop = self._active.run(batches, start, now)
            self._active.put(batches.part(start, stop, self._active.size))
            self._next = batches.columns["last_offset"][stop - 1] + 1
            start = stop

    def write(self, records: Any, **options: Any) -> range:
        """Encodes records (rows, Record objects, or Arrow; options as for kafkarec.encode) and appends them. Offsets
        are assigned from `next_offset` on (base_offset=None: they are kept); batches without a leader epoch get the
        log's newest one, 0 in a new log. No batch is larger than a segment."""
        from kafkarec.write import encode
        from kafkarec.write.encoding import BATCH_SIZE

        self._demand_open()
        if self._settings.segment_bytes < BATCH_SIZE and not isinstance(records, RecordColumns):
            options.setdefault("batch_size", self._settings.segment_bytes)
        data = encode(records, **{"base_offset": self._next, **options})
        return self._append(data, self._epochs[-1].epoch if self._epochs else 0)

    def flush(self) -> int:
        """Syncs everything written so far; returns `recovery_point`, which is then `next_offset`."""
        self._demand_open()
        with self._closing_at_failure():
            if self._active is not None:
                self._active.sync()
            if self._write_epochs():
                sync_folder(self._folder)
        self._recovery_point = self._next
        return self._next

    def close(self) -> None:
        """Seals the last segment: everything is synced, with all side files, as after a broker's clean shutdown. A log
        without batches gets one empty segment. May be called twice."""
        if self._lock is None and self._failure is None:
            return
        self._demand_open()
        with self._closing_at_failure():
            if self._active is None:
                self._open_segment(self._next, _now())
            self._seal(self._next)
        self._recovery_point = self._next
        self._release()

    @property
    def next_offset(self) -> int:
        return self._next

    @property
    def recovery_point(self) -> int:
        return self._recovery_point

    @property
    def segments(self) -> tuple[SegmentFile, ...]:
        return (*self._segments, *((self._active.file,) if self._active else ()))

    @property
    def position(self) -> int:
        return self._active.size if self._active else 0

    def _roll(self, row: dict[str, Any], now: int) -> None:
        """Creates a segment for a batch, as UnifiedLog.maybeRoll: named by the batch's base offset, or if that is not
        known (magic 0 and 1) by the log's end offset."""
        known = row["base_offset"] if row["magic"] >= 2 else None
        base = max(row["last_offset"] - INT_MAX if known is None else known, self._next)
        if self._active is not None:
            self._seal(base)
        self._open_segment(base, now)

    def _open_segment(self, base: int, now: int) -> None:
        self._states.end_offset = max(self._states.end_offset, base)
        maker = SegmentRebuild(base, self._states, self._epochs, self._settings.index_interval_bytes)
        if self._active is None:  # the log's first segment
            self._recovery_point = base
            if base > 0:
                self._write_snapshot(base)
        begun = ActiveSegment(self._folder, base, maker, self._settings, now)
        if self._active is not None:
            self._segments.append(self._active.file)
            self._active.close()
        self._active = begun
        sync_folder(self._folder)

    def _seal(self, end: int) -> None:
        """Seals the last segment and writes its side files. `end`: the log end offset, or the next base offset."""
        assert self._active is not None
        self._active.seal()
        bases = {one.base_offset for one in self.segments}
        if end > self._active.base:
            self._write_snapshot(end)
        drop_snapshots(self._folder, bases | {end})
        self._write_epochs()
        sync_folder(self._folder)
        self._recovery_point = self._next

    def _write_snapshot(self, offset: int) -> None:
        data = producer_snapshot.write(self._states.snapshot())
        write_file(self._folder, stem(offset) + producer_snapshot.SUFFIX, data)

    def _write_epochs(self) -> bool:
        """Writes leader-epoch-checkpoint; returns False if nothing changed."""
        data = leader_epochs.write(self._epochs) if self._epochs else b""
        if data == self._written_epochs:
            return False
        write_file(self._folder, leader_epochs.NAME, data)
        self._written_epochs = data
        return True

    @contextmanager
    def _closing_at_failure(self) -> Iterator[None]:
        """After an exception the writer is closed without writing more: the next writer reads what the disk has."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            self._release()
            raise

    def _demand_open(self) -> None:
        if self._failure is not None:
            failure = self._failure
            number = failure.errno if isinstance(failure, OSError) and failure.errno else errno.EIO
            safe = f"what is below offset {self._recovery_point} is on the disk"
            text = f"the writer ended when writing failed ({failure}); {safe}"
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
        """Seals the log, also after an exception, as the appended batches are good. If that fails after an exception,
        it is only logged."""
        try:
            self.close()
        except OSError as error:
            if kind is None:
                raise
            _log.warning("%s is not sealed: %s", self._folder, error)

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            warnings.warn(f"the writer of {self._folder} was not closed", ResourceWarning, stacklevel=2)
            self._release()

    def __repr__(self) -> str:
        state = "failed" if self._failure else "closed" if self._lock is None else f"{self.position} bytes in the last"
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        return f"<SegmentWriter {self._folder}: {count}, next offset {self._next}, {state}>"


def _topic_id(folder: str, asked: str | UUID | None) -> str | None:
    """The topic id in the folder's partition.metadata, or None. ValueError if `asked` is another or an invalid one."""
    wanted = partition_metadata.topic_id_of(asked) if isinstance(asked, UUID) else asked
    try:
        if wanted is not None:
            partition_metadata.read(partition_metadata.write(wanted))
    except KafkaRecordError:
        raise ValueError(f"topic_id {asked!r}: a UUID, or its 22 characters as Kafka writes them") from None
    try:
        with open(os.path.join(folder, partition_metadata.NAME), "rb") as file:
            there = partition_metadata.read(file.read()).topic_id
    except FileNotFoundError:
        return None
    if wanted is not None and wanted != there:
        raise ValueError(f"topic_id {asked}: the folder is of topic {there}")
    return there
