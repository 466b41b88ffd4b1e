"""Copies ranges from file to file: in the kernel if possible (copy_file_range, sendfile), with fsync at the end.

A range was read and checked just before, so its bytes are usually in the page cache. If reading fails now, the output
is truncated to its previous size and Unreadable is raised. If writing fails, OSError is raised.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.read_failures import DISK_ERRORS
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import PART, NewFile

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


class Spool:
    """Batches that are copied to a temporary file while they are planned, since a source may not be readable again.

    from_start   whether all are; False: from when on a source could not be read
    """

    def __init__(self, folder: str, name: str, from_start: bool) -> None:
        self.from_start = from_start
        self._folder, self._name = folder, name
        self._output: Output | None = None
        self._segment: SegmentFile | None = None

    def keep(self, segment: SegmentFile, position: int, length: int) -> tuple[SegmentFile, int]:
        """Copies a range: the file that has it, and where. Raises Unreadable."""
        if self._output is None:
            self._output = Output(self._folder, self._name)
            folder = LocalFolder(self._folder)
            self._segment = SegmentFile(self._output.path + PART, self._name + PART, folder=folder)
        assert self._segment is not None
        at = self._output.size
        self._output.copy(segment, position, length)
        return self._segment, at

    def drop(self) -> None:
        """Removes the file."""
        if self._output is not None:
            self._output.drop()


def _copy_file_range(source: int, target: int, position: int, length: int, at: int) -> int:
    return os.copy_file_range(source, target, length, position, at)


def _sendfile(source: int, target: int, position: int, length: int, at: int) -> int:
    os.lseek(target, at, os.SEEK_SET)
    return os.sendfile(target, source, position, length)


# What copies from file to file in the kernel; sendfile does only on Linux.
_KERNEL = [_copy_file_range] * hasattr(os, "copy_file_range") + [_sendfile] * (sys.platform == "linux")
