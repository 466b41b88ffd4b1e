"""Copies ranges from file to file: in the kernel if possible (copy_file_range, sendfile), with fsync at the end.

A range was read and checked just before, so its bytes are usually in the page cache. If reading fails now, the output
is truncated to its previous size and Unreadable is raised. If writing fails, OSError is raised.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from bisect import bisect_right
from typing import Any

from kafkarec.sources.files import ByteSource, FileObject
from kafkarec.sources.read_failures import DISK_ERRORS
from kafkarec.sources.remote import FolderEntry
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import NewFile

_PIECE = 1 << 20
_UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class Unreadable(Exception):
    """The source could not be read a second time."""


class Output(NewFile):
    """A new file that ranges of a source are copied to."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(folder, name)
        self._kernel = list(_KERNEL)

    def copy(self, segment: SegmentFile, position: int, length: int) -> None:
        """Appends a range of a source. Raises Unreadable, with nothing appended, or OSError if writing fails."""
        try:
            source = segment.source
        except OSError as error:
            raise Unreadable from error
        old_size = self.size
        if source.descriptor is not None:
            while self._kernel:
                try:
                    self._in_kernel(self._kernel[0], source.descriptor, position, length)
                    return
                except OSError as error:
                    self.cut(old_size)
                    if error.errno not in _UNSUPPORTED | DISK_ERRORS:
                        raise
                    if error.errno in DISK_ERRORS:
                        break  # an error of the source or of the output: copying with read and write shows which
                    self._kernel.pop(0)
        self._read_and_write(source, position, length, old_size)

    def _in_kernel(self, call: Any, source: int, position: int, length: int) -> None:
        while length:
            done = call(source, self._descriptor, position, min(length, 1 << 30), self.size)
            if not done:
                raise OSError(errno.EINVAL, "the source ended")
            position += done
            length -= done
            self.size += done

    def _read_and_write(self, source: Any, position: int, length: int, old_size: int) -> None:
        while length:
            try:
                data = source.read_at(position, min(length, _PIECE))
            except OSError as error:
                self.cut(old_size)
                raise Unreadable from error
            if not data:
                self.cut(old_size)
                raise Unreadable
            self.append(data)
            position += len(data)
            length -= len(data)


class PlannedOutput:
    """The file that an Output would be, for a dry run: read_at reads it from the sources, which stay open until
    `close`."""

    def __init__(self, name: str) -> None:
        self.name, self.size = name, 0
        self._begins: list[int] = []
        self._parts: list[tuple[SegmentFile | bytes, int, int]] = []  # source or new bytes, position, length

    def append(self, data: bytes) -> None:
        self._add(data, 0, len(data))

    def copy(self, segment: SegmentFile, position: int, length: int) -> None:
        """Appends a range of a source, which is not read."""
        if self._parts and self._parts[-1][0] is segment and sum(self._parts[-1][1:]) == position:
            before = self._parts.pop()
            self.size -= before[2]
            self._begins.pop()
            position, length = before[1], before[2] + length
        self._add(segment, position, length)

    def _add(self, source: SegmentFile | bytes, position: int, length: int) -> None:
        if length:
            self._begins.append(self.size)
            self._parts.append((source, position, length))
            self.size += length

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes [position, position + length); fewer at the end. OSError if a source cannot be read."""
        pieces = []
        at = bisect_right(self._begins, position) - 1
        while length > 0 and position < self.size:
            source, begin, size = self._parts[at]
            inside = position - self._begins[at]
            count = min(length, size - inside)
            first = begin + inside
            pieces.append(
                source[first : first + count] if isinstance(source, bytes) else source.source.read_at(first, count)
            )
            position, length, at = position + count, length - count, at + 1
        return b"".join(pieces)

    def digest(self) -> str:
        """The SHA-256 of its bytes, in hexadecimal."""
        hasher = hashlib.sha256()
        for position in range(0, self.size, _PIECE):
            hasher.update(self.read_at(position, _PIECE))
        self.close()
        return hasher.hexdigest()

    def close(self) -> None:
        for source, _, _ in self._parts:
            if isinstance(source, SegmentFile):
                source.close()


class PlannedFolder:
    """The partition folder that a dry run would write, as a storage Folder.

    set_aside   the files of its batches that are not in the log, by their paths in the output
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.set_aside: dict[str, PlannedOutput] = {}
        self._files: dict[str, PlannedOutput | bytes] = {}

    def add(self, output: PlannedOutput) -> None:
        """Adds a file, in place of one with the same name."""
        self._files[output.name] = output

    def write(self, name: str, data: bytes) -> None:
        self._files[name] = data

    def copy(self) -> PlannedFolder:
        """The folder as it is now, whatever is added to this one later."""
        copied = PlannedFolder(self.path)
        copied._files = dict(self._files)
        return copied

    def state(self, path: str) -> list[Any]:
        """Size and digest of a log, a snapshot or a file of batches set aside, by its path in the output."""
        output = self.set_aside.get(path) or self._files[os.path.basename(path)]
        assert isinstance(output, PlannedOutput)
        return [output.size, output.digest()]

    def entries(self) -> list[FolderEntry]:
        sizes = {name: len(file) if isinstance(file, bytes) else file.size for name, file in self._files.items()}
        return [FolderEntry(name, sizes[name], False) for name in self.names()]

    def names(self) -> list[str]:
        return sorted(self._files)

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)

    def below(self, name: str) -> PlannedFolder:
        return PlannedFolder(self.join(name))

    def read(self, name: str) -> bytes | None:
        file = self._files.get(name)
        return file.read_at(0, file.size) if isinstance(file, PlannedOutput) else file

    def open(self, name: str, disk: bool = False) -> ByteSource:
        file = self._files.get(name)
        if not isinstance(file, PlannedOutput):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.join(name))
        return _PlannedFile(file, self.join(name))


class _PlannedFile(FileObject):
    def close(self) -> None:
        self._file.close()


def _copy_file_range(source: int, target: int, position: int, length: int, at: int) -> int:
    return os.copy_file_range(source, target, length, position, at)


def _sendfile(source: int, target: int, position: int, length: int, at: int) -> int:
    os.lseek(target, at, os.SEEK_SET)
    return os.sendfile(target, source, position, length)


# What copies from file to file in the kernel; sendfile does only on Linux.
_KERNEL = [_copy_file_range] * hasattr(os, "copy_file_range") + [_sendfile] * (sys.platform == "linux")


def digest(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal, as read from the disk: its cached pages are dropped first
    (POSIX_FADV_DONTNEED)."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while piece := file.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()
