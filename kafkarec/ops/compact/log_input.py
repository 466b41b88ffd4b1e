"""The input of the cleaner: a buffer, a segment, or all segments of a log, with one interface

Buffer     bytes in memory: one segment that begins with its first batch
LogFile    a storage.Segment: base offset from its name, .txnindex and .snapshot in its folder
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from kafkarec._core import Source
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.read.passes import PassResult, read_pieces, scan_pieces
from kafkarec.storage import Log, LogDir, Segment
from kafkarec.tables.records import BatchTable


class LogInput(Protocol):
    """One segment.

    remaining     bytes after its last batch, known when all its parts were read
    parts         decodes bytes [start, stop); yields everything before damage, then raises
    scan_pieces   headers from `start` on; raises at damage
    """

    remaining: int

    @property
    def path(self) -> str: ...
    @property
    def base_offset(self) -> int | None: ...
    @property
    def size(self) -> int: ...
    def parts(self, read_request: DecodeRequest, start: int = 0, stop: int | None = None) -> Iterator[PassResult]: ...
    def scan_pieces(self, start: int = 0) -> Iterator[BatchTable]: ...
    def raw(self, position: int, length: int) -> Any: ...
    def sidecar(self, suffix: str) -> bytes | None: ...
    def modified_ms(self) -> int | None: ...


class Buffer:
    """Bytes in memory; without a file name there is no base offset."""

    path = "bytes in memory"
    base_offset: int | None = None

    def __init__(self, data: Any) -> None:
        self._source = Source(data)
        self._view = memoryview(data).cast("B") if self._source.size else memoryview(b"")
        self.size = self._source.size
        self.remaining = 0

    def parts(self, read_request: DecodeRequest, start: int = 0, stop: int | None = None) -> Iterator[PassResult]:
        for part in read_pieces(read_request, self._source, start, stop):
            self.remaining = part.remaining
            yield part

    def scan_pieces(self, start: int = 0) -> Iterator[BatchTable]:
        return scan_pieces(request(), self._source, start)

    def raw(self, position: int, length: int) -> Any:
        return self._view[position : position + length]

    def sidecar(self, suffix: str) -> bytes | None:
        return None

    def modified_ms(self) -> int | None:
        return None


class LogFile:
    """A segment's file. `progress`: called with its path and the position up to which it was decoded."""

    def __init__(self, segment: Segment, progress: Callable[[str, int], object]) -> None:
        self.segment, self._progress = segment, progress
        self.path, self.base_offset = segment.path, segment.base_offset
        self.raw, self.sidecar = segment.raw, segment.sidecar
        self.remaining = 0

    @property
    def size(self) -> int:
        return self.segment.size

    def parts(self, read_request: DecodeRequest, start: int = 0, stop: int | None = None) -> Iterator[PassResult]:
        with self.segment.opened() as source:
            for part in read_pieces(self.segment.named(read_request), source, start, stop):
                self.remaining = part.remaining
                if len(table := BatchTable(part.tables)):
                    self._progress(self.path, table[-1]["position"] + table[-1]["size_in_bytes"])
                yield part

    def scan_pieces(self, start: int = 0) -> Iterator[BatchTable]:
        with self.segment.opened() as source:
            yield from scan_pieces(self.segment.named(request()), source, start)

    def modified_ms(self) -> int | None:
        """None if there is no local file."""
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except OSError:
            return None


def inputs(source: Any, progress: Callable[[str, int], object]) -> list[LogInput]:
    """The segments of the argument of `compact`, in order; TypeError for other types."""
    if isinstance(source, Log):
        return [LogFile(segment, progress) for segment in source.segments]
    if isinstance(source, Segment):
        return [LogFile(source, progress)]
    if isinstance(source, LogDir):
        raise TypeError("a data folder: compact one partition at a time: for log in kafkarec.open(folder): ...")
    if isinstance(source, str | os.PathLike):
        raise TypeError("a path: open it first with kafkarec.open(path)")
    return [Buffer(source)]


def consumer_request(
    read_request: DecodeRequest, aborted: tuple[tuple[int, int, int], ...], start: int | None
) -> DecodeRequest:
    """The request for the records from an offset on without aborted data and control records, as a consumer reads."""
    options = replace(read_request.options, aborted=aborted, offsets=(start, None), control=False)
    return read_request._replace(options=options)
