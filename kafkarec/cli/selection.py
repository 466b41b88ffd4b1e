"""Which rows of a piece are wanted: by offset, time, key, position and count."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafkarec.storage import Segment
from kafkarec.tables.records import RecordColumns

from .table_windows import rows_with, windows


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """A window of a table and its chosen rows, in order (None: all of them)."""

    source: Segment
    table: Any
    rows: Sequence[int] | None

    @property
    def count(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def slice(self, start: int, stop: int) -> SelectedRows:
        rows = range(len(self.table)) if self.rows is None else self.rows
        return SelectedRows(self.source, self.table, rows[start:stop])


@dataclass(frozen=True)
class Selection:
    """Bounds are None where there is none; the upper ones are exclusive; times are ms."""

    from_offset: int | None
    to_offset: int | None
    from_time: int | None
    to_time: int | None
    key: bytes | None

    @property
    def columns(self) -> list[str]:
        """The columns that the selection reads."""
        return ["key"] if self.key is not None else []

    @property
    def ranges(self) -> dict[str, Any]:
        """The part of the selection that the engine applies, as options of `Log.stream`."""
        return {
            "start_offset": self.from_offset,
            "end_offset": self.to_offset,
            "start_timestamp": self.from_time,
            "end_timestamp": self.to_time,
        }

    def choose(self, source: Segment, records: Any, stop_at: int | None = None) -> Iterator[SelectedRows]:
        """`stop_at`: the position from which batches are left out."""
        for window in windows(records):
            piece = SelectedRows(source, window, self._rows(window, stop_at))
            if piece.count:
                yield piece

    def _rows(self, window: RecordColumns, stop_at: int | None) -> list[int] | None:
        rows: list[int] | None = None
        if self.key is not None:
            rows = rows_with(window, "key", self.key)
        if stop_at is not None:
            positions = window.column("batch_position")
            rows = [row for row in (range(len(window)) if rows is None else rows) if positions[row] < stop_at]
        return None if rows is not None and len(rows) == len(window) else rows


def first_rows(pieces: Iterable[SelectedRows], count: int) -> Iterator[SelectedRows]:
    """The first `count` rows; reads no further pieces."""
    if not count:
        return
    for piece in pieces:
        yield piece.slice(0, count) if piece.count > count else piece
        count -= piece.count
        if count <= 0:
            return


def last_rows(pieces: Iterable[SelectedRows], count: int) -> Iterator[SelectedRows]:
    """The last `count` rows; holds only the pieces that they need."""
    kept: deque[SelectedRows] = deque()
    total = 0
    for piece in pieces:
        kept.append(piece)
        total += piece.count
        while total - kept[0].count >= count:
            total -= kept.popleft().count
            if not kept:
                break
    for piece in kept:
        surplus = total - count
        if surplus > 0:
            total -= surplus
            piece = piece.slice(surplus, piece.count)
        yield piece
