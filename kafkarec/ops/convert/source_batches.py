"""Reads the batches to convert, one by one, and validates them as the reader does.

Every batch is decoded before it is converted: records that Kafka cannot read must not get a new, right checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

from kafkarec._core import Source
from kafkarec.damage import Damage, relocated
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.read.decode_options import CHUNK_BYTES, checked_threads, request
from kafkarec.read.passes import PassResult, read_pieces
from kafkarec.read.restoring import used_bytes
from kafkarec.storage.segment import Readable
from kafkarec.tables.records import BatchTable, RecordBatch

WIDEST = 2**30 - 1
"""Largest last - base offset of a batch that may be joined with another: the offset delta of two such fits an int32."""

_Read = Callable[[int, int], bytes | memoryview]
"""(position, size) -> bytes of the input."""


class SourceBatch(NamedTuple):
    """A unit of conversion: one batch (magic 2) or wrapper with its header as in BatchTable and its bytes, or adjacent
    plain messages (magic 0, 1) that could be one batch, with the header of the first and the last offset of the last.

    rows: number of records, including control records; messages: number of batches or outer messages
    file: None if the input is not a file
    """

    position: int
    base_offset: int | None
    last_offset: int
    size_in_bytes: int
    partition_leader_epoch: int | None
    magic: int
    attributes: int
    timestamp_type: int | None
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    max_timestamp: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    rows: int
    raw: memoryview
    file: str | None
    messages: int = 1

    @property
    def codec(self) -> int:
        """The codec id; 0: not compressed."""
        return self.attributes & 7

    @property
    def location(self) -> tuple[str | None, int, int]:
        return self.file, self.position, self.last_offset


_HEADER = SourceBatch._fields[: SourceBatch._fields.index("rows")]


class SourceBatches:
    """The batches of a buffer, a segment, a log, or of an iterable of RecordBatch; iterated once.

    .damage      what was skipped, with errors="skip"
    .remaining   bytes after the last batch: an incomplete batch
    .read        lower bound of the bytes decompressed so far

    progress: called with the path of a file and the position up to which it was read
    """

    def __init__(
        self,
        data: Any,
        *,
        progress: Callable[[str, int], object] = lambda path, end: None,
        threads: int = 1,
        **options: Any,
    ) -> None:
        self._data, self._threads = _checked(data), checked_threads(threads)
        self._progress = progress
        self._request = request(columns=(), control=True, **options)
        self.skips = self._request.skip
        self.damage: list[Damage] = []
        self.remaining = self.read = 0

    def __iter__(self) -> Iterator[SourceBatch]:
        if isinstance(self._data, Readable):
            for segment in (segment for group in self._data.groups() for segment in group):
                for part in self._counted(segment.parts(self._request, threads=self._threads)):
                    yield from self._of(part, segment.raw, segment.path)
        elif isinstance(self._data, memoryview):
            for part in self._counted(read_pieces(self._request, Source(self._data), threads=self._threads)):
                yield from self._of(part, _reader_of(self._data))
        else:
            for batch in self._data:
                if not isinstance(batch, RecordBatch):
                    raise TypeError(f"batches are RecordBatch, not {type(batch).__name__}")
                yield from self._of_batch(batch)

    def _of_batch(self, batch: RecordBatch) -> Iterator[SourceBatch]:
        """Reads the batch's bytes alone; positions in damage and errors are changed to those of the batch."""
        begin = len(self.damage)
        try:
            for part in self._counted(read_pieces(self._request, Source(batch.raw))):
                for unit in self._of(part, _reader_of(batch.raw)):
                    yield unit._replace(position=batch.position)
        except KafkaRecordError as error:
            raise relocated(error, position=batch.position, file=None) from None
        self.damage[begin:] = [
            one._replace(position=batch.position, next_position=batch.position + one.length)
            for one in self.damage[begin:]
        ]

    def _of(self, part: PassResult, read: _Read, file: str | None = None) -> Iterator[SourceBatch]:
        self.damage += part.damage
        self.remaining += part.remaining
        table = BatchTable(part.tables)
        if not len(table):
            return
        columns = [table.column(name) for name in _HEADER]
        positions, sizes = table.column("position"), table.column("size_in_bytes")
        if file is not None:
            self._progress(file, positions[-1] + sizes[-1])
        begin, size = positions[0], sum(sizes)
        restored = {one.position: one for one in part.restored}
        if positions[-1] + sizes[-1] == begin + size and not restored:  # no damage between
            whole = memoryview(read(begin, size))
            raws = [whole[at - begin : at - begin + length] for at, length in zip(positions, sizes, strict=True)]
        else:
            raws = [
                memoryview(used_bytes(read(at, length), restored[at]) if at in restored else read(at, length))
                for at, length in zip(positions, sizes, strict=True)
            ]
        units = map(SourceBatch, *columns, rows_by_batch(part), raws, repeat(file))
        yield from _join_plain_messages(units) if min(table.column("magic")) < 2 else units

    def _counted(self, parts: Iterable[PassResult]) -> Iterator[PassResult]:
        """Adds to `read`: every part but the last decompressed at least one chunk."""
        for number, part in enumerate(parts):
            self.read += CHUNK_BYTES if number else 0
            yield part


