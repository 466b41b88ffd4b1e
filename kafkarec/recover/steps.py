"""Steps: what a walk over a log yields, some thousand batches of one segment at a time

batch  batch  damage  batch ...  tail        rows, damage, restored headers, records of the columns asked for
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from kafkarec._core import BatchRows, Chunk
from kafkarec._lazy import cached_property
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
        return earlier._replace(
            coordinator_epoch=self.coordinator_epoch,
            producer_epoch=self.producer_epoch,
            last_offset=self.last_offset,
            last_timestamp=max(earlier.last_timestamp, self.last_timestamp),
            batches=earlier.batches + self.batches,
            records=earlier.records + self.records,
            bytes=earlier.bytes + self.bytes,
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


def columns_of(rows: array[int], *names: str) -> Iterator[tuple[int, ...]]:
    """These fields of consecutive EndedRows."""
    return zip(*(rows[ROW.index(name) :: WIDTH] for name in names), strict=True)


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
    start, stop       which of `rows` it has: all, unless it is made by `between`
    """

    def __init__(self, segment: Any, number: int, part: Any, tail: tuple[int, int] | None = None) -> None:
        self.segment, self.number, self.part, self.tail = segment, number, part, tail
        self.rows: BatchRows = part.tables[0]
        self.chunk: Chunk | None = part.chunks[0] if part.chunks else None
        self.damage: Sequence[Damage] = part.damage
        self.restored: Sequence[Restored] = part.restored
        self.start, self.stop = 0, len(self.rows)
        self._columns: dict[str, list[Any]] = {}  # of all rows

    def copy(self) -> Step:
        """Another one of the same bytes, which does not keep the columns that are made of it."""
        return Step(self.segment, self.number, self.part, self.tail)

    def between(self, start: int, stop: int) -> Step:
        """Some consecutive batches as a step; the first ones have all of the damage."""
        found = copy(self)
        found.start, found.stop = self.start + start, self.start + stop
        found.damage = () if start else self.damage
        return found

    def __len__(self) -> int:
        return self.stop - self.start

    def column(self, name: str) -> list[Any]:
        """A column of the batch table as a list, made once."""
        found = self._columns.get(name)
        if found is None:
            found = self._table.values(_COLUMNS[name], 0, len(self.rows))
            self._columns[name] = found
        return found if len(found) == len(self) else found[self.start : self.stop]

    def zip_columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The values of several columns of the batch table, batch by batch."""
        return zip(*map(self.column, names), strict=True)

    def cell(self, name: str, row: int) -> Any:
        """One value of the batch table, of one of `rows`."""
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
        base = self.cell("base_offset", self.start)
        return int(self.cell("last_offset", self.start) if base is None or base < 0 else base)

    @property
    def last_offset(self) -> int:
        return int(self.cell("last_offset", self.stop - 1))

    def marker_keys(self) -> set[tuple[int, int]]:
        """(producer id, last offset) of the ABORT and COMMIT markers."""
        found = self.rows.end_markers(self.chunk)
        if len(self) == len(self.rows):  # as in a log in order
            return found
        own = zip(map(as_stored, self.column("producer_id")), self.column("last_offset"), strict=True)
        return found.intersection(own)

    @cached_property
    def _first_records(self) -> dict[int, int]:
        """Which record of the chunk is the first one of each of `rows` that has some."""
        assert self.chunk is not None
        runs = self.chunk.runs().cast("q").tolist()
        return dict(zip(runs[::2], accumulate(runs[1::2], initial=0), strict=False))

    def control_record(self, row: int) -> list[Any]:
        """Key and value of the first record of a control batch, one of `rows`, by the MARKER_COLUMNS."""
        assert self.chunk is not None
        at = self._first_records[row]
        return [self.chunk.values(column, at, at + 1)[0] for column in (0, 1)]

    def control_key_error(self, row: int) -> str:
        """The error text of a control batch, one of `rows`, whose first record cannot be read."""
        from kafkarec.format import control  # not at the top, as in holes

        try:
            control.type_id(self.control_record(row)[0])
        except InvalidRecordError as error:
            return str(error)
        return ""


def as_stored(value: int | None) -> int:
    """A value of a column as the bytes have it: -1 for None."""
    return -1 if value is None else value
