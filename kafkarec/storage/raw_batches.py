"""Unchanged bytes of a segment: one batch, or several consecutive ones."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kafkarec.read.decode_options import DecodeRequest
from kafkarec.read.passes import as_columns, read_part
from kafkarec.tables.records import RecordBatch, RecordColumns

_STEP = 1 << 20
_PLAIN_FILES = (io.FileIO, io.BufferedWriter, io.BufferedRandom)  # another object may change what it passes on


class SegmentBytes(NamedTuple):
    """The bytes of a segment, as a BatchSource; those that are written go through no buffer where that is possible."""

    segment: Any
    decode_request: DecodeRequest

    def raw(self, start: int, stop: int) -> memoryview:
        return memoryview(self.segment.raw(start, stop - start))

    def read(self, start: int, stop: int) -> RecordColumns:
        with self.segment.opened() as source:
            return as_columns(self.decode_request, read_part(self.decode_request, source, start, stop))

    def write_to(self, start: int, stop: int, file: Any) -> int:
        with self.segment.opened():
            source, position = self.segment.source, start
            origin = source.descriptor
            with suppress(OSError):  # what cannot be sent is copied, which raises what is really wrong
                if isinstance(file, _PLAIN_FILES) and origin is not None:
                    file.flush()
                    target = file.fileno()
                    while position < stop and (sent := os.sendfile(target, origin, position, stop - position)):
                        position += sent
            while position < stop:
                data = source.read_at(position, min(_STEP, stop - position))
                if not data:
                    raise OSError(errno.EIO, "the file is shorter now than when it was opened", source.name)
                file.write(data)
                position += len(data)
        return stop - start


class BatchSlice:
    """Consecutive whole batches of a segment, unchanged. Iterating yields each as a RecordBatch.

    .position, .size             the bytes: position in the file, length
    .base_offset, .next_offset   of the first batch, and after the last one; None without batches
    """

    position, size = 0, 0
    base_offset: int | None = None
    next_offset: int | None = None

    def __init__(self, source: SegmentBytes, batches: list[RecordBatch]) -> None:
        self._source, self._batches = source, batches
        if batches:
            first, last = batches[0], batches[-1]
            self.position, self.base_offset, self.next_offset = first.position, first.base_offset, last.next_offset
            self.size = last.position + last.size_in_bytes - first.position

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._batches)

    @property
    def raw(self) -> memoryview:
        """All bytes."""
        return self._source.raw(self.position, self.position + self.size)

    def write_to(self, file: Any) -> int:
        """Writes the bytes to a file object, by sendfile if possible; returns how many."""
        return self._source.write_to(self.position, self.position + self.size, file)

    def __repr__(self) -> str:
        path = self._source.segment.path
        return f"<BatchSlice of {path}: {len(self)} batches, {self.size} bytes at {self.position}>"
