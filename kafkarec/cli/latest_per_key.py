"""`cat --latest-per-key`: of the selected records only the last one of each key, as compaction would leave them.

A log is read twice: first for the last offset of each key, then for the records. Memory grows with the number of
different keys in one partition (some 50 bytes for a key of 16), not with records or values. Records without a key are
left out; a tombstone (value null) is a record.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec._verbs import LastOffsets

from .record_pieces import LogRange, PieceReader
from .selection import SelectedRows

COLUMNS = ("key", "offset")


def pieces(reader: PieceReader, parts: Iterable[LogRange]) -> Generator[SelectedRows]:
    """Yield the rows that have the last offset of their key in the selection of their log."""
    for part in parts:
        last = LastOffsets()
        for piece in reader.silent(*COLUMNS).pieces([part]):
            keyed = _keyed(piece)
            last.put(keyed.keys, keyed.offsets, len(keyed.rows))
        for piece in reader.pieces([part]):
            keyed = _keyed(piece)
            flags = last.latest(keyed.keys, keyed.offsets, len(keyed.rows))
            rows = [row for row, is_last in zip(keyed.rows, flags, strict=True) if is_last]
            if rows:
                yield SelectedRows(piece.source, piece.table, rows)
        if reader.damage_reporter.stopped:
            return


class _Keyed(NamedTuple):
    """The rows of a piece that have a key; their keys and offsets as LastOffsets reads them."""

    rows: Sequence[int]
    keys: tuple[Any, Any, Any]
    offsets: Any


def _keyed(piece: SelectedRows) -> _Keyed:
    keys, offsets = piece.table.column("key"), piece.table.column("offset")
    rows = [row for row in piece.selected if keys[row] is not None]
    ends = array("i", accumulate((len(keys[row]) for row in rows), initial=0))
    return _Keyed(rows, (None, ends, b"".join(keys[row] for row in rows)), array("q", (offsets[row] for row in rows)))
