"""Copies ranges from file to file, with fsync at the end.

A range was read and checked just before, so its bytes are usually in the page cache. If reading fails now, the output
is truncated to its previous size and Unreadable is raised. If writing fails, OSError is raised.
"""

from __future__ import annotations

from kafkarec.sources.folders import LocalFolder
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import PART, NewFile

_PIECE = 1 << 20


class Unreadable(Exception):
    """The source could not be read a second time."""


class Output(NewFile):
    """A new file that ranges of a source are copied to."""

    def copy(self, segment: SegmentFile, position: int, length: int) -> None:
        """Appends a range of a source. Raises Unreadable, with nothing appended, or OSError if writing fails."""
        old_size = self.size
        while length:
            try:
                data = segment.source.read_at(position, min(length, _PIECE))
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
