"""Iterates over a segment's batches as a broker's recovery does: checks framing and CRCs, decodes only control batches.

Yields columns of some thousand batches at a time, in constant memory. (LogSegment.recover calls ensureValid, which
checks only framing and CRC.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from kafkarec._core import Rows
from kafkarec.damage import Damage
from kafkarec.read.decode_options import ALL_CHECKS, CONTROL_PAYLOADS, NO_CHECKS, DecodeRequest, request
from kafkarec.read.passes import PassResult, batch_table
from kafkarec.state.producers import MARKER_COLUMNS

COLUMNS = (
    "position",
    "size_in_bytes",
    "magic",
    "crc",
    "base_offset",
    "last_offset",
    "max_timestamp",
    "partition_leader_epoch",
    "is_control",
    "is_transactional",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
)


class ReadableSegment(Protocol):
    """The attributes of storage.Segment that are used here."""

    @property
    def path(self) -> str: ...
    def parts(self, decode_request: DecodeRequest, /) -> Iterator[PassResult]: ...


class GoodBatches(NamedTuple):
    """Consecutive good batches.

    columns     a list for each name of COLUMNS
    table, marks   for ProducerStates.take
    damage      before, between and after the batches
    remaining   number of bytes of the tail
    """

    columns: dict[str, list[Any]]
    table: Rows
    marks: bytes
    damage: tuple[Damage, ...]
    remaining: int


def walk(
    segment: ReadableSegment, *, check_crcs: bool = True, errors: str = "skip", restore: bool = False
) -> Iterator[GoodBatches]:
    """Yields the good batches of a segment. Damage are batches with a wrong checksum or unreadable bytes, and control
    batches that cannot be decoded. restore: as a reader, not as a broker, which restores no header field."""
    asked = request(columns=MARKER_COLUMNS, control=True, errors=errors, restore=restore)
    check_crc = ALL_CHECKS if check_crcs else NO_CHECKS
    asked = asked._replace(options=replace(asked.options, payloads=CONTROL_PAYLOADS, check_crc=check_crc))
    for part in segment.parts(asked):
        [table] = part.tables
        batches = batch_table(part)
        columns = {name: batches.column(name) for name in COLUMNS}
        marks = table.mark(part.chunks[0] if part.chunks else None)[0] if len(table) else b""
        yield GoodBatches(columns, table, marks, tuple(part.damage), part.remaining)
