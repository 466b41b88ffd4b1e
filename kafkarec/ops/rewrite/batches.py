"""The input of an operation that rewrites batches

Buffer, LogFile    a segment: bytes in memory, or a file
part               about 1 MB of one, decoded
SourceBatch        one for each batch of a part, in order, empty ones too
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec._core import Source
from kafkarec.errors import InvalidRecordError
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.read.passes import PassResult, read_pieces, scan_pieces
from kafkarec.storage import Segment
from kafkarec.tables.records import BatchTable


class SourceBatch(NamedTuple):
    """A batch's header as in Kafka's RecordBatch, -1 where its accessor returns "none", or that of an outer message of
    magic 0 and 1.

    base_offset         None for a wrapper message: it is known only from the inner messages
    timestamp_type      0 create, 1 log append; None for magic 0
    delete_horizon_ms   None: not set
    start, stop         its rows, control records too, among those of its part
    control_type        (compact) raw type id of a control batch's first record; None for a data batch, a control batch
                        without records, or an unreadable record
    raw, file, messages (convert) its bytes; None if the input is not a file; number of batches or outer messages:
                        adjacent plain messages that could be one batch are one, with the header of the first and the
                        last offset of the last
    """

    position: int
    size_in_bytes: int
    magic: int
    base_offset: int | None
    last_offset: int
    next_offset: int
    max_timestamp: int
    partition_leader_epoch: int
    attributes: int
    timestamp_type: int | None
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int | None
    start: int
    stop: int
    control_type: int | None = None
    raw: memoryview = memoryview(b"")
    file: str | None = None
    messages: int = 1

    @property
    def codec(self) -> int:
        """The codec id; 0: not compressed."""
        return self.attributes & 7

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def location(self) -> tuple[str | None, int, int]:
        return self.file, self.position, self.last_offset

    def error(self, reason: str, message: str) -> InvalidRecordError:
        """The error that ends an operation at this batch."""
        return InvalidRecordError(
            message,
            reason=reason,
            position=self.position,
            base_offset=self.base_offset,
            next_position=self.position + self.size_in_bytes,
            file=self.file,
        )


_HEADER = SourceBatch._fields[: SourceBatch._fields.index("start")]
_NONE_IS_MINUS_ONE = {"max_timestamp", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"}


def batches_of(table: BatchTable, counts: Sequence[int], *more: Iterable[Any]) -> Iterator[SourceBatch]:
    """The batches of a table. counts: how many rows each has; more: the fields after `stop`."""
    columns = [_filled(name, table.column(name)) for name in _HEADER]
    bounds = [0, *accumulate(counts)]
    return map(SourceBatch, *columns, bounds, bounds[1:], *more)


def _filled(name: str, values: list[Any]) -> list[Any]:
    if name in _NONE_IS_MINUS_ONE and None in values:
        return [-1 if value is None else value for value in values]
    return values


def row_counts(part: PassResult) -> list[int]:
    """The number of records of each batch of a part."""
    rows = [0] * sum(map(len, part.tables))
    begin = 0
    for chunk in part.chunks:
        runs = chunk.runs().cast("q").tolist()
        for batch, count in zip(runs[::2], runs[1::2], strict=True):
            rows[begin + batch] = count
        begin += len(chunk.rows)
    return rows


class Buffer:
    """Bytes in memory: a segment that begins with its first batch. `remaining`: bytes after its last batch, known when
    all its parts were read."""

    path = "bytes in memory"
    file: str | None = None
    base_offset: int | None = None

    def __init__(self, data: Any) -> None:
        self._source = Source(data)
        self._view = memoryview(data).cast("B") if self._source.size else memoryview(b"")
        self.remaining = 0

    def parts(
        self, read_request: DecodeRequest, start: int = 0, stop: int | None = None, threads: int = 1
    ) -> Iterator[PassResult]:
        """Decodes bytes [start, stop); yields everything before damage, then raises."""
        for part in read_pieces(read_request, self._source, start, stop, threads):
            self.remaining = part.remaining
            yield part

    def scan_pieces(self, start: int = 0) -> Iterator[BatchTable]:
        """Headers from `start` on; raises at damage."""
        return scan_pieces(request(), self._source, start)

    def raw(self, position: int, length: int) -> memoryview:
        return self._view[position : position + length]

    def sidecar(self, suffix: str) -> bytes | None:
        return None

    def modified_ms(self) -> int | None:
        return None


class LogFile:
    """A segment's file, with the methods of Buffer. `progress`: called with its path and the position up to which it
    was decoded."""

    def __init__(self, segment: Segment, progress: Callable[[str, int], object]) -> None:
        self._segment, self._progress = segment, progress
        self.path = self.file = segment.path
        self.base_offset, self.raw, self.sidecar = segment.base_offset, segment.raw, segment.sidecar
        self.remaining = 0

    def parts(
        self, read_request: DecodeRequest, start: int = 0, stop: int | None = None, threads: int = 1
    ) -> Iterator[PassResult]:
        segment = self._segment
        start, stop = max(start, segment.begin), segment.end if stop is None else stop
        with segment.opened() as source:
            for part in read_pieces(segment.named(read_request), source, start, stop, threads):
                self.remaining = part.remaining
                if len(table := BatchTable(part.tables)):
                    self._progress(self.path, table[-1]["position"] + table[-1]["size_in_bytes"])
                yield part

    def scan_pieces(self, start: int = 0) -> Iterator[BatchTable]:
        with self._segment.opened() as source:
            yield from scan_pieces(self._segment.named(request()), source, start)

    def modified_ms(self) -> int | None:
        """None if there is no local file."""
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except OSError:
            return None


Input = Buffer | LogFile
