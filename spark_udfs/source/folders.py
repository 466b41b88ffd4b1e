"""Publishing to a folder that driver and executors share, with renames; the steps are in `publishing`

    1  prepare    <job>/new/orders-0      the future folder: links to the existing log, and the tasks' batches
    3  publish    orders-0 and new/orders-0 swap their names in one step (renameat2 of Linux), one after the other

A partition's folder is always the complete old or the complete new one; its inode shows which of them. Where the file
system cannot swap names, there are two renames, between which the folder is missing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from spark_udfs.bootstrap import distributed
from spark_udfs.schema import NamedValues

from .gaps import last_whole_batch
from .paths import open_segment
from .staging import (
    EMPTY_LOG,
    METADATA,
    NO_STORAGE,
    TEMPORARY,
    ListedFile,
    StagedPartition,
    Store,
    WriteJob,
    append_staged,
    journal_row,
    leader_epoch,
    make_attempt_folder,
    staging_folder,
)

_NEW, _OLD, _DEAD = "new", "old", ".dead"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV, errno.EACCES)
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
WRITER_LOCK = ".kafkarec.lock"
# A last segment below this size is copied and appended to, so that many small appends do not make many small segments.
SMALL_SEGMENT = 16 << 20


class SharedFolder(Store):
    """A folder; names are relative to it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def check_access(self) -> None:
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise NotADirectoryError(f"{self.path} is a file; name a folder")

    @contextmanager
    def locked(self, job: str, stale: float | None = None) -> Iterator[None]:
        """Waits until no other job publishes here; without effect where the file system has no locks."""
        os.makedirs(self.path, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield
        finally:
            os.close(descriptor)

    def heartbeat(self) -> None:
        """Does nothing: the system releases the lock when the driver dies."""

    # ---- files

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None: it does not exist."""
        with suppress(FileNotFoundError), open(self._path(name), "rb") as file:
            return file.read()
        return None

    def list_entries(self, folder: str, below: bool) -> list[ListedFile]:
        """As of a bucket, without what is behind symbolic links: an overwritten table is not to lose that. OSError for
        a folder that cannot be listed."""

        def raise_unless_missing(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        root, found = self._path(folder), list[ListedFile]()
        for parent, folders, files in os.walk(root, onerror=raise_unless_missing):
            for path in (os.path.join(parent, name) for name in (*folders, *files)):
                with suppress(FileNotFoundError):
                    status, name = os.lstat(path), os.path.relpath(path, root)
                    found.append(ListedFile(name, status.st_size, status.st_mtime, os.path.isdir(path)))
            if not below:
                break
        return sorted(found)

    def put(self, name: str, data: bytes) -> None:
        """Writes a file that is complete and on the disk before it gets its name."""
        folder, file = os.path.split(self._path(name))
        distributed.make_folder(folder)
        distributed.write_file(folder, file, data)
        distributed.sync_folder(folder)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))
            distributed.sync_folder(os.path.dirname(self._path(name)))

    def drop(self, folder: str) -> None:
        """Deletes a staging folder. Renames it first, so that a task that is still running cannot write to it."""
        dead = self._path(folder) + _DEAD
        _remove(dead)
        with suppress(FileNotFoundError):
            os.rename(self._path(folder), dead)
        _remove(dead)
        with suppress(OSError):
            os.rmdir(self._path(TEMPORARY))

    @contextmanager
    def attempt_folder(self, job: WriteJob, name: str) -> Iterator[str]:
        """A local folder for files that a task stages as <job>/<name>/...; an error removes them. FileNotFoundError if
        the job has ended; a stream's batch is begun by its tasks."""
        folder = os.path.join(job.folder, name)
        if job.query is not None:
            distributed.make_folder(job.folder, lambda parent: None)  # it need not survive a power failure
        make_attempt_folder(folder)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    # ---- files of a table

    def replace_files(self, gone: Sequence[str], files: Sequence[tuple[str, str]]) -> None:
        """Deletes files, and gives others their final names, continuing where an earlier attempt stopped."""
        folders = {os.path.dirname(self._path(name)) for name in (*gone, *(target for _, target in files))}
        for name in gone:
            with suppress(FileNotFoundError):
                os.unlink(self._path(name))
        for source, target in files:
            distributed.make_folder(os.path.dirname(self._path(target)))
            try:
                os.rename(self._path(source), self._path(target))
            except FileNotFoundError:
                if not os.path.exists(self._path(target)):
                    raise
        for folder in folders:
            with suppress(FileNotFoundError):
                distributed.sync_folder(folder)
            if gone:
                with suppress(OSError):
                    os.removedirs(folder)  # those that are empty now

    # ---- partitions

    def prepare_partitions(
        self, job: WriteJob, parts: Mapping[str, Sequence[StagedPartition]], ids: Mapping[str, bytes | None]
    ) -> list[NamedValues]:
        """The journal's rows. parts: by partition, in order of the tasks; none: it will have an empty log. ids: the
        partition.metadata of a partition that does not exist yet or is overwritten."""
        new = os.path.join(job.folder, _NEW)
        _remove(new)
        os.makedirs(new)
        rows = [self._prepare_partition(job, name, each, ids[name]) for name, each in parts.items()]
        distributed.sync_folder(new)
        return rows

    def _prepare_partition(
        self, job: WriteJob, name: str, parts: Sequence[StagedPartition], topic_id: bytes | None
    ) -> NamedValues:
        """Makes one partition's future folder; returns its row. A new log starts with links to the first task's
        segments; everything else is appended."""
        target, made = self._path(name), os.path.join(job.folder, _NEW, name)
        with _writer_locked(target):
            before = _last_segment(target)
            appends = before is not None and not job.overwrite
            appended, offsets, limit = (parts if appends else parts[1:]), (0, 0), None
            if parts:
                base = target if appends else os.path.join(job.folder, parts[0].folder)
                limit = _clone_for_appending(base, made, sum(part.size for part in appended))
                offsets = parts[0].first_offset, parts[0].next_offset
            else:
                SharedFolder(made).put(EMPTY_LOG, b"")
        if topic_id and not appends:
            SharedFolder(made).put(METADATA, topic_id)
        if appended:
            added = append_staged(
                made,
                appended,
                (path for part in appended for path in _segments(os.path.join(job.folder, part.folder))),
                segment_bytes=job.options.segmentBytes if limit is None else min(limit, job.options.segmentBytes),
                leader_epoch=leader_epoch(SharedFolder(made).read),
            )
            offsets = (added.start if appends else offsets[0]), added.stop
        return journal_row(name, parts, before, _inode(made), offsets)

    def check_unchanged(self, row: NamedValues) -> None:
        """BlockingIOError if another writer has changed a partition since it was prepared."""
        target = self._path(row["name"])
        if _last_segment(target) != row["before"]:
            text = "another writer has changed this folder meanwhile. If that was after the commit, move it elsewhere"
            raise BlockingIOError(errno.EWOULDBLOCK, text, target)

    def publish(self, job: str, rows: Sequence[NamedValues]) -> None:
        """Publishes the partitions, continuing where an earlier attempt stopped."""
        for row in rows:
            target = self._path(row["name"])
            if _inode(target) == row["made"]:
                continue
            # the new folder gets its final name; the old one stays in the job's folder
            new, old = (os.path.join(self._path(staging_folder(job)), kind, row["name"]) for kind in (_NEW, _OLD))
            if os.path.isdir(target):
                with _writer_locked(target):
                    self.check_unchanged(row)
                    if swap_folders(new, target):
                        continue
                    os.makedirs(os.path.dirname(old), exist_ok=True)
                    os.rename(target, old)
            os.rename(new, target)
        distributed.sync_folder(self.path)

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)


