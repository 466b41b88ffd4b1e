"""Copies ranges from file to file: in the kernel if possible (copy_file_range, sendfile), with fsync at the end.

A range was read and checked just before, so its bytes are usually in the page cache. If reading fails now, the output
is truncated to its size before and Unreadable is raised; if writing fails, OSError.
"""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Any

from kafkarec.storage import Segment
from kafkarec.support.durable import NewFile

_PIECE = 1 << 20
_NOT_HERE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class Unreadable(Exception):
    """The source could not be read a second time."""


class Output(NewFile):
    """A new file that ranges of a source are copied to."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(folder, name)
        self._kernel = [_copy_file_range, _sendfile]

    def copy(self, segment: Segment, position: int, length: int) -> None:
        """Appends a range of a source. Raises Unreadable, with nothing appended, or OSError if writing fails."""
        source = segment.source
        before = self.size
        if source.descriptor is not None:
            while self._kernel:
                try:
                    self._in_kernel(self._kernel[0], source.descriptor, position, length)
                    return
                except OSError as error:
                    self.cut(before)
                    if error.errno not in _NOT_HERE | {errno.EIO}:
                        raise
                    if error.errno == errno.EIO:
                        break  # of the source or the output: copying with read and write shows which
                    self._kernel.pop(0)
        self._read_and_write(source, position, length, before)

    def _in_kernel(self, call: Any, source: int, position: int, length: int) -> None:
        while length:
            done = call(source, self._descriptor, position, min(length, 1 << 30), self.size)
            if not done:
                raise OSError(errno.EINVAL, "the source ended")
            position += done
            length -= done
            self.size += done

    def _read_and_write(self, source: Any, position: int, length: int, before: int) -> None:
        while length:
            try:
                data = source.read_at(position, min(length, _PIECE))
            except OSError as error:
                self.cut(before)
                raise Unreadable from error
            if not data:
                self.cut(before)
                raise Unreadable
            self.append(data)
            position += len(data)
            length -= len(data)


def _copy_file_range(source: int, to: int, position: int, length: int, at: int) -> int:
    return os.copy_file_range(source, to, length, position, at)


def _sendfile(source: int, to: int, position: int, length: int, at: int) -> int:
    os.lseek(to, at, os.SEEK_SET)
    return os.sendfile(to, source, position, length)


def digest(path: str) -> str:
    """SHA-256 of a file as read from the disk: its cached pages are dropped first (POSIX_FADV_DONTNEED)."""
    hasher = hashlib.sha256()
    with open(path, "rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while piece := file.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()
