"""In a task: counts the records of a split by the headers of its batches.

| batch | its records are counted by |
|---|---|
| magic 2, within the range of offsets | the header: record_count, of a compacted batch too |
| magic 0 and 1 without compression | the header: one |
| magic 0 and 1 with compression | decoding: its header has no count |
| partly outside of the range, or with a header that contradicts itself | decoding |
| control, of an aborted transaction, from the last stable offset on | none |

The number is that of the data source, which does not decode more than it has to here. Where checksums or headers show
damage, a restored header or an unfinished batch, the whole split is read as the data source reads it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs import schema

from . import planning, reading
from .isolation import NO_END, Uncommitted
from .log_end import SplitEnd
from .options import ReadOptions
from .planning import Split

if TYPE_CHECKING:
    import kafkarec

_OFFSET = tuple(each for each in schema.RECORD_COLUMNS if each.name == "offset")
_LAST_MESSAGE_MAGIC = 1  # below batches there are messages; the header of one without compression has no count


class _Counts(NamedTuple):
    size: int
    batches: int
    records: int


def count_split(split: Split, options: ReadOptions, counters: reading.TaskCounters) -> int:
    """The records of one split that the data source returns. Errors are those of the data source."""
    import kafkarec

    with planning.opened(options, split) as part:
        if part is None:
            return 0
        try:
            end = SplitEnd(part, split)
            counts = _by_headers(part, split, options, end)
        except kafkarec.KafkaRecordError:
            counts = None
        if counts is None:
            return sum(batch.num_rows for batch in reading.read_split(split, options, _OFFSET, counters))
        counters.add_split(split)
        counters.add(*counts)
        counters.log_gap(end)
        return counts.records


def _by_headers(part: kafkarec.Segment, split: Split, options: ReadOptions, end: SplitEnd) -> _Counts | None:
    """None: the data source has to read it. Adds the batches to `end`."""
    size = batches = records = 0
    skip: dict[str, Any] = {
        "errors": "raise" if options.mode == "FAILFAST" else "skip",
        "check_crcs": options.checkCrcs,
    }
    tables = part.scan_pieces(start_offset=split.start_offset, end_offset=split.end_offset, **skip)
    with closing(tables):
        for table in tables:
            if table.damage or table.restored or table.remaining:
                return None
            end.add(table)
            for headers in pa.table(table).combine_chunks().to_batches():
                if (
                    split.followed_by is not None
                    and pc.max(headers.column("next_offset")).as_py() > split.followed_by[1]
                ):
                    return None  # the next segment, in another folder, has some of these offsets too
                known, ranges = _Headers(headers, split, options).counted()
                decoded = _decoded(part, split, options, ranges)
                if decoded is None:
                    return None
                batches += len(headers)
                size += pc.sum(headers.column("size_in_bytes")).as_py()
                records += known + decoded
    return _Counts(size, batches, records)


def _decoded(part: kafkarec.Segment, split: Split, options: ReadOptions, ranges: list[tuple[int, int]]) -> int | None:
    """The records in these ranges of bytes; None: the data source has to read the split."""
    if ranges and split.end is None:
        return None  # a compressed file is unpacked each time that it is opened
    records = 0
    for begin, end in ranges:
        with closing(reading.pieces(part.between(begin, end), split, options, ["offset"])) as pieces:
            for piece in pieces:
                if piece.damage:
                    return None
                records += len(piece)
    return records


class _Headers:
    """The headers of some batches, and which of them count."""

    def __init__(self, headers: pa.RecordBatch, split: Split, options: ReadOptions) -> None:
        self.headers = headers
        self.control = options.includeControl
        self.uncommitted = split.uncommitted if options.is_read_committed else None
        self.start = -NO_END if split.start_offset is None else split.start_offset
        self.end = NO_END if split.end_offset is None else split.end_offset
        if self.uncommitted is not None:
            self.end = min(self.end, self.uncommitted.last_stable_offset)

    def __getitem__(self, name: str) -> Any:
        return self.headers.column(name)

    def counted(self) -> tuple[int, list[tuple[int, int]]]:
        """The records that the headers tell, and the ranges of bytes that have to be decoded for the others."""
        base, last, count = self["base_offset"], self["last_offset"], self["record_count"]
        untold = pc.or_(pc.is_null(base), pc.and_(pc.is_null(count), pc.greater(self["magic"], _LAST_MESSAGE_MAGIC)))
        none = pc.or_(pc.fill_null(pc.greater_equal(base, self.end), False), pc.less(last, self.start))
        if not self.control:
            none = pc.or_(none, self["is_control"])
        if self.uncommitted is not None and self.uncommitted.aborted:
            none = pc.or_(none, self._aborted(self.uncommitted))
        cut = pc.or_(pc.less(base, self.start), pc.greater_equal(last, self.end))
        most = pc.add(pc.subtract(last, base), 1)
        odd = pc.or_(pc.less(count, 0), pc.greater(count, most))
        decode = pc.or_(pc.or_(untold, pc.is_null(self["compression"])), pc.fill_null(pc.or_kleene(cut, odd), False))
        told = pc.and_not(pc.invert(none), decode)
        records = pc.sum(pc.fill_null(count, 1).filter(told)).as_py() or 0
        return records, list(self._ranges(pc.and_not(decode, none)))

    def _aborted(self, uncommitted: Uncommitted) -> Any:
        """Whether each batch belongs to an aborted transaction: one of its producer, from the first offset to the
        marker's."""
        spans = sorted(uncommitted.aborted)

        def is_in_span(producer: int, base: int) -> bool:
            at = bisect_right(spans, (producer, base, NO_END)) - 1
            return at >= 0 and spans[at][0] == producer and base <= spans[at][2]

        producers = pa.array({producer for producer, _, _ in spans}, pa.int64())
        suspects = pc.and_(self["is_transactional"], pc.is_in(self["producer_id"], producers))
        suspects = pc.and_not(suspects, self["is_control"])
        columns = (self[name].filter(suspects).to_pylist() for name in ("producer_id", "base_offset"))
        return pc.replace_with_mask(suspects, suspects, pa.array(map(is_in_span, *columns), pa.bool_()))

    def _ranges(self, mask: Any) -> Iterator[tuple[int, int]]:
        """The bytes of the chosen batches; adjacent batches are one range."""
        positions, sizes = (self[name].filter(mask).to_pylist() for name in ("position", "size_in_bytes"))
        begin = end = 0
        for position, size in zip(positions, sizes, strict=True):
            if position != end:
                if end:
                    yield begin, end
                begin = position
            end = position + size
        if end:
            yield begin, end
