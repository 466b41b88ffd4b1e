"""decode_each, scan_each: a column whose values are raw batches becomes a list of records, or of batches, per value."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, cast

from kafkarec._core import BinaryArray, Decoder
from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import LOG_OVERHEAD
from kafkarec.tables.records import BATCH_LAYOUT, BatchTable, RecordColumns, Table

from .decode_options import checked_bytes, request_of_locals, scan_request
from .passes import incomplete_batch

_BATCH_ROW_BYTES = 128


# Of a value that ends in mid-batch: its index, the row after its last one, the row of its last good batch (None: it has
# none), and of the bytes behind that one the first 12, where they begin and how many they are.
_Incomplete = tuple[int, int, int | None, tuple[bytes, int, int]]


class RecordLists:
    """Values [start, stop) of a column, decoded: list i has rows offsets[i] .. offsets[i + 1] of `.records`.

    .records    RecordColumns (decode_each) or BatchTable (scan_each): the rows of all lists, one after the other
    .offsets    memoryview of int32, stop - start + 1 entries
    .validity   bytes, a bit per value: a null value is a null list
    .damage     tuple of (value index, row, Damage): the damaged range precedes that row of `.records`
    .incomplete the same for each value that ends in mid-batch, as a Fetch response may; not in `.damage`
    """

    def __init__(
        self,
        start: int,
        records: Table,
        offsets: Sequence[int],
        nulls: Sequence[int],
        damage: Iterable[tuple[int, int, Damage]],
        incomplete: Sequence[_Incomplete],
    ) -> None:
        count = len(offsets) - 1
        bits = bytearray(b"\xff" * ((count + 7) // 8))
        for i in nulls:
            bits[i >> 3] &= ~(1 << (i & 7)) & 0xFF
        self.start, self.stop, self.records = start, start + count, records
        self.offsets = memoryview(array.array("i", offsets)).toreadonly()
        self.validity, self.nulls = bytes(bits), len(nulls)
        self.damage = tuple(damage)
        self._incomplete = incomplete

    @property
    def incomplete(self) -> tuple[tuple[int, int, Damage], ...]:
        if not self._incomplete:
            return ()
        batches = self.records if isinstance(self.records, BatchTable) else cast(RecordColumns, self.records).batches
        following = batches.column("next_offset")
        return tuple(
            (value, row, incomplete_batch(*end, None if batch is None else following[batch]))
            for value, row, batch, end in self._incomplete
        )

    def __len__(self) -> int:
        return self.stop - self.start

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """A list<struct<columns>> array over the same buffers, one list per value; may be called many times."""
        schema, array = self.records.list_capsules(self.offsets, self.validity, self.nulls)
        return schema, array

    def is_null(self, i: int) -> bool:
        """Whether value start + i was null."""
        return not self.validity[i >> 3] >> (i & 7) & 1

    def __repr__(self) -> str:
        return f"<RecordLists: values {self.start}..{self.stop}, {len(self.records)} rows, {len(self.damage)} damaged>"


def _decode_values(
    values: Any,
    decoder: Decoder,
    max_bytes: int,
    filled: Callable[[Decoder], tuple[int, int, int]],
    take_table: Callable[[Decoder], Table],
    of_batches: bool = False,
) -> Iterator[RecordLists]:
    """Decodes value after value. filled: (rows, batches, bytes) decoded so far; take_table: moves these rows from the
    decoder to a table."""
    if hasattr(values, "__arrow_c_array__"):
        values = BinaryArray(*values.__arrow_c_array__())
    elif isinstance(values, bytes | str) or not isinstance(values, Sequence):
        raise TypeError(f"values: an Arrow binary array or a sequence of buffers, not {type(values).__name__}")
    count, get = len(values), values.__getitem__
    start, offsets = 0, [0]
    nulls: list[int] = []
    damage: list[tuple[int, int, Damage]] = []
    incomplete: list[_Incomplete] = []
    batches = 0
    for i in range(count):
        value = get(i)
        if value is None:
            nulls.append(i - start)
        else:
            decoder.feed(value)
            try:
                decoder.run()
            except KafkaRecordError as error:
                error.value_index = i
                raise
            damage += [(i, batch if of_batches else row, one) for batch, row, one in decoder.pop_damage()]
        before = batches
        rows, batches, size = filled(decoder)
        offsets.append(rows)
        if value is not None and decoder.remaining:
            view, left = checked_bytes(value), decoder.remaining
            head = bytes(view[len(view) - left :][:LOG_OVERHEAD])
            last_batch = batches - 1 if batches > before else None
            incomplete.append((i, rows, last_batch, (head, len(view) - left, left)))
        if size >= max_bytes and i + 1 < count:
            yield RecordLists(start, take_table(decoder), offsets, nulls, damage, incomplete)
            start, offsets, nulls, damage, incomplete, batches = i + 1, [0], [], [], [], 0
    yield RecordLists(start, take_table(decoder), offsets, nulls, damage, incomplete)


def decode_each(
    values: Any,
    *,
    columns: Iterable[str] | None = None,
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
    restore: bool = True,
    max_output_bytes: int = 64 << 20,
) -> Iterator[RecordLists]:
    """decode() for a column: each value is a separate input, and positions count from its first byte.

    values: an Arrow binary array (`__arrow_c_array__`), or a sequence of buffers and None
    max_decompressed_bytes: cap per value, of all its compressed payloads together
    max_output_bytes: a piece ends after the value that reaches it, so that 32-bit offsets are sufficient

    A null value is a null list, an empty one an empty list. Under errors="raise" the exception has `value_index`.
    Yields at least one RecordLists.
    """
    decode_request = request_of_locals(locals()).for_values

    def take_table(decoder: Decoder) -> RecordColumns:
        return RecordColumns(decode_request.layout, decoder.take(True, empty=True))

    decoder = decode_request.decoder()
    return _decode_values(values, decoder, min(max_output_bytes, 1 << 30), attrgetter("filled"), take_table)


def scan_each(values: Any, *, errors: str = "raise", max_output_bytes: int = 64 << 20) -> Iterator[RecordLists]:
    """scan() for a column: `.records` is a BatchTable. Frames and headers only."""

    def take_table(decoder: Decoder) -> BatchTable:
        found = decoder.take(True)
        [rows] = found.tables
        return BatchTable(found, [(rows.as_chunk(BATCH_LAYOUT), 0, len(rows))])  # also of no rows

    def filled(decoder: Decoder) -> tuple[int, int, int]:
        _, rows, _ = decoder.filled
        return rows, rows, rows * _BATCH_ROW_BYTES

    return _decode_values(values, scan_request(errors).decoder(), max_output_bytes, filled, take_table, of_batches=True)
