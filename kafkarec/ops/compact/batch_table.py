"""The input of a record filter: the header of each batch as a tuple, its records as rows of columns

    part (about 1 MB of input) -> BatchInfo      one for each batch, in order, empty ones too
                               -> BatchRecords   all records of the part; a batch has the rows [start, stop)

Fields are those of Kafka's RecordBatch; -1 where its accessor returns "none".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from kafkarec._core import Chunk
from kafkarec.errors import InvalidRecordError
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.tables.records import BatchTable
from kafkarec.tables.table import cells

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "control_type")
_OFFSET, _TIMESTAMP, _KEY, _VALUE, _, _CONTROL_TYPE = range(len(COLUMNS))
_FIELDS = (
    "position",
    "size_in_bytes",
    "magic",
    "base_offset",
    "last_offset",
    "next_offset",
    "max_timestamp",
    "partition_leader_epoch",
    "compression",
    "timestamp_type",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
_NONE_IS_MINUS_ONE = {
    "max_timestamp",
    "partition_leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
}
_ABSENT = bytes.maketrans(b"01", b"\x01\x00")


class BatchInfo(NamedTuple):
    """A batch's header, or that of an outer message of magic 0 and 1.

    base_offset         None for a wrapper message: it is known only from the inner messages
    timestamp_type      0 create, 1 log append; None for magic 0
    delete_horizon_ms   None: not set
    control_type        raw type id of a control batch's first record; None for a data batch, a control batch without
                        records, or an unreadable record
    start, stop         its rows among those of its part
    """

    position: int
    size: int
    magic: int
    base_offset: int | None
    last_offset: int
    next_offset: int
    max_timestamp: int
    partition_leader_epoch: int
    compression: str
    timestamp_type: int | None
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int | None
    control_type: int | None
    start: int
    stop: int

    def error(self, reason: str, message: str) -> InvalidRecordError:
        """The error that ends the pass, with the batch's position."""
        return InvalidRecordError(
            message,
            reason=reason,
            position=self.position,
            base_offset=self.base_offset,
            next_position=self.position + self.size,
        )


class BatchRecords:
    """The records of one part. A column is converted to Python objects when it is first used."""

    def __init__(self, chunk: Chunk | None) -> None:
        self._chunk = chunk
        self._length = 0 if chunk is None else len(chunk)

    def __len__(self) -> int:
        return self._length

    def runs(self) -> list[int]:
        """[batch, rows, batch, rows, ...]: the number of a batch in the part, then how many rows come from it."""
        return [] if self._chunk is None else self._chunk.runs().cast("q").tolist()

    def _column(self, index: int, format_: str) -> list[Any]:
        return [] if self._chunk is None else cells(self._chunk, index, format_, 0, self._length)

    def _missing(self, index: int) -> bytes | None:
        """One byte per row, 1 where the column is null; None if there are no nulls."""
        if self._chunk is None:
            return None
        validity, _, _ = self._chunk.column(index, 0)
        if validity is None:
            return None
        size = (self._length + 7) >> 3
        bits = f"{int.from_bytes(validity[:size], 'little'):0{size * 8}b}"[::-1][: self._length]
        return bits.encode().translate(_ABSENT) if "0" in bits else None

    def with_keys(self, look: Callable[[tuple[Any, Any, Any], Any, int], bytearray]) -> bytearray:
        """`look(key buffers (validity, offsets, data), offset buffer, row count)`; empty without records."""
        if self._chunk is None:
            return bytearray()
        return look(self._chunk.column(_KEY, 0), self._chunk.column(_OFFSET, 8)[1], self._length)

    @cached_property
    def offsets(self) -> list[int]:
        return self._column(_OFFSET, "l")

    @cached_property
    def timestamps(self) -> list[int | None]:
        """Milliseconds; None for -1."""
        return self._column(_TIMESTAMP, "l")

    @cached_property
    def keys(self) -> list[bytes | None]:
        return self._column(_KEY, "z")

    @cached_property
    def values(self) -> list[bytes | None]:
        return self._column(_VALUE, "z")

    @cached_property
    def control_types(self) -> list[int | None]:
        return self._column(_CONTROL_TYPE, "s")

    @cached_property
    def without_key(self) -> bytes | None:
        return self._missing(_KEY)

    @cached_property
    def without_value(self) -> bytes | None:
        """One byte per row, 1 for a tombstone (null value); None if there are none."""
        return self._missing(_VALUE)


def decode_request(check_crcs: bool | str, max_decompressed_bytes: int) -> DecodeRequest:
    """The request for all columns that are needed to rewrite a record unchanged."""
    return request(
        columns=COLUMNS,
        control=True,
        timestamp_unit="int64",
        header_keys="binary",
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
    )


def batches(table: BatchTable, rows: BatchRecords) -> Iterator[BatchInfo]:
    """The batches of a part."""
    columns = [_filled(name, table.column(name)) for name in _FIELDS]
    starts = [0] * len(table)
    stops = [0] * len(table)
    runs, row = rows.runs(), 0
    for batch, count in zip(runs[::2], runs[1::2], strict=True):
        starts[batch], stops[batch] = row, row + count
        row += count
    is_control = columns[_FIELDS.index("is_control")]
    if any(is_control):
        types = rows.control_types
        control_types = [
            types[start] if control and start < stop else None
            for control, start, stop in zip(is_control, starts, stops, strict=True)
        ]
    else:
        control_types = [None] * len(table)
    return map(BatchInfo._make, zip(*columns, control_types, starts, stops, strict=True))


def _filled(name: str, values: list[Any]) -> list[Any]:
    if name in _NONE_IS_MINUS_ONE and None in values:
        return [-1 if value is None else value for value in values]
    return values
