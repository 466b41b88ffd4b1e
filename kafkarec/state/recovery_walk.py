"""Iterates over a segment's batches as a broker's recovery does: checks framing and CRCs, decodes only control batches.

Yields columns of some thousand batches at a time, in constant memory. (LogSegment.recover calls ensureValid, which
checks only framing and CRC.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from kafkarec.damage import Damage
from kafkarec.errors import InvalidRecordError
from kafkarec.read.decode_options import ALL_CHECKS, CONTROL_PAYLOADS, NO_CHECKS, DecodeRequest, request
from kafkarec.read.passes import PassResult, as_columns
from kafkarec.state.producers import MARKER_COLUMNS, Marker, parse_marker
from kafkarec.tables.records import RecordColumns

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


Parts = Callable[[DecodeRequest], Iterator[PassResult]]
"""What reads a segment: storage.Segment.parts."""


class GoodBatches(NamedTuple):
    """Consecutive good batches.

    columns     a list for each name of COLUMNS
    markers     {position of a control batch: the marker in its first record}; None: it has none that can be parsed
    damage      before, between and after the batches
    remaining   number of bytes of the tail
    """

    columns: dict[str, list[Any]]
    markers: dict[int, Marker | None]
    damage: tuple[Damage, ...]
    remaining: int


def walk(
    parts: Parts, *, check_crcs: bool = True, errors: str = "skip", restore: bool = False
) -> Iterator[GoodBatches]:
    """Yields the good batches that `parts` reads. Damage are batches with a wrong checksum or unreadable bytes, and
    control batches that cannot be decoded. restore: as a reader, not as a broker, which restores no header field."""
    asked = request(columns=("batch_position", *MARKER_COLUMNS), control=True, errors=errors, restore=restore)
    check_crc = ALL_CHECKS if check_crcs else NO_CHECKS
    asked = asked._replace(options=replace(asked.options, payloads=CONTROL_PAYLOADS, check_crc=check_crc))
    for part in parts(asked):
        records = as_columns(asked, part)
        columns = {name: records.batches.column(name) for name in COLUMNS}
        yield GoodBatches(columns, _markers(records), tuple(part.damage), part.remaining)


def _markers(records: RecordColumns) -> dict[int, Marker | None]:
    """The marker in the first record of each control batch, the only record of it that counts."""
    found: dict[int, Marker | None] = {}
    names = ("batch_position", *MARKER_COLUMNS)
    for position, timestamp, key, value in zip(*map(records.column, names), strict=True):
        if position not in found:
            found[position] = None
            with suppress(InvalidRecordError):  # it is not known whether its transaction ended; `verify` reports it
                found[position] = parse_marker(timestamp, key, value)
    return found
