"""Recovers an existing partition folder for appending, as a broker does after a crash, and locks it meanwhile

    last segment     read with checksums; bytes after its last good batch are cut off, if no good batch follows
    others           also read, and must not be damaged; missing indexes are rebuilt
    producers        from the latest .snapshot, and the batches after it
    epochs           those of leader-epoch-checkpoint that begin below the log's end, and those of the batches
    *.part           files of a killed writer, which are removed, as are snapshots above the log's end

    .kafkarec.lock   in the folder, locked by flock, removed at the end; the file of a killed writer is reused
    ../.lock         the broker's lock of its data folder: locked in shared mode, so that no broker starts there

A broker deletes every segment after a damaged one (LogLoader.recoverLog). Here damage before the end is an error:
`kafkarec salvage` copies the good batches.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from kafkarec.damage import Damage
from kafkarec.errors import REASONS, CorruptRecordError, KafkaRecordError
from kafkarec.read.walk import CHECKSUMS, MARKERS, walk, walk_request
from kafkarec.recover.steps import as_stored
from kafkarec.sidecars import leader_epochs, meta_properties, offset_index, producer_snapshot, time_index, txn_index
from kafkarec.state.index_builders import SegmentIndexBuilder
from kafkarec.state.producers import RECOVERY, ProducerStates, producers_at_log_start
from kafkarec.storage import names, opening
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.rebuild_folder import filename_prefix, snapshot_name, stored_epochs
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import PART, fsync, sync_folder, write_file

from .active_segment import WriterSettings, WrittenSegment, log_name

NAME, BROKER_NAME = ".kafkarec.lock", ".lock"
_BUSY = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
# struct flock on 64-bit Linux: type, whence, start, length (0: to the end), pid. An open file description lock is
# used, as a process's lock would be released when the process closes any other descriptor of that file.
_SHARED = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


class FolderLock:
    """Locks the folder when created. Raises BlockingIOError if another writer or a broker has locked it."""

    def __init__(self, folder: str) -> None:
        self._path, self._process = os.path.join(folder, NAME), os.getpid()
        self._broker = _lock_out_brokers(os.path.join(os.path.dirname(os.path.abspath(folder)), BROKER_NAME))
        try:
            self._descriptor = self._open_and_lock(folder)
        except BaseException:
            self._release_broker_lock()
            raise

    def _open_and_lock(self, folder: str) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):  # removed by the previous owner between open and flock
                    if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                        return descriptor
                os.close(descriptor)
            except OSError as error:
                os.close(descriptor)
                if error.errno in _BUSY:
                    text = "another writer is using this folder"
                    raise BlockingIOError(errno.EWOULDBLOCK, text, folder) from None
                raise

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that created the lock, not a fork of it."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Releases the lock. May be called twice. In a forked child it closes the child's descriptors only."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self.is_ours:
                with suppress(OSError):
                    os.unlink(self._path)
            os.close(descriptor)
        self._release_broker_lock()

    def _release_broker_lock(self) -> None:
        if self._broker >= 0:
            os.close(self._broker)
            self._broker = -1


def _lock_out_brokers(path: str) -> int:
    """A descriptor with a shared lock on a data folder's .lock; -1: there is no such file, or the system has no such
    locks."""
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        return -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return -1
    try:
        fcntl.fcntl(descriptor, command, _SHARED)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _BUSY:
            text = "a broker is running on this data folder"
            raise BlockingIOError(errno.EWOULDBLOCK, text, os.path.dirname(path)) from None
        return -1
    return descriptor


_ADVICE = "nothing was changed; kafkarec salvage copies what is good to a new folder"


@dataclass
class RecoveredLog:
    """The state of a recovered log.

    segments          all but the last one
    index_builder     rebuilds the indexes of the last segment; None: there is no segment yet
    base, size        of the last segment: the base offset in its name, the number of bytes of its good batches
    cut               number of bytes after these, to be truncated
    rewritten_files   {name: bytes} of side files that were missing or unusable
    """

    states: ProducerStates
    epochs: list[leader_epochs.EpochEntry]
    next_offset: int
    segments: list[WrittenSegment] = field(default_factory=list)
    index_builder: SegmentIndexBuilder | None = None
    base: int = 0
    size: int = 0
    cut: int = 0
    rewritten_files: dict[str, bytes] = field(default_factory=dict)
    first_timestamp: int | None = None


def check_is_partition(folder: str) -> None:
    """Raises ValueError for a broker's data folder. Nothing is written or locked there."""
    if not os.path.isdir(folder):
        return
    opened = opening.open(folder)
    if isinstance(opened, DataFolderFiles) and (
        len(opened) or os.path.exists(os.path.join(folder, meta_properties.NAME))
    ):
        raise ValueError(f"{folder} is a data folder with partition folders: name one of these, or a new one")


