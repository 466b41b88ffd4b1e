"""Selects rows of a piece by offset, time, key, position and count."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordColumns

from .table_windows import rows_with, windows


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """A window of a table and its selected rows, in order (None: all of them)."""

    source: SegmentFile
    table: Any
    rows: Sequence[int] | None

    @property
    def selected(self) -> Sequence[int]:
        """The selected rows, also if all are."""
        return range(len(self.table)) if self.rows is None else self.rows

    @property
    def count(self) -> int:
        return len(self.selected)

    def slice(self, start: int, stop: int) -> SelectedRows:
        return SelectedRows(self.source, self.table, self.selected[start:stop])


@dataclass(frozen=True)
class Selection:
    """Bounds of the selection; None: no bound. Upper bounds are exclusive; times are ms."""

    from_offset: int | None
    to_offset: int | None
    from_time: int | None
    to_time: int | None
    keys: Sequence[bytes] = ()  # none: records with any key, or without one

    @property
    def columns(self) -> list[str]:
        """The columns that the selection needs."""
        return ["key"] if self.keys else []

    @property
    def ranges(self) -> dict[str, Any]:
        """The part of the selection that the reader applies, as options of `Log.stream`."""
        return {
            "start_offset": self.from_offset,
            "end_offset": self.to_offset,
            "start_timestamp": self.from_time,
            "end_timestamp": self.to_time,
        }

    def choose(self, source: SegmentFile, records: Any, stop_at: int | None = None) -> Iterator[SelectedRows]:
        """Yield the selected rows. `stop_at`: the position from which batches are left out."""
        for window in windows(records):
            piece = SelectedRows(source, window, self._rows(window, stop_at))
            if piece.count:
                yield piece

    def _rows(self, window: RecordColumns, stop_at: int | None) -> list[int] | None:
        rows: list[int] | None = None
        if self.keys:
            rows = sorted({row for key in self.keys for row in rows_with(window, key)})
        if stop_at is not None:
            positions = window.column("batch_position")
            rows = [row for row in (range(len(window)) if rows is None else rows) if positions[row] < stop_at]
        return None if rows is not None and len(rows) == len(window) else rows


def limited(pieces: Iterable[SelectedRows], first: int | None, last: int | None) -> Iterable[SelectedRows]:
    """Return the first or the last rows; all of them if neither is asked for."""
    if first is not None:
        return first_rows(pieces, first)
    return pieces if last is None else last_rows(pieces, last)


def first_rows(pieces: Iterable[SelectedRows], count: int) -> Iterator[SelectedRows]:
    """Yield the first `count` rows; read no further pieces."""
    if not count:
        return
    for piece in pieces:
        yield piece.slice(0, count) if piece.count > count else piece
        count -= piece.count
        if count <= 0:
            return


def last_rows(pieces: Iterable[SelectedRows], count: int) -> Iterator[SelectedRows]:
    """Yield the last `count` rows; keep only the pieces that they are in."""
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
