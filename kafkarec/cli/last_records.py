"""Where the last N records of logs begin, by the record counts of the headers, from the last segment backwards.

Nothing before that position is read or checked. Where headers do not decide (a key, times, aborted transactions,
damage) the range is read, and extended until it holds enough records or starts at the beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import offset_index
from kafkarec.storage import Log, Segment
from kafkarec.tables.records import BatchTable

from .problems import DamageLike, Troubles
from .record_pieces import LogRange, PieceReader

_WIDER = 8


class _Silence(Troubles):
    """Counts damage without reporting it: it is reported when the records are read."""

    def add(self, segment: Segment, damage: DamageLike) -> None:
        self.found += 1

    def tail(self, segment: Segment, remaining: int) -> None:
        pass


def parts(reader: PieceReader, logs: Sequence[Log], count: int) -> list[LogRange]:
    """The parts of logs to read for the last `count` rows: whole logs, and the end of one."""
    found: list[LogRange] = []
    for number, log in reversed(list(enumerate(logs))):
        if count <= 0:
            break
        part, rows = _end(reader, log, count, alone=number == 0)
        found.append(part)
        count -= rows
    return found[::-1]


def _end(reader: PieceReader, log: Log, count: int, alone: bool) -> tuple[LogRange, int]:
    silent = _Silence(reader.troubles.argv, reader.troubles.stop_at_first, "")
    columns = [*reader.selection.columns, "batch_position"]
    trial = replace(
        reader, decode={**reader.decode, "columns": columns}, troubles=silent, tick=lambda source, records: None
    )
    needed = count
    while True:
        start = _start(log, needed, trial)
        low = reader.selection.from_offset
        part = LogRange(log, low if start is None else start if low is None else max(start, low))
        if (start is None and alone) or (start is not None and _headers_decide(trial)):
            return part, count  # whether it is enough shows when it is read
        rows = sum(piece.count for piece in trial.pieces([part]))
        if rows >= count or start is None or silent.stopped:
            return part, rows
        needed *= _WIDER


def _headers_decide(reader: PieceReader) -> bool:
    """Whether all records of each batch are chosen, so that header counts decide."""
    chosen = reader.selection
    bounds = (chosen.key, chosen.from_offset, chosen.to_offset, chosen.from_time, chosen.to_time)
    plain = all(bound is None for bound in bounds) and reader.decode["isolation"] == "read_uncommitted"
    return plain and reader.troubles.stop_at_first


def _start(log: Log, needed: int, reader: PieceReader) -> int | None:
    """The offset from which headers count `needed` records; None: from the beginning."""
    lowest: int | None = None
    for segment in reversed(log.segments):
        rows, offset, known = _promised(segment, needed, reader)
        if not known:
            return segment.base_offset if segment.base_offset and lowest is None else None
        lowest = offset if lowest is None or (offset is not None and offset < lowest) else lowest
        needed -= rows
        if needed <= 0:
            return lowest
    return None


def _promised(segment: Segment, needed: int, reader: PieceReader) -> tuple[int, int | None, bool]:
    """The record count of the last batches, at least `needed` if the log has as many, and the lowest offset of those
    batches. The third is False where a wrapper of magic 0 or 1 hides its count."""
    low, end = reader.selection.from_offset, reader.selection.to_offset
    for hint in _hints(segment):
        if (low is None or low < hint) and end is None:
            promised = _of_last_batches(segment, needed, hint, None, reader.decode["control"])
            if promised[0] >= needed:
                return promised
    return _of_last_batches(segment, needed, low, end, reader.decode["control"])


def _hints(segment: Segment) -> Iterator[int]:
    """Offsets near the end by the index, nearest first: reading from there saves reading all headers."""
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
    """Records a batch, as its header has it; a message of magic 0 or 1 is one or more."""
    return [
        0 if is_control and not control else 1 if count is None else max(count, 0)
        for count, is_control in zip(table.column("record_count"), table.column("is_control"), strict=True)
    ]
