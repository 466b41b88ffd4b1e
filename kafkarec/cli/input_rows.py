"""Blocks of input rows for `build`, as Python lists: a column is a list, a row an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

from .input_cells import BadCell, Columns

# The columns of a block that are written, in the order of a record's tuple.
RECORD = ("offset", "timestamp", "key", "value", "headers")
# Called with the position and problem of each row that cannot be converted; may raise to end the run.
Refuse = Callable[[str, str], None]
Raw = TypeVar("Raw", bound=tuple[Any, ...])


class InputRows:
    """Consecutive rows of the input. columns: as `input_cells.typed` returns them; places: of each row the file and
    what is counted in it, and the position: ("orders.jsonl, line", 7)"""

    def __init__(self, columns: Columns, places: Sequence[tuple[str, int]]) -> None:
        self._columns = columns
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def column(self, name: str) -> Sequence[Any] | None:
        """Return the cells of a column; None if the input has no such column."""
        return self._columns.get(name)

    def set(self, name: str, cells: Sequence[Any]) -> None:
        """Replace a column by a column of integers."""
        self._columns[name] = cells

    def slice(self, start: int, stop: int) -> InputRows:
        columns = {name: cells[start:stop] for name, cells in self._columns.items()}
        return InputRows(columns, self._places[start:stop])

    def take(self, rows: Sequence[int]) -> InputRows:
        columns: Columns = {name: [cells[row] for row in rows] for name, cells in self._columns.items()}
        return InputRows(columns, [self._places[row] for row in rows])

    def joined(self, *others: InputRows) -> InputRows:
        """Return these rows followed by those of `others`."""
        blocks = (self, *others)
        names = {name: None for block in blocks for name in block._columns}
        columns: Columns = {name: list(chain.from_iterable(block._cells(name) for block in blocks)) for name in names}
        return InputRows(columns, list(chain.from_iterable(block._places for block in blocks)))

    def has_headers(self, row: int) -> bool:
        return bool("headers" in self._columns and self._columns["headers"][row])

    def records(self) -> list[tuple[Any, ...]]:
        """Return the rows as an argument of kafkarec.encode."""
        return list(zip(*map(self._cells, RECORD), strict=True))

    def where(self, row: int) -> str:
        """Return the position of a row in the input, for a message: `orders.jsonl, line 7`."""
        unit, number = self._places[row]
        return f"{unit} {number}"

    def _cells(self, name: str) -> Sequence[Any]:
        none: Any = [] if name == "headers" else None
        return self._columns[name] if name in self._columns else [none] * len(self)


def good_rows(
    block: Sequence[Raw], columns_of_block: Callable[[Sequence[Raw]], Columns], refuse: Refuse, unit: str
) -> Iterator[InputRows]:
    """Yield the rows of a block of raw rows, each a tuple that begins with its position, in one piece. Where one of
    them cannot be converted, each is tried alone, and those that cannot are refused. unit: see InputRows"""
    try:
        yield InputRows(columns_of_block(block), [(unit, one[0]) for one in block])
        return
    except BadCell:
        pass
    good = []
    for one in block:
        try:
            columns_of_block([one])
        except BadCell as bad:
            refuse(f"{unit} {one[0]}", str(bad))
        else:
            good.append(one)
    if good:
        yield InputRows(columns_of_block(good), [(unit, one[0]) for one in good])
