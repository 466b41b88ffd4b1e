"""SegmentWriter: a partition folder like a broker's, batch by batch

    orders-0/00000000000000000000.log         batches; the last segment's grows
    orders-0/00000000000000000000.index       with .timeindex and, where transactions were aborted, .txnindex
    orders-0/00000000000000000120.snapshot    producers in front of segment 120, and at the log's end
    orders-0/leader-epoch-checkpoint  partition.metadata

What holds when the process is killed, the disk is full or the power fails: every batch in front of `recovery_point`
is there; behind it there are whole batches or a torn end, which the next writer, a broker and every reader cut off.
All files but the .log are complete under their name or not there. A segment and its small files are on the disk before
the next one is begun.
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
from .recovery import demand_partition, drop_parts, drop_snapshots, recover
from .roll_params import INT_MAX, WEEK_MS, WriterSettings

_log = logging.getLogger("kafkarec")


def _now() -> int:
    """ms"""
    return time.time_ns() // 1_000_000


class SegmentWriter:
    """Writes record batches to a partition folder, TOPIC-PARTITION, that a broker then serves. A context manager.

    folder                made where it is not there; one with a log is gone on with: a torn end is cut off (`.cut`), a
                          folder that is damaged in front of its end is refused (CorruptRecordError)
    segment_bytes         a segment is rolled before it grows beyond (segment.bytes)
    segment_ms            and when a batch is so much later than its first one (segment.ms); record time, as in Kafka
    index_interval_bytes  log between two index entries (index.interval.bytes)
    max_index_size        bytes of an .index or .timeindex, with which a segment is rolled too (segment.index.bytes)
    flush_messages        flush by itself when so many offsets are not on the disk yet (flush.messages); None: never
    leader_epoch          written into every batch of magic 2, as a leader does; None: as the batches have it
    assign_offsets        give offsets from `next_offset` on, as a leader does; False: take those of the batches, which
                          may leave gaps (a follower's, or a compacted log)
    start_offset          where a new log begins; None: at the first batch's base offset
    topic_id              a UUID or Kafka's 22 characters, for partition.metadata; None: keep it, or make one
    preallocate           reserve a segment's bytes when it is begun
    check_all             read a whole log that is there already and its checksums; False: its last segment alone

    .next_offset      the offset behind the last batch           .segments   SegmentFile of each segment
    .recovery_point   everything in front of it is on the disk   .position   bytes in the last segment
    .topic, .partition   as the folder's name has them, or None  .cut        bytes of a torn end that was cut off

    OSError as the system gives it where writing fails. The writer has then ended, as a broker takes a failing data
    folder out of service: after a failed fsync nobody knows what the disk holds. Open the folder again to go on.
    BlockingIOError when another writer, or a running broker, has the folder. One thread at a time.
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
            segment_bytes, segment_ms, index_interval_bytes, max_index_size, flush_messages, leader_epoch, start_offset,
            assign_offsets, preallocate,
        )  # fmt: skip
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
            self._let_go()
            raise

    def _begin(self, topic_id: str | UUID | None, check_all: bool) -> None:
        keep = _topic_id(self._folder, topic_id)
        found = recover(self._folder, self._settings, check_all)
        drop_parts(self._folder)
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
                self._folder, found.base, found.maker, self._settings, _now(),
                size=found.size, first_timestamp=found.first_timestamp,
            )  # fmt: skip
            self._active.unseal()
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
        """Writes one or many record batches, a buffer, and gives the offsets they take. All are looked at first.

        KafkaRecordError for bytes that are no whole good batches (their payload is not decompressed), AppendRefused (a
        ValueError) for batches that cannot follow: offsets that do not go up, more bytes than a segment takes, a plain
        batch within its producer's open transaction. Then nothing is written.
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
        with self._ending_at_failure():
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
        """Encodes records (rows, Record objects, or Arrow: see kafkarec.encode, which takes the options) and appends
        them. Their offsets are moved to `next_offset` (base_offset=None: they stay as they are); what has no leader
        epoch gets the log's newest one, 0 in a new log. No batch is larger than a segment."""
        from kafkarec.write import encode
        from kafkarec.write.encoding import BATCH_SIZE

        self._demand_open()
        if self._settings.segment_bytes < BATCH_SIZE and not isinstance(records, RecordColumns):
            options.setdefault("batch_size", self._settings.segment_bytes)
        data = encode(records, **{"base_offset": self._next, **options})
        return self._append(data, self._epochs[-1].epoch if self._epochs else 0)

    def flush(self) -> int:
        """Everything so far is on the disk when it returns; gives `recovery_point`, which is then `next_offset`."""
        self._demand_open()
        with self._ending_at_failure():
            if self._active is not None:
                self._active.sync()
            if self._write_epochs():
                sync_folder(self._folder)
        self._recovery_point = self._next
        return self._next

    def close(self) -> None:
        """Seals the last segment: everything is on the disk, with all small files, as behind a broker's clean stop.
        A log without batches gets its one empty segment. Safe to call twice."""
        if self._lock is None and self._failure is None:
            return
        self._demand_open()
        with self._ending_at_failure():
            if self._active is None:
                self._open_segment(self._next, _now())
            self._seal(self._next)
        self._recovery_point = self._next
        self._let_go()

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
        """Begins a segment for a batch: named by its base offset, or where that is not known (magic 0 and 1) by the
        log's end, as UnifiedLog.maybeRoll."""
        known = row["base_offset"] if row["magic"] >= 2 else None
        base = max(row["last_offset"] - INT_MAX if known is None else known, self._next)
        if self._active is not None:
            self._seal(base)
        self._open_segment(base, now)

    def _open_segment(self, base: int, now: int) -> None:
        self._states.end_offset = max(self._states.end_offset, base)
        maker = SegmentRebuild(base, self._states, self._epochs, self._settings.index_interval_bytes)
        if self._active is None:  # the log's first one: nothing is in front of it
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
        """The last segment and its small files are on the disk; `end`: its log end offset, or the next one's base."""
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
        """Whether there was anything new."""
        data = leader_epochs.write(self._epochs) if self._epochs else b""
        if data == self._written_epochs:
            return False
        write_file(self._folder, leader_epochs.NAME, data)
        self._written_epochs = data
        return True

    @contextmanager
    def _ending_at_failure(self) -> Iterator[None]:
        """Where anything goes wrong in here nothing more is written: the next writer reads what the disk has."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            self._let_go()
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

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        if self._active is not None:
            self._active.close()
        if lock is not None:
            lock.release()

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Seals the log, also behind an exception: what was appended is good. A failure of that is then only logged."""
        try:
            self.close()
        except OSError as error:
            if kind is None:
                raise
            _log.warning("%s is not sealed: %s", self._folder, error)

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            warnings.warn(f"the writer of {self._folder} was not closed", ResourceWarning, stacklevel=2)
            self._let_go()

    def __repr__(self) -> str:
        state = "failed" if self._failure else "closed" if self._lock is None else f"{self.position} bytes in the last"
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        return f"<SegmentWriter {self._folder}: {count}, next offset {self._next}, {state}>"


def _topic_id(folder: str, asked: str | UUID | None) -> str | None:
    """The id that a folder has; None: none. ValueError where another one is asked for, or one that is none."""
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
