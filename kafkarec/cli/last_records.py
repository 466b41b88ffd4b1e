"""Finds where the last N records of logs begin, by the record counts in batch headers, from the last segment backwards.

Nothing before that position is read or checked. If header counts are not enough (with a key, times, aborted
transactions or damage), the range is read, and extended until it has enough records or begins at the log's start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from kafkarec.errors import KafkaRecordError
from kafkarec.logs import Log, Segment
from kafkarec.sidecars import offset_index
from kafkarec.tables.records import BatchTable

from .record_pieces import LogRange, PieceReader

_GROWTH = 8  # by how much the range is extended


def parts(reader: PieceReader, logs: Sequence[Log], count: int) -> list[LogRange]:
    """Return the ranges to read for the last `count` rows: the end of one log, and all later logs."""
    ranges: list[LogRange] = []
    for number, log in reversed(list(enumerate(logs))):
        if count <= 0:
            break
        part, rows = _end(reader, log, count, is_first=number == 0)
        ranges.append(part)
        count -= rows
    return ranges[::-1]


def _end(reader: PieceReader, log: Log, count: int, is_first: bool) -> tuple[LogRange, int]:
    trial = reader.silent()
    needed = count
    before: int | None = -1
    while True:
        start = _start(log, needed, trial)
        if start == before:  # more rows do not lead further back: the counts of wrapper messages are not known
            start = None
        before = start
        low = reader.selection.from_offset
        part = LogRange(log, low if start is None else start if low is None else max(start, low))
        if (start is None and is_first) or (start is not None and _counts_suffice(trial)):
            return part, count
        rows = sum(piece.count for piece in trial.pieces([part]))
        if rows >= count or start is None or trial.damage_reporter.stopped:
            return part, rows
        needed *= _GROWTH


def _counts_suffice(reader: PieceReader) -> bool:
    """Whether all records of each batch are selected, so that the counts in headers are those of the output."""
    chosen = reader.selection
    bounds = (chosen.keys or None, chosen.from_offset, chosen.to_offset, chosen.from_time, chosen.to_time)
    plain = all(bound is None for bound in bounds) and reader.decode["isolation"] == "read_uncommitted"
    return plain and reader.damage_reporter.stop_at_first


def _start(log: Log, needed: int, reader: PieceReader) -> int | None:
    """Return the offset from which the headers count `needed` records; None: from the beginning."""
    lowest: int | None = None
    for segment in reversed(log.segments):
        rows, offset, known = _counted(segment, needed, reader)
        if not known:
            return segment.base_offset if segment.base_offset and lowest is None else None
        lowest = offset if lowest is None or (offset is not None and offset < lowest) else lowest
        needed -= rows
        if needed <= 0:
            return lowest
    return None


def _counted(segment: Segment, needed: int, reader: PieceReader) -> tuple[int, int | None, bool]:
    """Return (record count, lowest offset, whether the count is known) of the last batches with at least `needed`
    records, or of all. The count in a wrapper of magic 0 or 1 is not known."""
    low, end = reader.selection.from_offset, reader.selection.to_offset
    for hint in _hints(segment):
        if (low is None or low < hint) and end is None:
            counted = _of_last_batches(segment, needed, hint, None, reader.decode["control"])
            if counted[0] >= needed:
                return counted
    return _of_last_batches(segment, needed, low, end, reader.decode["control"])


def _hints(segment: Segment) -> Iterator[int]:
    """Yield offsets near the end from the index, nearest first. Reading from there avoids reading all headers."""
    data = segment.sidecar(offset_index.SUFFIX) if segment.base_offset is not None else None
    if not data:
        return
    try:
        entries = offset_index.read(data, segment.base_offset or 0)
    except KafkaRecordError:
        return
    for back in (2, 64, 2048):
        if back < len(entries):
            yield entries[-back].offset


def _of_last_batches(
    segment: Segment, needed: int, low: int | None, end: int | None, control: bool
) -> tuple[int, int | None, bool]:
    tables: deque[tuple[BatchTable, list[int]]] = deque()
    total = 0
    for table in segment.scan_pieces(errors="skip", start_offset=low, end_offset=end):
        counts = _counts(table, control)
        tables.append((table, counts))
        total += sum(counts)
        while total - sum(tables[0][1]) >= needed and len(tables) > 1:
            total -= sum(tables.popleft()[1])
    rows, lowest = 0, None
    for table, counts in reversed(tables):
        first = len(counts)
        while first and rows < needed:
            first -= 1
            rows += counts[first]
        offsets = table.column("base_offset")[first:]
        if None in offsets:
            return rows, None, False
        lowest = min([*offsets, *([] if lowest is None else [lowest])], default=None)
    return rows, lowest, True


def _counts(table: BatchTable, control: bool) -> list[int]:
    """Return the record count of each batch by its header; 1 for a message of magic 0 or 1, which may have more."""
    return [
        0 if is_control and not control else 1 if count is None else max(count, 0)
        for count, is_control in zip(table.column("record_count"), table.column("is_control"), strict=True)
    ]