def recover(folder: str, settings: WriterSettings, check_all: bool) -> RecoveredLog:
    """Reads the folder, then writes missing or unusable side files.

    Raises CorruptRecordError if it is damaged before its end, and ValueError if files do not have a broker's names or a
    broker must complete an operation (.swap). Nothing was changed then.
    """
    opened = opening.open(folder)
    if isinstance(opened, PartitionFiles):
        with opened as log:
            for segment in log.segments:
                if segment.base_offset is None or segment.name != log_name(segment.base_offset):
                    raise ValueError(f"{segment.path} does not have a name as in a broker's folder; {_ADVICE}")
            swaps = names.swaps_to_rename(os.listdir(folder))
            if swaps:
                raise ValueError(f"{folder} contains {swaps[0]}, which a broker must first swap in; {_ADVICE}")
            if log.segments:
                return _recover_segments(folder, log, settings, check_all)
    return RecoveredLog(ProducerStates(policy=RECOVERY), [], settings.start_offset or 0)


def remove_partial_files(folder: str) -> None:
    """Removes the incomplete files of a killed writer."""
    for name in os.listdir(folder):
        final_name = name.removesuffix(PART)
        is_ours = final_name in names.OF_A_PARTITION or names.segment(final_name) is not None
        if final_name != name and is_ours:
            os.unlink(os.path.join(folder, name))


def _recover_segments(folder: str, log: PartitionFiles, settings: WriterSettings, check_all: bool) -> RecoveredLog:
    last = len(log.segments) - 1
    log_start, start = (log.segments[at].base_offset or 0 for at in (0, last))
    epochs, _ = stored_epochs(log)
    if check_all or not (epochs and epochs[0].start_offset <= log_start and _states_by_snapshot(log, start)):
        start, first = log_start, 0
    else:
        first = last  # the epochs before it and its snapshot are there
    states = producers_at_log_start(log.segments[first], start, RECOVERY).states
    recovered = RecoveredLog(states, epochs, start)
    recovered.segments = [WrittenSegment(one.path, one.base_offset or 0, one.size) for one in log.segments[:last]]
    for segment in log.segments:
        descriptor = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fsync(descriptor, segment.path)
            # after a failed fsync the page cache may differ from the disk
            if segment is log.segments[last] and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    for number in range(first, last + 1):
        _read_segment(log, log.segments[number], number == last, recovered, settings)
    recovered.states = _states_by_snapshot(log, recovered.next_offset) or recovered.states
    for name, data in recovered.rewritten_files.items():
        write_file(folder, name, data)
    # LeaderEpochFileCache.truncateFromStart, truncateFromEnd
    known = [entry for entry in epochs if entry.start_offset < recovered.next_offset]
    before = [entry._replace(start_offset=log_start) for entry in known if entry.start_offset <= log_start]
    recovered.epochs[:] = before[-1:] + [entry for entry in known if entry.start_offset > log_start]
    drop_snapshots(folder, lambda offset: offset <= recovered.next_offset)
    sync_folder(folder)
    return recovered


def _states_by_snapshot(log: PartitionFiles, offset: int) -> ProducerStates | None:
    """The producers at an offset, from its snapshot; None: there is no readable one. It has more than the batches, as
    the cleaner removes markers. A broker also begins with the latest snapshot."""
    try:
        data = log.folder_file(snapshot_name(offset))
        return None if data is None else ProducerStates(producer_snapshot.read(data), offset, RECOVERY)
    except KafkaRecordError:
        return None


