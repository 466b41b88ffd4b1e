"""Iterates over a segment's batches as a broker's recovery does: checks framing and CRCs, decodes only control batches.

Yields columns of some thousand batches at a time, in constant memory. (LogSegment.recover calls ensureValid, which
checks only framing and CRC.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kafkarec._core import Rows
from kafkarec.damage import Damage
from kafkarec.read.decode_options import ALL_CHECKS, CONTROL_PAYLOADS, NO_CHECKS, DecodeRequest, request
from kafkarec.read.passes import PassResult, batch_table
from kafkarec.tables.records import BatchTable

MARKER_COLUMNS = ("timestamp", "key", "value")


Parts = Callable[[DecodeRequest], Iterator[PassResult]]
"""What reads a segment: storage.Segment.parts."""


class _Columns(dict[str, list[Any]]):
    """Columns of a table that become lists when they are asked for."""

    def __init__(self, table: BatchTable) -> None:
        self._table = table

    def __missing__(self, name: str) -> list[Any]:
        self[name] = self._table.column(name)
        return self[name]


class GoodBatches(NamedTuple):
    """Consecutive good batches.

    columns     by name, a list for each column of a BatchTable
    table, marks   for ProducerStates.take
    damage      before, between and after the batches
    remaining   number of bytes of the tail
    """

    columns: Mapping[str, list[Any]]
    table: Rows
    marks: bytes
    damage: tuple[Damage, ...]
    remaining: int


def walk(
    parts: Parts, *, check_crcs: bool = True, errors: str = "skip", restore: bool = False
) -> Iterator[GoodBatches]:
    """Yields the good batches that `parts` reads. Damage are batches with a wrong checksum or unreadable bytes, and
    control batches that cannot be decoded. restore: as a reader, not as a broker, which restores no header field."""
    asked = request(columns=MARKER_COLUMNS, control=True, errors=errors, restore=restore)
    check_crc = ALL_CHECKS if check_crcs else NO_CHECKS
    asked = asked._replace(options=replace(asked.options, payloads=CONTROL_PAYLOADS, check_crc=check_crc))
    for part in parts(asked):
        [table] = part.tables
        marks = table.mark(part.chunks[0] if part.chunks else None)[0] if len(table) else b""
        yield GoodBatches(_Columns(batch_table(part)), table, marks, tuple(part.damage), part.remaining)
