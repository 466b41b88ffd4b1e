"""In a task: counts the records of a split by the headers of its batches.

| batch | its records are counted by |
|---|---|
| magic 2, within the range of offsets | the header: record_count, of a compacted batch too |
| control, unless includeControl; from the range's end or the last stable offset on | none |

The number is that of the data source. A split with any other batch (magic 0 and 1, a bound of the range within it, a
transaction where one was aborted), or where checksums or headers show damage, a restored header or an unfinished batch,
is read as the data source reads it.
"""

from __future__ import annotations

from contextlib import closing, suppress

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs.bootstrap import kafkarec

from . import planning, reading
from .counters import TaskCounters
from .options import ReadOptions
from .planning import Split

_TOLD = "base_offset", "last_offset", "record_count", "compression", "is_transactional"


def count_split(split: Split, counters: TaskCounters, *, options: ReadOptions) -> None:
    """Counts the records of one split that the data source returns. Errors are those of the data source."""
    with planning.opened_split(options, split) as part:
        if part is None:
            return
        counters.add_split(split)
        with suppress(kafkarec.KafkaRecordError):
            if _count_by_headers(part, split, options, counters):
                counters.add_gap()
                return
    counters.rows.pop()
    for _ in reading.read_split(split, options, reading.OFFSET_COLUMNS, counters):
        pass


def _count_by_headers(part: kafkarec.Segment, split: Split, options: ReadOptions, counters: TaskCounters) -> bool:
    """Adds the batches of a split; False: the data source has to read it."""
    start, stop = split.start_offset or 0, split.uncommitted.last_stable_offset
    stop = stop if split.end_offset is None else min(stop, split.end_offset)
    scanned = part.scan_pieces(
        start_offset=split.start_offset,
        end_offset=split.end_offset,
        errors=options.errors,
        check_crcs=options.checkCrcs,
    )
    with closing(scanned) as tables:
        for table in tables:
            if table.damage or table.restored or table.remaining:
                return False
            if split.followed_by is not None and max(table.column("next_offset"), default=0) > split.followed_by[1]:
                return False  # the next segment, in another folder, has some of these offsets too
            headers = pa.table(table)
            is_read = pc.less(pc.fill_null(headers.column("base_offset"), -1), stop)
            if not options.includeControl:
                is_read = pc.and_(is_read, pc.invert(headers.column("is_control")))
            base, last, count, compression, is_transactional = (headers.column(name).filter(is_read) for name in _TOLD)
            is_told = [
                pc.is_valid(compression),
                pc.greater_equal(base, start),
                pc.less(last, stop),
                pc.less_equal(count, pc.add(pc.subtract(last, base), 1)),
                pc.greater_equal(count, 0),
            ]
            if split.uncommitted.aborted:
                is_told.append(pc.invert(is_transactional))
            # where a column is null, the header does not tell either
            if not all(pc.all(each, skip_nulls=False, min_count=0).as_py() for each in is_told):
                return False
            counters.add_piece(table, has_control=False)
            returned, every = (pc.sum(each).as_py() or 0 for each in (count, headers.column("record_count")))
            counters.add(records=returned - every)
    return True
