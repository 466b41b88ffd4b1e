"""Steps: what a walk over a log yields, some thousand batches of one segment at a time

batch  batch  damage  batch ...  tail        rows, damage, restored headers, records of the columns asked for
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from kafkarec._core import BatchRows, Chunk
from kafkarec.damage import Damage, Restored
from kafkarec.errors import InvalidRecordError
from kafkarec.tables.records import BATCH_LAYOUT

ABORT, COMMIT = 2, 4  # codes of markers, from `_c/producer_table.pxd`


class TransactionData(NamedTuple):
    """The data of a transaction in the input, in the order of `_c/producer_table.pxd`; -1: absent.

    coordinator_epoch   of the producer's last marker before it
    producer_epoch      of the last data
    segment             the number of the input of the first batch, with that one's position and size
    """

    producer_id: int
    coordinator_epoch: int = -1
    producer_epoch: int = -1
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1
    batches: int = 0
    records: int = 0
    bytes: int = 0
    segment: int = 0
    position: int = -1
    size: int = 0

    def with_earlier(self, earlier: TransactionData | None) -> TransactionData:
        """This data and that of the same transaction before it."""
        if earlier is None:
            return self
        return self._replace(
            first_offset=earlier.first_offset,
            first_timestamp=earlier.first_timestamp,
            last_timestamp=max(earlier.last_timestamp, self.last_timestamp),
            batches=earlier.batches + self.batches,
            records=earlier.records + self.records,
            bytes=earlier.bytes + self.bytes,
            segment=earlier.segment,
            position=earlier.position,
            size=earlier.size,
        )

    def ended(
        self, code: int, marker_offset: int, marker_timestamp: int, coordinator_epoch: int, last_segment: int
    ) -> EndedRow:
        """The row of its marker."""
        marker = code, marker_offset, marker_timestamp, coordinator_epoch, last_segment
        return EndedRow(self.producer_id, *marker, *self[2:11])  # both have the fields from producer_epoch to segment


class EndedRow(NamedTuple):
    """A marker and the data of its transaction, in the order of `_c/producer_table.pxd`: WIDTH consecutive int64; -1:
    absent.

    coordinator_epoch    in the marker
    last_segment         that of the marker
    last_stable_offset   once the marker is written
    batch                the marker's, an index into the batches of the call
    """

    producer_id: int
    code: int
    marker_offset: int
    marker_timestamp: int
    coordinator_epoch: int
    last_segment: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    batches: int
    records: int
    bytes: int
    segment: int
    last_stable_offset: int = -1
    batch: int = -1

    @property
    def data(self) -> TransactionData | None:
        """None: there is none in the input."""
        return TransactionData(self.producer_id, -1, *self[6:15]) if self.batches else None


ROW = EndedRow._fields
WIDTH = len(ROW)


class Oddity(NamedTuple):
    """What is odd about a batch, in the order of `_c/producer_table.pxd`, with the epoch and the first offset of its
    producer's open transaction before it."""

    kind: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    batch: int


EPOCH_CHANGED, UNREADABLE_MARKER, PLAIN_DATA = 0, 1, 2  # kinds
_Row = TypeVar("_Row", EndedRow, Oddity)


def rows_of(numbers: array[int], kind: type[_Row]) -> Iterator[_Row]:
    """The rows of consecutive numbers."""
    return map(kind._make, zip(*[iter(numbers)] * len(kind._fields), strict=True))


MARKER_COLUMNS = ("key", "value", "timestamp")
"""The columns of the records of control batches that tell what they end."""

_COLUMNS = BATCH_LAYOUT.schema.index_of


