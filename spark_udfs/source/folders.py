"""Folders that take each other's place: what publishing does to the disk, in steps that can be taken up again

    exchange     two names of folders change places at once (Linux renameat2), or in two renames
    clone        a log that can be written on, while everybody else goes on reading the old one
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV, errno.EACCES)
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
WRITER_LOCK = ".kafkarec.lock"
# A last segment that is smaller is copied and gone on with: many small appends do not make many small segments.
SMALL_SEGMENT = 16 << 20


def sync(path: str) -> None:
    """A file or folder is on the disk as it is now."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: str, data: bytes) -> None:
    """Complete and on the disk under its name, or not there."""
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    sync(os.path.dirname(path))


def read_file(folder: str, name: str) -> bytes | None:
    """None: it is not there."""
    with suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
        return file.read()
    return None


def inode(path: str) -> list[int] | None:
    """By this a folder is known again under another name. None: nothing is there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return [found.st_dev, found.st_ino]


def exchange(one: str, other: str) -> bool:
    """Two folders change names at once. False: this system or file system cannot, nothing was done."""
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
    """One commit after the other in a folder; where the file system has no locks there is none."""
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
def held(folder: str) -> Iterator[None]:
    """BlockingIOError where a kafkarec.SegmentWriter is at work in a partition's folder."""
    try:
        descriptor = os.open(os.path.join(folder, WRITER_LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BlockingIOError(errno.EWOULDBLOCK, "another writer is at work in this folder", folder) from None
    finally:
        os.close(descriptor)


def end_of(folder: str) -> list[Any] | None:
    """Name and size of the last segment: what grows when somebody writes on. None: there is none."""
    names = logs(folder)
    return [names[-1], os.path.getsize(os.path.join(folder, names[-1]))] if names else None


def logs(folder: str) -> list[str]:
    """Names of the segments, in order."""
    return sorted(name for name in os.listdir(folder) if name.endswith(".log"))


def clone(folder: str, target: str, largest: int) -> int | None:
    """A log under a second name, to which batches of at most `largest` bytes are to be appended; 0: none are.

    Files are linked, so it costs no bytes. What is written on must be a file of its own: the last segment is copied
    where it is small or has a torn end; else a new segment has to be begun. Gives the segment's size then: with
    segment_bytes not above it nothing is written into the linked one, and every batch still fits.
    """
    os.makedirs(target)
    last = (logs(folder) or [""])[-1]
    size = os.path.getsize(os.path.join(folder, last)) if last else 0
    copied = largest > 0 and (size < max(SMALL_SEGMENT, largest) or not _is_whole(os.path.join(folder, last)))
    for entry in list(os.scandir(folder)):
        if entry.name == WRITER_LOCK or not entry.is_file(follow_symlinks=False):
            continue
        place = os.path.join(target, entry.name)
        if (entry.name == last and copied) or not _linked(entry.path, place):
            shutil.copyfile(entry.path, place)
            sync(place)
    sync(target)
    return size if largest and not copied else None


def _linked(path: str, place: str) -> bool:
    try:
        os.link(path, place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _is_whole(path: str) -> bool:
    """Whether a log ends with the end of a batch: by the lengths of its batches."""
    with open(path, "rb") as file:
        position, size = 0, os.fstat(file.fileno()).st_size
        while position < size:
            head = os.pread(file.fileno(), 12, position)
            length = int.from_bytes(head[8:12], "big", signed=True)
            if len(head) < 12 or length <= 0:
                return False
            position += 12 + length
        return position == size


def pieces(path: str, size: int = 8 << 20) -> Iterator[bytes]:
    """A whole log, some whole batches at a time."""
    import kafkarec

    rest = b""
    with open(path, "rb") as file:
        while piece := file.read(size):
            data = rest + piece
            end = len(data) - kafkarec.scan(data).remaining
            if end:
                yield data[:end]
            rest = data[end:]
    if rest:
        raise ValueError(f"{path} ends within a batch")


def remove(folder: str) -> None:
    """A folder and all below it; what is gone already is no error."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