def _join_plain_messages(units: Iterable[SourceBatch]) -> Iterator[SourceBatch]:
    """Joins adjacent plain messages into one unit, as there may be millions of them."""
    first: SourceBatch | None = None
    last, size = 0, 0
    raws: list[memoryview] = []
    for unit in units:
        plain = unit.magic < BATCH_MAGIC and not unit.attributes & 7 and (unit.max_timestamp or 0) >= 0
        if (
            first
            and plain
            and unit.magic == first.magic
            and unit.timestamp_type == first.timestamp_type
            and unit.position == first.position + size
            and last < unit.last_offset <= first.last_offset + WIDEST
            and (not unit.timestamp_type or unit.max_timestamp == first.max_timestamp)
        ):
            last, size = unit.last_offset, size + unit.size_in_bytes
            raws.append(unit.raw)
            continue
        if first:
            yield _joined(first, last, raws)
        if plain:
            first, last, size, raws = unit, unit.last_offset, unit.size_in_bytes, [unit.raw]
        else:
            first = None
            yield unit
    if first:
        yield _joined(first, last, raws)


def _joined(first: SourceBatch, last_offset: int, raws: list[memoryview]) -> SourceBatch:
    raw = memoryview(b"".join(raws)) if len(raws) > 1 else raws[0]
    return first._replace(
        last_offset=last_offset, size_in_bytes=raw.nbytes, rows=len(raws), raw=raw, messages=len(raws)
    )


def _reader_of(content: memoryview) -> _Read:
    return lambda position, size: content[position : position + size]


def rows_by_batch(part: PassResult) -> list[int]:
    """The number of records of each batch of a part."""
    rows: list[int] = []
    for table in part.tables:
        rows += [0] * len(table)
    begin = 0
    for chunk in part.chunks:
        runs = chunk.runs().cast("q").tolist()
        for batch, count in zip(runs[::2], runs[1::2], strict=True):
            rows[begin + batch] = count
        begin += len(chunk.rows)
    return rows


def _checked(data: Any) -> Any:
    """A Readable of one partition, a memoryview of bytes, or an iterable."""
    if isinstance(data, Readable):
        partitions = sum(1 for _ in data.groups())
        if partitions > 1:
            raise ValueError(f"{partitions} partitions; convert them one by one")
        return data
    try:
        view = memoryview(data)
    except TypeError:
        if isinstance(data, Iterable):
            return data
        raise TypeError(f"expected a buffer, a Segment, a Log or batches, not {type(data).__name__}") from None
    return view.cast("B") if view.nbytes else memoryview(b"")
