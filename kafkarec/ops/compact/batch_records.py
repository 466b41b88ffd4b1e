"""The input of a record filter: the header of each batch as a tuple, its records as rows of columns

step (about 1 MB of input) -> SourceBatch    one for each batch, in order, empty ones too
                           -> BatchRecords   all records of the step; a batch has the rows [start, stop)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from kafkarec._core import Chunk
from kafkarec.ops.rewrite.batches import SourceBatch as SourceBatch
from kafkarec.ops.rewrite.batches import batches_of, row_counts
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.recover.steps import Step
from kafkarec.tables.records import cells

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "control_type")
_OFFSET, _TIMESTAMP, _KEY, _VALUE, _, _CONTROL_TYPE = range(len(COLUMNS))
_ABSENT = bytes.maketrans(b"01", b"\x01\x00")


class BatchRecords:
    """The records of one step. A column is converted to Python objects when it is first used."""

    def __init__(self, chunk: Chunk | None) -> None:
        self._chunk = chunk
        self._length = 0 if chunk is None else len(chunk)

    def __len__(self) -> int:
        return self._length

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


def batches(step: Step, rows: BatchRecords) -> list[SourceBatch]:
    """The batches of a step, whose records are `rows`."""
    found = list(batches_of(step, row_counts(step)))
    for number, batch in enumerate(found):
        if batch.is_control and batch.rows:
            found[number] = batch._replace(control_type=rows.control_types[batch.start])
    return found
