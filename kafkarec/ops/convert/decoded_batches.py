"""The records of batches that are rewritten: columns for the writer, and lists of sizes, offsets and timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import add, lt
from typing import Any

from kafkarec._core import Chunk, Source
from kafkarec.format.varints import sizes_with_length, varint_size
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part
from kafkarec.write.record_input import record_input_of

from .source_batches import SourceBatch

INT32_MAX = 2**31 - 1
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_KEY, _VALUE, _HEADERS = (_COLUMNS.index(name) for name in ("key", "value", "headers"))


class DecodedBatches:
    """All records of some units (SourceBatch).

    bounds: unit i has the rows [bounds[i], bounds[i + 1])
    offsets, timestamps: one per row; timestamp -1: none
    """

    def __init__(self, units: Sequence[SourceBatch], max_decompressed_bytes: int) -> None:
        read_request = request(
            columns=_COLUMNS,
            control=True,
            check_crcs=False,
            header_keys="binary",
            timestamp_unit="int64",
            max_decompressed_bytes=max_decompressed_bytes,
        )
        part = read_part(
            read_request, Source(units[0].raw if len(units) == 1 else b"".join(unit.raw for unit in units))
        )
        self.units = units
        self.columns = as_columns(read_request, part)
        self.bounds = [0, *accumulate(unit.rows for unit in units)]
        self.offsets: list[int] = self.columns.column("offset")
        stamps: list[int | None] = self.columns.column("timestamp")
        self.timestamps = [-1 if stamp is None else stamp for stamp in stamps]
        self._chunks: list[Chunk] = part.chunks

    @cached_property
    def record_input(self) -> Any:
        """The writer's input, created at first use."""
        return record_input_of(self.columns)

    @cached_property
    def key_lengths(self) -> list[int]:
        """Bytes; -1: null."""
        return [length for chunk in self._chunks for length in _lengths(chunk, _KEY)]

    @cached_property
    def value_lengths(self) -> list[int]:
        return [length for chunk in self._chunks for length in _lengths(chunk, _VALUE)]

    @cached_property
    def header_counts(self) -> list[int]:
        """How many headers each record has."""
        return [stop - start for chunk in self._chunks for start, stop in pairwise(_value_offsets(chunk, _HEADERS))]

    @cached_property
    def content_sizes(self) -> list[int]:
        """Size in bytes of each record in magic 2, without its length field and its two deltas."""
        keys, values = sizes_with_length(self.key_lengths), sizes_with_length(self.value_lengths)
        headers = [size for chunk in self._chunks for size in _header_sizes(chunk)]
        return [1 + key + value + header for key, value, header in zip(keys, values, headers, strict=True)]

    def all_at(self, time: int, start: int, stop: int) -> bool:
        """Whether all rows [start, stop) have the timestamp `time`."""
        return self.timestamps[start:stop].count(time) == stop - start

    def is_ascending(self, start: int, stop: int) -> bool:
        """Whether the offsets of rows [start, stop) are strictly ascending."""
        offsets = self.offsets[start:stop]
        return all(map(lt, offsets, offsets[1:]))


def _value_offsets(chunk: Chunk, column: int) -> list[int]:
    """The offsets buffer of a column: row count + 1 numbers."""
    _, offsets, _ = chunk.column(column, 0)
    return offsets.cast("i")[: len(chunk) + 1].tolist()


def _lengths(chunk: Chunk, column: int) -> list[int]:
    validity, _, _ = chunk.column(column, 0)
    return _null_as_minus_one([stop - start for start, stop in pairwise(_value_offsets(chunk, column))], validity)


def _null_as_minus_one(lengths: list[int], validity: memoryview | None) -> list[int]:
    if validity is None:
        return lengths
    return [length if validity[row >> 3] >> (row & 7) & 1 else -1 for row, length in enumerate(lengths)]


def _header_sizes(chunk: Chunk) -> list[int]:
    """Bytes of each record's headers in magic 2, their count included."""
    lists = _value_offsets(chunk, _HEADERS)
    if lists[0] == lists[-1]:
        return [1] * len(chunk)
    key_ends, _, validity, value_ends, _ = chunk.headers()
    keys, values = (
        [stop - start for start, stop in pairwise(ends.cast("i")[: lists[-1] + 1].tolist())]
        for ends in (key_ends, value_ends)
    )
    upto = [0, *accumulate(map(add, sizes_with_length(keys), sizes_with_length(_null_as_minus_one(values, validity))))]
    return [varint_size(stop - start) + upto[stop] - upto[start] for start, stop in pairwise(lists)]
