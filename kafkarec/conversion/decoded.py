"""The records of batches that are written anew: columns for the desk, and the few lists that decide how."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import lt
from typing import Any

from .._core import Chunk, Source
from ..passes import as_columns, read_part
from ..request import request
from ..writing.sheets import sheet_of
from .units import Unit, rows_by_batch

INT32_MAX = 2**31 - 1
WIDEST = 2**30 - 1
"""Offsets that a batch may span and still be put together with others: of two such, the delta fits."""

_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_KEY, _VALUE, _HEADERS = (_COLUMNS.index(name) for name in ("key", "value", "headers"))


class Decoded:
    """All records of some units.

    bounds: unit i has rows bounds[i] .. bounds[i + 1]
    offsets, timestamps: a list each, -1 for no timestamp
    """

    def __init__(self, units: Sequence[Unit], max_decompressed_bytes: int) -> None:
        asked = request(
            columns=_COLUMNS, control=True, check_crcs=False, header_keys="binary", timestamp_unit="int64",
            max_decompressed_bytes=max_decompressed_bytes,
        )  # fmt: skip
        part = read_part(asked, Source(units[0].raw if len(units) == 1 else b"".join(unit.raw for unit in units)))
        self.units = units
        self.columns = as_columns(asked, part)
        self.bounds = [0, *accumulate(rows_by_batch(part))]
        self.offsets: list[int] = self.columns.column("offset")
        stamps: list[int | None] = self.columns.column("timestamp")
        self.timestamps = [-1 if stamp is None else stamp for stamp in stamps]
        self._chunks: list[Chunk] = part.chunks

    @cached_property
    def sheet(self) -> Any:
        """What the desk writes from; made when it is asked for."""
        return sheet_of(self.columns)

    def lengths(self, name: str) -> list[int]:
        """Bytes of each key or value; -1: null."""
        column = _KEY if name == "key" else _VALUE
        found: list[int] = []
        for chunk in self._chunks:
            validity, offsets, _ = chunk.column(column, 0)
            sizes = [end - start for start, end in pairwise(offsets.cast("i")[: len(chunk) + 1].tolist())]
            found += sizes if validity is None else _marked(sizes, validity)
        return found

    @cached_property
    def header_counts(self) -> list[int]:
        """How many headers each record has."""
        found: list[int] = []
        for chunk in self._chunks:
            _, ends, _ = chunk.column(_HEADERS, 0)
            found += [end - start for start, end in pairwise(ends.cast("i")[: len(chunk) + 1].tolist())]
        return found

    def header_sizes(self) -> list[int]:
        """Bytes of each record's headers in magic 2, their count included."""
        found: list[int] = []
        for chunk in self._chunks:
            _, ends, _ = chunk.column(_HEADERS, 0)
            lists = ends.cast("i")[: len(chunk) + 1].tolist()
            pairs = _pair_sizes(chunk, lists[-1]) if lists[-1] else [0]
            found += [varint_size(stop - start) + pairs[stop] - pairs[start] for start, stop in pairwise(lists)]
        return found

    def ascend(self, start: int, stop: int) -> bool:
        """Whether offsets go up from record to record in rows [start, stop)."""
        offsets = self.offsets[start:stop]
        return all(map(lt, offsets, offsets[1:]))


def _pair_sizes(chunk: Chunk, last: int) -> list[int]:
    """Bytes of all headers up to each one."""
    key_ends, _, validity, value_ends, _ = chunk.headers()
    keys = key_ends.cast("i")[: last + 1].tolist()
    values = value_ends.cast("i")[: last + 1].tolist()
    lengths = _marked([stop - start for start, stop in pairwise(values)], validity)
    sizes = [sized(stop - start) + sized(length) for (start, stop), length in zip(pairwise(keys), lengths, strict=True)]
    return [0, *accumulate(sizes)]


def sized(length: int) -> int:
    """Bytes of a length in magic 2 and of what it is the length of; -1 is null."""
    return varint_size(length) + length if length > 0 else 1


def varint_size(value: int) -> int:
    """Bytes of a zig-zag varint or varlong; a delta outside of 64 bits wraps around."""
    if -64 <= value < 64:
        return 1
    if -8192 <= value < 8192:
        return 2
    value = (value + 2**63) % 2**64 - 2**63
    return (max(value, ~value).bit_length() + 7) // 7


def _marked(sizes: list[int], validity: memoryview) -> list[int]:
    return [size if validity[row >> 3] >> (row & 7) & 1 else -1 for row, size in enumerate(sizes)]
