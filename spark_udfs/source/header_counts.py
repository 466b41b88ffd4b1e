"""In a task: counts the records of a split by the headers of its batches.

| batch | its records are counted by |
|---|---|
| magic 2, within the range of offsets | the header: record_count, of a compacted batch too |
| control, unless includeControl; from the range's end or the last stable offset on | none |

The number is that of the data source. A split with any other batch (magic 0 and 1, a bound of the range within it, a
producer with an aborted transaction there), or where checksums or headers show damage, a restored header or an
unfinished batch, is read as the data source reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs.bootstrap import kafkarec

from . import planning, reading
from .log_end import SplitEnd
from .options import ReadOptions
from .planning import Split


def count_split(split: Split, options: ReadOptions, counters: reading.TaskCounters) -> int:
    """The records of one split that the data source returns. Errors are those of the data source."""
    with planning.opened_split(options, split) as part:
        if part is None:
            return 0
        try:
            end = SplitEnd(part, split)
            counts = _count_by_headers(part, split, options, end)
        except kafkarec.KafkaRecordError:
            counts = None
        if counts is None:
            return sum(batch.num_rows for batch in reading.read_split(split, options, reading.OFFSET_COLUMNS, counters))
        counters.add_split(split)
        counters.add(**counts)
        counters.add_end(end)
        return counts["records"]


def _count_by_headers(
    part: kafkarec.Segment, split: Split, options: ReadOptions, end: SplitEnd
) -> dict[str, int] | None:
    """Bytes, batches and records; None: the data source has to read it. Adds the batches to `end`."""
    size = batches = records = 0
    scanned = part.scan_pieces(
        start_offset=split.start_offset,
        end_offset=split.end_offset,
        errors=options.errors,
        check_crcs=options.checkCrcs,
    )
    with closing(scanned) as tables:
        for table in tables:
            if table.damage or table.restored or table.remaining:
                return None
            end.add(table)
            headers = pa.table(table)
            last = pc.max(headers.column("next_offset")).as_py() or 0
            if split.followed_by is not None and last > split.followed_by[1]:
                return None  # the next segment, in another folder, has some of these offsets too
            stable = split.uncommitted.last_stable_offset
            stop = stable if split.end_offset is None else min(stable, split.end_offset)
            returned = headers.filter(pc.less(pc.fill_null(headers.column("base_offset"), -1), stop))
            if not options.includeControl:
                returned = returned.filter(pc.invert(returned.column("is_control")))
            if not _say_their_records(returned, split.start_offset or 0, stop, split.uncommitted.aborted):
                return None
            batches += len(headers)
            size += pc.sum(headers.column("size_in_bytes")).as_py() or 0
            records += pc.sum(returned.column("record_count")).as_py() or 0
    return {"bytes": size, "batches": batches, "records": records}


def _say_their_records(headers: pa.Table, start: int, stop: int, aborted: Sequence[tuple[int, int, int]]) -> bool:
    """Whether the data source returns as many records of each batch as its header has."""
    base, last, count = map(headers.column, ("base_offset", "last_offset", "record_count"))
    known = [
        pc.is_valid(headers.column("compression")),
        pc.greater_equal(base, start),
        pc.less(last, stop),
        pc.less_equal(count, pc.add(pc.subtract(last, base), 1)),
        pc.greater_equal(count, 0),
    ]
    if aborted:
        _, firsts, markers = zip(*aborted, strict=True)
        may_be = pc.and_(pc.greater_equal(last, min(firsts)), pc.less(base, max(markers)))
        known.append(pc.invert(pc.and_(headers.column("is_transactional"), may_be)))
    # a column that is null in any of the conditions does not tell either
    return all(pc.all(each, skip_nulls=False, min_count=0).as_py() for each in known)
