"""Operations on folders and logs for publishing; each can be repeated after a crash

exchange     swaps the names of two folders in one step (Linux renameat2)
clone        copies a log to append to, while readers use the original
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_NO_SYNC = (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV, errno.EACCES)
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
WRITER_LOCK = ".kafkarec.lock"
# A last segment below this size is copied and appended to, so that many small appends do not make many small segments.
SMALL_SEGMENT = 16 << 20


def sync(path: str) -> None:
    """Flushes a file or folder to the disk (fsync). Some filesystems cannot flush a folder: its names are then as
    durable as they make them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not os.path.isdir(path):
            raise
    finally:
        os.close(descriptor)


def write_file(path: str, data: bytes) -> None:
    """Writes a file that is complete and flushed to the disk before it gets its name."""
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    sync(os.path.dirname(path))


def read_file(folder: str, name: str) -> bytes | None:
    """The content of a small file; None: it does not exist."""
    with suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
        return file.read()
    return None


def inode(path: str) -> list[int] | None:
    """Device and inode, which identify a folder after a rename; None: it does not exist."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return [status.st_dev, status.st_ino]


def exchange(one: str, other: str) -> bool:
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
def locked(path: str) -> Iterator[None]:
    """Holds an exclusive lock on a folder, so that one job commits at a time; without effect where the file
    system has no locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(descriptor)


@contextmanager
def writer_locked(folder: str) -> Iterator[None]:
    """Holds the writer's lock of a partition folder; BlockingIOError if a kafkarec.SegmentWriter holds it."""
    try:
        descriptor = os.open(os.path.join(folder, WRITER_LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BlockingIOError(errno.EWOULDBLOCK, "another writer has locked this folder", folder) from None
    finally:
        os.close(descriptor)


def end_of(folder: str) -> list[Any] | None:
    """Name and size of the last segment, which change with each append; None: there is no segment."""
    names = logs(folder)
    return [names[-1], os.path.getsize(os.path.join(folder, names[-1]))] if names else None


def logs(folder: str) -> list[str]:
    """Names of the segments, in the order of their offsets."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".log"))


def clone(folder: str, target: str, largest: int) -> int | None:
    """Makes `target`, a clone of a log to which batches of at most `largest` bytes can be appended; 0: none will be.

    Files become hard links, which take no space and must not be written to. The last segment is copied instead if it is
    small or does not end with a whole batch. Otherwise the writer must start a new segment; then the size of the last
    one is returned: with at most this many segment_bytes a writer starts a new segment, and every batch fits.
    """
    os.makedirs(target)
    last = (logs(folder) or [""])[-1]
    size = os.path.getsize(os.path.join(folder, last)) if last else 0
    copied = largest > 0 and (size < max(SMALL_SEGMENT, largest) or not _ends_with_a_batch(os.path.join(folder, last)))
    for entry in list(os.scandir(folder)):
        if entry.name == WRITER_LOCK or not entry.is_file(follow_symlinks=False):
            continue
        copy = os.path.join(target, entry.name)
        if (entry.name == last and copied) or not _linked(entry.path, copy):
            shutil.copyfile(entry.path, copy)
            sync(copy)
    sync(target)
    return size if largest and not copied else None


def _linked(path: str, target: str) -> bool:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _ends_with_a_batch(path: str) -> bool:
    """Whether a log ends with a whole batch with a right checksum; a writer cuts off what follows the last one."""
    import kafkarec
    from kafkarec import distributed

    last = None
    opened = kafkarec.open(path)
    assert isinstance(opened, kafkarec.Segment)
    with opened:
        for batches in opened.scan_pieces(errors="skip"):
            if batches.damage or batches.remaining:
                return False
            last = batches[-1] if len(batches) else last
        end = opened.size
        return last is None or distributed.has_valid_checksum(opened, last["position"], end)


def leader_epoch(read: Callable[[str], bytes | None]) -> int:
    """The leader epoch of a log's last batches. read(name): the content of a file in its folder; None: there is
    none."""
    from kafkarec.sidecars import leader_epochs

    data = read(leader_epochs.NAME)
    entries = leader_epochs.read(data) if data else ()
    return entries[-1].epoch if entries else 0


def batch_pieces(path: str) -> Iterator[bytes]:
    """Yields the bytes of a log in pieces of whole batches."""
    import kafkarec

    rest = b""
    with open(path, "rb") as file:
        while piece := file.read(8 << 20):
            data = rest + piece
            end = len(data) - kafkarec.scan(data).remaining
            if end:
                yield data[:end]
            rest = data[end:]
    if rest:
        raise ValueError(f"{path} ends within a batch")


def remove(folder: str) -> None:
    """Deletes a folder with everything below it, if it exists."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
