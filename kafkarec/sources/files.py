"""Sources of bytes: a file descriptor, a Python file object. And the entries of listings.

The attributes that the decoder uses (see `_c/input.pxd`):

    name                for error messages
    size                bytes when it was opened
    descriptor          an int: the decoder calls pread itself; None: it calls read_at
    read_at(p, n)       n bytes from p on; fewer only at the end; OSError if the bytes cannot be read
    is_damage(error)    True: the unread bytes are damage; False: the error ends the reading and is raised
    window_bytes        bytes per read
    skip_bytes          gaps between headers smaller than this are read, larger ones skipped; of a descriptor also
                        smaller ones, in the page cache
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

_WINDOW = 1 << 20
_SKIP_BYTES = 64 << 10
# Errors after which the bytes need not be lost: they end the reading and are raised unchanged.
_NO_DAMAGE = (
    ConnectionError,
    PermissionError,
    TimeoutError,
    FileNotFoundError,
    IsADirectoryError,
    InterruptedError,
)


class ByteSource(Protocol):
    """See the module's docstring."""

    name: str
    window_bytes: int
    skip_bytes: int

    @property
    def size(self) -> int: ...
    @property
    def descriptor(self) -> int | None: ...
    def read_at(self, position: int, length: int) -> bytes: ...
    def is_damage(self, error: OSError) -> bool: ...
    def close(self) -> None: ...


class FolderEntry(NamedTuple):
    """One entry of a listing. size: bytes; 0 for a folder, and if the server does not report it."""

    name: str
    size: int
    is_dir: bool


_NOT_FILES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def non_file_kind(path: str, disk: bool = False) -> str | None:
    """What is at a path, if it is no file of bytes; None: a file. OSError if that cannot be found out.

    disk: a block device is one, too
    """
    kind = stat.S_IFMT(os.stat(path).st_mode)
    return None if disk and kind == stat.S_IFBLK else _NOT_FILES.get(kind)


def _read_all(read: Callable[[int, int], bytes], position: int, length: int) -> bytes:
    """Bytes by as many reads as that takes: each may return fewer, and returns none at the end."""
    pieces = []
    while length > 0 and (piece := read(position, length)):
        pieces.append(piece)
        position += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class LocalFile:
    """A file or disk image, read by pread. Not mapped, so a bad sector or a file that shrinks is an OSError and not a
    SIGBUS. disk: a block device is read, too."""

    window_bytes = _WINDOW
    skip_bytes = _SKIP_BYTES

    def __init__(self, path: str, disk: bool = False) -> None:
        self.name = path
        what = non_file_kind(path, disk)  # reading finds no bytes in a device, and on tmpfs none in a folder
        if what is not None:
            code = errno.EISDIR if what == _NOT_FILES[stat.S_IFDIR] else errno.ESPIPE
            hint = ", which is read only as standard input (-)" if what == _NOT_FILES[stat.S_IFIFO] else ", not a file"
            raise OSError(code, what + hint, path)
        # O_NONBLOCK: opening what became a pipe meanwhile does not wait for a writer
        self.descriptor: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.size = os.lseek(self.descriptor, 0, os.SEEK_END)  # of a block device, too
        except OSError as error:
            os.close(self.descriptor)
            error.filename = path
            raise

    def read_at(self, position: int, length: int) -> bytes:
        descriptor = self.descriptor
        if descriptor is None:
            raise ValueError(f"{self.name} is closed")
        return _read_all(lambda at, count: os.pread(descriptor, min(count, 1 << 30), at), position, length)

    def is_damage(self, error: OSError) -> bool:
        return True

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class OpenFile(LocalFile):
    """An open descriptor, such as standard input; closed with this object."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.name, self.descriptor = name, descriptor
        self.size = os.fstat(descriptor).st_size or os.lseek(descriptor, 0, os.SEEK_END)


class FileObject:
    """A Python object with read and seek, or with read_at. Calls are serialised."""

    descriptor = None
    window_bytes = _WINDOW
    skip_bytes = _SKIP_BYTES

    def __init__(self, file: Any, name: str | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        file_name = name or getattr(file, "name", None)
        self.name = file_name if isinstance(file_name, str) else f"<{type(file).__name__}>"
        size = getattr(file, "size", None)
        end = size if isinstance(size, int) else file.seek(0, os.SEEK_END)
        self.size = file.tell() if end is None else end  # None of a memory map, before Python 3.13

    def read_at(self, position: int, length: int) -> bytes:
        def read(at: int, count: int) -> bytes:
            if hasattr(self._file, "read_at"):
                return bytes(self._file.read_at(at, count))
            self._file.seek(at)
            return bytes(self._file.read(count))

        with self._lock:
            return _read_all(read, position, length)

    def is_damage(self, error: OSError) -> bool:
        return error.errno == errno.EIO or not isinstance(error, _NO_DAMAGE)

    def close(self) -> None:
        """Does nothing: the caller closes the file object."""
