"""The first and the last rows of what is read: `stream(first=, last=)`, and `cat` and `scan` with -n and --last.

Where the last N records of logs begin is found by the record counts in batch headers, from the last segment backwards.
Nothing before that position is read or checked. If header counts are not enough (with keys, ranges, aborted
transactions or skipped damage), the range is read, and extended until it has enough records or begins at the log's
start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from kafkarec.errors import KafkaRecordError
from kafkarec.read.decode_options import request
from kafkarec.sidecars import offset_index
from kafkarec.tables.records import BatchTable, RecordColumns

from . import log_reading
from .log_reading import Groups, Selection
from .ranges import EVERYTHING, RecordRange
from .segment_file import SegmentFile
from .segment_summary import least_known

AnyTable = TypeVar("AnyTable", RecordColumns, BatchTable)
_Piece = tuple[Any, AnyTable]  # a segment, and some of its rows
_GROWTH = 8  # by how much the range is extended


def limited(pieces: Generator[_Piece[AnyTable]], first: int | None, last: int | None) -> Generator[_Piece[AnyTable]]:
    """The last rows of pieces (segment, table), of these the first; None: all of them."""
    with closing(pieces):
        chosen: Iterable[_Piece[AnyTable]] = pieces if last is None else last_rows(pieces, last)
        if first is None:
            yield from chosen
            return
        for segment, table in chosen if first else ():
            yield segment, table[:first] if len(table) > first else table
            first -= len(table)
            if first <= 0:  # no further piece is read
                return


def last_rows(pieces: Iterable[_Piece[AnyTable]], count: int) -> Iterator[_Piece[AnyTable]]:
    """The last `count` rows; only the pieces that they are in are kept. An error is raised after them."""
    kept: deque[_Piece[AnyTable]] = deque()
    total, raised = 0, None
    try:
        for piece in pieces:
            kept.append(piece)
            total += len(piece[1])
            while kept and total - len(kept[0][1]) >= count:
                total -= len(kept.popleft()[1])
    except KafkaRecordError as error:
        raised = error
    for segment, table in kept:
        yield segment, table[max(total - count, 0) :]
        total = min(total, count)
    if raised is not None:
        raise raised


def last_pieces(groups: Groups, chosen: Selection, count: int) -> Generator[tuple[SegmentFile, RecordColumns]]:
    """As log_reading.pieces, of the end of the logs that has the last `count` records."""
    groups = list(groups)
    for number, end_of_log in last_ranges(groups, chosen, count):
        yield from log_reading.pieces([groups[number]], chosen._replace(record_range=end_of_log))


def last_ranges(
    groups: Sequence[Sequence[SegmentFile]], chosen: Selection, count: int
) -> list[tuple[int, RecordRange]]:
    """(the number of a log, its end in the range) of the last logs, which have the last `count` records."""
    found: list[tuple[int, RecordRange]] = []
    for number, group in reversed(list(enumerate(groups))):
        if count <= 0:
            break
        start, rows = _start_of_last_records(group, chosen, count, is_first=number == 0)
        found.append((number, chosen.record_range._replace(first_offset=start)))
        count -= rows
    return found[::-1]


class _StartOfLastRecords(NamedTuple):
    """Where the last records of a log begin.

    offset            the least one of their batches; None: the log's first one
    number, position  of the segment with the first of these batches, and where that is
    is_known          whether headers tell
    """

    offset: int | None = None
    number: int = 0
    position: int = 0
    is_known: bool = True


def _start_of_last_records(
    group: Sequence[SegmentFile], chosen: Selection, count: int, *, is_first: bool
) -> tuple[int | None, int]:
    """(where the last `count` records begin, or all, as there are fewer, how many there are)."""
    record_range, options = chosen.record_range, chosen.request.options
    every_record = record_range == EVERYTHING and options.keys is None and not chosen.is_committed
    counts_suffice = every_record and not chosen.request.skip
    trial = chosen.request._replace(layout=request(columns=("batch_position",)).layout, skip=True)
    low, needed, before = record_range.first_offset, count, None
    while True:
        start = _start_by_headers(group, needed, record_range, options.control)
        if start == before:  # more rows do not lead further back: the counts of wrapper messages are not known
            start = _StartOfLastRecords()
        begin = low if start.offset is None else start.offset if low is None else max(start.offset, low)
        if (start.offset is None and is_first) or (start.offset is not None and start.is_known and counts_suffice):
            return begin, count
        further = chosen._replace(request=trial, record_range=record_range._replace(first_offset=begin), threads=1)
        rows = 0  # at the start or behind it: others have a wrong offset
        for segment, records in log_reading.pieces([group], further):
            number = group.index(segment)
            rows += len(records) if number >= start.number else 0
            if number == start.number:
                rows -= bisect_left(records.column("batch_position"), start.position)
        if rows >= count or start.offset is None:
            return begin, rows
        needed, before = needed * _GROWTH, start


def _start_by_headers(
    group: Sequence[SegmentFile], needed: int, record_range: RecordRange, control: bool
) -> _StartOfLastRecords:
    """Where the last `needed` records begin, as headers count them."""
    lowest: int | None = None
    for number, segment in reversed(list(enumerate(group))):
        rows, offset, position = _count_last_batches(segment, needed, record_range, control)
        if position is None:
            return (
                _StartOfLastRecords(segment.base_offset, number, 0, False)
                if lowest is None and segment.base_offset
                else _StartOfLastRecords()
            )
        lowest = least_known(lowest, offset)
        needed -= rows
        if needed <= 0:
            return _StartOfLastRecords(lowest, number, position)
    return _StartOfLastRecords()


def _count_last_batches(
    segment: SegmentFile, needed: int, record_range: RecordRange, control: bool
) -> tuple[int, int | None, int | None]:
    """(record count, least offset, position of the first) of the last batches with at least `needed` records, or of
    all; no position: the count in a wrapper of magic 0 or 1 is not known."""
    low, end = record_range[:2]
    # not all headers are read where the index has an offset near the end
    entries = segment.index_entries(offset_index) if end is None else ()
    hints = [entries[-back].offset for back in (2, 64, 2048) if back < len(entries)]
    for first in [*(hint for hint in hints if low is None or low < hint), low]:
        kept, total = deque[tuple[int, int | None, int]](), 0
        for table in log_reading.batch_tables([segment], errors="skip", record_range=RecordRange(first, end)):
            for count, is_control, base, position in table.zip_columns(
                "record_count", "is_control", "base_offset", "position"
            ):
                # 1 for a message of magic 0 or 1, which may have more
                rows = 0 if is_control and not control else 1 if count is None else max(count, 0)
                kept.append((rows, base, position))
                total += rows
                while total - kept[0][0] >= needed:
                    total -= kept.popleft()[0]
        if total >= needed:
            break
    bases = [base for _, base, _ in kept]
    position = None if None in bases else kept[0][2] if kept else 0
    return total, least_known(*bases), position
