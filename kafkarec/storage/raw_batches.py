"""Unchanged bytes of a segment: one batch, or several consecutive ones."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkarec.read.decode_options import DecodeRequest
from kafkarec.read.passes import as_columns, read_part
from kafkarec.tables.records import RecordBatch, RecordColumns

from .segment_protocol import SegmentLike

_STEP = 1 << 20
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOVERFLOW)


class SegmentBytes(NamedTuple):
    """Bytes [start, stop) of a segment: the source of a RecordBatch's bytes and records."""

    segment: SegmentLike
    decode_request: DecodeRequest
    start: int
    stop: int

    def raw(self) -> memoryview:
        return memoryview(self.segment.raw(self.start, self.stop - self.start))

    def write_to(self, file: Any) -> int:
        return self.segment.copy_bytes(self.start, self.stop - self.start, file)

    def read(self) -> RecordColumns:
        with self.segment.opened() as source:
            return as_columns(self.decode_request, read_part(self.decode_request, source, self.start, self.stop))


class BatchSlice:
    """Consecutive whole batches of a segment, unchanged. Iterating yields each as a RecordBatch.

    .position, .size             the bytes: position in the file, length
    .base_offset, .next_offset   of the first batch, and after the last one; None without batches
    """

    def __init__(self, segment: SegmentLike, batches: list[RecordBatch]) -> None:
        self._segment, self._batches = segment, batches
        first, last = (batches[0], batches[-1]) if batches else (None, None)
        self.position = first.position if first else 0
        self.size = last.position + last.size_in_bytes - self.position if last else 0
        self.base_offset = first.base_offset if first else None
        self.next_offset = last.next_offset if last else None

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._batches)

    @property
    def raw(self) -> memoryview:
        """All bytes."""
        return memoryview(self._segment.raw(self.position, self.size))

    def write_to(self, file: Any) -> int:
        """Writes the bytes to a file object, by sendfile if possible; returns how many."""
        return self._segment.copy_bytes(self.position, self.size, file)

    def __repr__(self) -> str:
        return f"<BatchSlice of {self._segment.path}: {len(self)} batches, {self.size} bytes at {self.position}>"


def send(source: Any, position: int, length: int, file: Any) -> int:
    """Copies bytes of a ByteSource to a file object, by sendfile if both have a descriptor that allows it."""
    descriptor = _descriptor(file)
    sent = 0
    if source.descriptor is not None and descriptor is not None and length:
        file.flush()
        try:
            while sent < length:
                count = os.sendfile(descriptor, source.descriptor, position + sent, length - sent)
                if count == 0:
                    raise OSError(errno.EIO, "the file is shorter now than when it was opened", source.name)
                sent += count
        except OSError as error:
            if sent or error.errno not in _NO_SENDFILE:
                raise
    while sent < length:
        data = source.read_at(position + sent, min(_STEP, length - sent))
        if not data:
            raise OSError(errno.EIO, "the file is shorter now than when it was opened", source.name)
        file.write(data)
        sent += len(data)
    return sent


def _descriptor(file: Any) -> int | None:
    """The descriptor of a file object; None: it has none."""
    try:
        return int(file.fileno())
    except (AttributeError, OSError, ValueError):
        return None