class Step:
    """Consecutive bytes of one segment.

    segment, number   which segment of the walk
    part              all of it as a PassResult
    rows              the good batches: BatchRow structs with the restored values
    chunk             the records of the columns asked for; None: there are none
    damage, restored  before, between and behind the batches
    tail              (position, length) of what follows the segment's last batch and is not damage, in its last step;
                      None: nothing does
    """

    def __init__(self, segment: Any, number: int, part: Any, tail: tuple[int, int] | None = None) -> None:
        self.segment, self.number, self.part, self.tail = segment, number, part, tail
        self.rows: BatchRows = part.tables[0]
        self.chunk: Chunk | None = part.chunks[0] if part.chunks else None
        self.damage: Sequence[Damage] = part.damage
        self.restored: Sequence[Restored] = part.restored
        self._columns: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """A column of the batch table as a list, made once."""
        found = self._columns.get(name)
        if found is None:
            at = _COLUMNS[name]
            found = self._table.values(at, BATCH_LAYOUT.schema[at].format, 0, len(self.rows))
            self._columns[name] = found
        return found

    def cell(self, name: str, row: int) -> Any:
        """One value of the batch table."""
        return self.rows.value(BATCH_LAYOUT, row, _COLUMNS[name])

    def first_offsets(self, expected: int) -> list[int]:
        """The first offset of each batch. The header of a wrapper message has only the last one: it begins after the
        batch before, the first of the step at `expected`."""
        bases, lasts = self.column("base_offset"), self.column("last_offset")
        if None not in bases:
            return bases
        before = [expected, *(last + 1 for last in lasts[:-1])]
        return [min(last, at) if base is None else base for base, last, at in zip(bases, lasts, before, strict=True)]

    @cached_property
    def _table(self) -> Chunk:
        return self.rows.as_chunk(BATCH_LAYOUT)

    @property
    def first_offset(self) -> int:
        """Of at least one batch; of a wrapper message its last offset."""
        base = self.cell("base_offset", self._row_bounds[0])
        return int(self.cell("last_offset", self._row_bounds[0]) if base is None or base < 0 else base)

    @property
    def last_offset(self) -> int:
        return int(self.cell("last_offset", self._row_bounds[1]))

    @property
    def _row_bounds(self) -> tuple[int, int]:
        """The first and the last row that count."""
        return 0, len(self.rows) - 1

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yields (first, exclusive last row) of the consecutive rows within [start, stop) that count."""
        yield start, stop

    def marker_keys(self) -> set[tuple[int, int]]:
        """(producer id, last offset) of the ABORT and COMMIT markers."""
        return self.rows.end_markers(self.chunk)

    def control_key_error(self, row: int) -> str:
        """The error text of a control batch whose first record cannot be read."""
        assert self.chunk is not None
        runs = self.chunk.runs().cast("q").tolist()
        record = sum(runs[1 : 2 * runs[::2].index(row) : 2])
        [key] = self.chunk.values(0, "z", record, record + 1)
        from kafkarec.format import control  # not at the top, as in holes

        try:
            control.type_id(key)
        except InvalidRecordError as error:
            return str(error)
        return ""


class PartialStep(Step):
    """A step of which some batches do not count: they are not at the place of their offsets. In the columns of offsets
    they have those of the end of the batch before.

    left_out   their rows, in order
    copies     those of them that the log has at their place, too
    """

    def __init__(self, step: Step, left_out: Sequence[int], copies: Container[int]) -> None:
        super().__init__(step.segment, step.number, step.part, step.tail)
        self.left_out, self.copies = left_out, copies
        self._kept = sorted({*range(len(step.rows))}.difference(left_out))

    def __len__(self) -> int:
        return len(self.rows) if self._kept else 0

    @property
    def _row_bounds(self) -> tuple[int, int]:
        return self._kept[0], self._kept[-1]

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for row in self.left_out:
            if start <= row < stop:
                yield start, row
                start = row + 1
        yield start, stop

    def column(self, name: str) -> list[Any]:
        is_new, found = name not in self._columns, super().column(name)
        if is_new and name in ("base_offset", "last_offset"):
            for row in self.left_out:
                found[row] = self.column("last_offset")[row - 1] if row else self.first_offset - 1
        return found

    def marker_keys(self) -> set[tuple[int, int]]:
        producers = super().column("producer_id")
        lost = {(producers[row], self.cell("last_offset", row)) for row in self.left_out if row not in self.copies}
        return super().marker_keys() - lost


def as_stored(value: int | None) -> int:
    """A value of a column as the bytes have it: -1 for None."""
    return -1 if value is None else value