def _read_segment(
    log: PartitionFiles, segment: SegmentFile, is_last: bool, recovered: RecoveredLog, settings: WriterSettings
) -> None:
    """Reads one segment and updates `recovered`."""
    base = segment.base_offset or 0
    if base < recovered.next_offset:
        _refuse(segment, 0, f"its name is below offset {recovered.next_offset}, at which the segment before it ends")
    recovered.base, recovered.size, recovered.next_offset, recovered.first_timestamp = base, 0, base, None
    recovered.states.end_offset = base
    if recovered.index_builder is not None:
        known = _states_by_snapshot(log, base)
        if known is None:
            recovered.rewritten_files[snapshot_name(base)] = producer_snapshot.write(recovered.states.snapshot())
        recovered.states = known or recovered.states
    recovered.index_builder = SegmentIndexBuilder(base, recovered.epochs, settings.index_interval_bytes)
    damage: list[Damage] = []
    for step in walk([segment], walk_request(MARKERS | CHECKSUMS, errors="skip", restore=False)):
        damage = sorted((*damage, *step.damage), key=lambda one: one.position)
        unreadable = next((one for one in damage if one.reason == "unreadable"), None)
        if unreadable is not None:
            raise OSError(errno.EIO, f"{unreadable.detail}; {_ADVICE}", segment.path)
        for position, size, first, last in step.zip_columns("position", "size_in_bytes", "base_offset", "last_offset"):
            if position > recovered.size:
                _refuse_damage(segment, damage[0])
            if (last if first is None else first) < recovered.next_offset:
                why = f"offset {last if first is None else first} is below {recovered.next_offset}"
                _refuse(segment, position, why)
            recovered.size, recovered.next_offset = position + size, last + 1
        if recovered.first_timestamp is None and len(step):
            recovered.first_timestamp = as_stored(step.cell("max_timestamp", 0))
        recovered.index_builder.add(step.rows, recovered.states.take(step).aborted)
    recovered.cut = segment.size - recovered.size
    if damage and not is_last:
        _refuse_damage(segment, damage[0])
    made = recovered.index_builder.finish()
    if problems := recovered.index_builder.problems:
        _refuse(segment, 0, problems[0])
    if not is_last:
        recovered.rewritten_files |= {
            filename_prefix(base) + suffix: data
            for suffix, data in made.items()
            if not _is_usable_index(segment.sidecar(suffix), data, suffix, base)
        }


def _refuse_damage(segment: SegmentFile, one: Damage) -> NoReturn:
    raise REASONS[one.reason].error(
        f"{one.detail}; the log goes on after it, so it is not an incomplete end; {_ADVICE}",
        position=one.position,
        reason=one.reason,
        file=segment.path,
        next_position=one.next_position,
    )


def _refuse(segment: SegmentFile, position: int, why: str) -> NoReturn:
    text = f"{segment.path} at byte {position}: {why}; {_ADVICE}"
    raise CorruptRecordError(text, position=position, file=segment.path)


def _is_usable_index(data: bytes | None, made: bytes, suffix: str, base: int) -> bool:
    """Whether an index stays; not one that is missing or empty, or that LogSegment.sanityCheck refuses, and no
    .txnindex with other transactions than the rebuilt one."""
    if not data:
        return data == made
    try:
        if suffix == txn_index.SUFFIX:  # last stable offsets differ if a broker appended several batches at once
            stored, known = txn_index.read(data), txn_index.read(made)
            return [one[:3] for one in stored] == [one[:3] for one in known]
        index = offset_index.read(data, base) if suffix == offset_index.SUFFIX else time_index.read(data, base)
    except KafkaRecordError:
        return False
    return len(index) > 0 and index[len(index) - 1].offset >= base


def drop_snapshots(folder: str, keeps: Callable[[int], bool]) -> None:
    """Removes the snapshots of a folder except those at offsets that are kept
    (ProducerStateManager.removeStraySnapshots)."""
    for name in os.listdir(folder):
        known = names.segment(name)
        if known is not None and name == snapshot_name(known.base_offset) and not keeps(known.base_offset):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