# ---- operations on folders and logs; each can be repeated after a crash


def _inode(path: str) -> int | None:
    """What identifies a folder after a rename; None: it does not exist. The file system's device has another number
    where another machine has mounted it."""
    with suppress(FileNotFoundError):
        return os.lstat(path).st_ino
    return None


def swap_folders(one: str, other: str) -> bool:
    """Swaps the names of two folders in one step. False: the system does not support it, and nothing was changed."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), one)


@contextmanager
def _writer_locked(folder: str) -> Iterator[None]:
    """Holds the writer's lock of a partition folder; BlockingIOError if a kafkarec.SegmentWriter holds it."""
    try:
        descriptor = os.open(os.path.join(folder, WRITER_LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(errno.EWOULDBLOCK, "another writer has locked this folder", folder) from None
        yield
    finally:
        os.close(descriptor)


def _last_segment(folder: str) -> list[Any] | None:
    """Name and size of the last segment, which change with each append; None: there is no segment."""
    last = _segments(folder)[-1:]
    return [os.path.basename(last[0]), os.path.getsize(last[0])] if last else None


def _segments(folder: str) -> list[str]:
    """The paths of the segments, in the order of their offsets."""
    with suppress(FileNotFoundError):
        return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".log"))
    return []


def _clone_for_appending(folder: str, target: str, appended: int) -> int | None:
    """Makes `target`, a clone of a log to which so many bytes of batches will be appended.

    Files become hard links, which take no space and must not be written to. The last segment is copied instead if it is
    small, also beside what is appended, or does not end with a whole batch. Otherwise the writer must start a new
    segment; then the size of the last one is returned: with at most this many segment_bytes a writer starts a new
    segment, and every batch fits.
    """
    os.makedirs(target)
    last = (_segments(folder) or [""])[-1]
    size = os.path.getsize(last) if last else 0
    copied = appended > 0
    if copied and size >= max(SMALL_SEGMENT, appended):
        with suppress(ValueError), open_segment(last, NO_STORAGE) as segment:  # a writer cuts off what is no batch
            last_whole_batch(segment)
            copied = False
    for entry in list(os.scandir(folder)):
        if entry.name == WRITER_LOCK or not entry.is_file(follow_symlinks=False):
            continue
        copy = os.path.join(target, entry.name)
        if entry.path != last or not copied:
            try:
                os.link(entry.path, copy)
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
        shutil.copyfile(entry.path, copy)
        with open(copy, "rb") as file:
            os.fsync(file.fileno())
    distributed.sync_folder(target)
    return size if appended and not copied else None


def _remove(folder: str) -> None:
    """Deletes a folder with everything below it, if it exists."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
