"""Batches written anew: another codec around the same payload, or other records behind another header.

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | 38 more bytes | payload     (magic 2)

Where only the codec or its level changes, everything behind the attributes stays, the payload's content too. The rest
is the desk's: the header that a group of rows gets is made here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import compress, pairwise
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from .. import codecs
from ..errors import KafkaRecordError
from ..writing.header import BatchHeader
from . import refusals
from .decoded import INT32_MAX, Decoded
from .neighbours import LOG_APPEND, sequence_after
from .stats import ConversionStats
from .target import Shape, Target
from .units import Unit

_FRONT = Struct(">qiib")
_ATTRIBUTES_AT, _COUNT_AT, _PAYLOAD_AT = 21, 57, 61
_CODEC_BITS = 7
_BEFORE_LENGTH = 12


def recoded(unit: Unit, codec: int, level: int | None, limit: int) -> bytes:
    """A batch of magic 2 in another codec or level; its records stay as they are. `limit`: decompressed bytes."""
    raw = unit.raw
    if any(raw[_COUNT_AT:_PAYLOAD_AT]):
        payload = _packed_anew(unit, codec, level, limit)
    else:
        codec, payload = 0, b""  # no reader looks behind the header of an empty batch, whatever is there
    base_offset, _, epoch, magic = _FRONT.unpack_from(raw)
    attributes = (unit.attributes & 0xFFFF & ~_CODEC_BITS | codec).to_bytes(2, "big")
    header = attributes + raw[_ATTRIBUTES_AT + 2 : _PAYLOAD_AT]
    length = _PAYLOAD_AT - _BEFORE_LENGTH + len(payload)
    if length > INT32_MAX - _BEFORE_LENGTH:
        most = INT32_MAX - _BEFORE_LENGTH
        raise refusals.refused(unit, "batch_too_large", expected=most, found=length)
    crc = crc32c(payload, crc32c(header))
    return b"".join((_FRONT.pack(base_offset, length, epoch, magic), crc.to_bytes(4, "big"), header, payload))


def _packed_anew(unit: Unit, codec: int, level: int | None, limit: int) -> bytes:
    try:
        return codecs.compress(codec, codecs.decompress(unit.codec, unit.raw[_PAYLOAD_AT:], limit), level)
    except codecs.MissingCodec as missing:
        raise _missing(unit, missing) from None


class Group(NamedTuple):
    """Rows [start, stop) of decoded units, to become one batch."""

    decoded: Decoded
    start: int
    stop: int

    @property
    def first(self) -> int:
        """The number of the unit that the first row is of."""
        return bisect_right(self.decoded.bounds, self.start) - 1

    @property
    def last(self) -> int:
        return bisect_left(self.decoded.bounds, self.stop) - 1

    @property
    def whole(self) -> Unit | None:
        """The unit, where the rows are all those of one."""
        first, bounds = self.first, self.decoded.bounds
        if (self.start, self.stop) == (bounds[first], bounds[first + 1]):
            return self.decoded.units[first]
        return None

    def ended(self) -> Iterator[int]:
        """The numbers of the units whose last row is among these."""
        for number in range(self.first, self.last + 1):
            if self.decoded.bounds[number + 1] <= self.stop:
                yield number


class Plan(NamedTuple):
    """What the desk is told of a group: the header, how many rows there are, and which of them (None: all)."""

    header: BatchHeader
    rows: int
    keep: bytes | None = None


def written(group: Group, plan: Plan) -> bytes:
    """One batch of magic 2, one wrapper, or plain messages one behind the other."""
    try:
        data: bytes = group.decoded.record_input.write(plan.header, group.start, group.stop, plan.keep)
    except codecs.MissingCodec as missing:
        raise _missing(group.decoded.units[group.first], missing) from None
    return data


def _missing(unit: Unit, missing: codecs.MissingCodec) -> KafkaRecordError:
    return refusals.refused(unit, "missing_codec", detail=str(missing))


def planned(group: Group, shape: Shape, target: Target) -> Plan | None:
    """None: `first_offset` leaves all rows out. InvalidRecordError for what Kafka's builder refuses."""
    if shape.magic == 2:
        return Plan(_batch_header(group, shape, target), group.stop - group.start)
    keep = _keep(group, shape, target)
    offsets, timestamps = (
        column[group.start : group.stop] for column in (group.decoded.offsets, group.decoded.timestamps)
    )
    if keep:
        offsets, timestamps = list(compress(offsets, keep)), list(compress(timestamps, keep))
    return Plan(_wrapper_header(group, offsets, timestamps, shape, target), len(offsets), keep) if offsets else None


def _keep(group: Group, shape: Shape, target: Target) -> bytes | None:
    """RecordsUtil.downConvert leaves records below the first offset out of what was not compressed."""
    first = target.first_offset
    if first is None:
        return None
    keep = bytearray()
    decoded = group.decoded
    for number in range(group.first, group.last + 1):
        unit = decoded.units[number]
        start, stop = max(decoded.bounds[number], group.start), min(decoded.bounds[number + 1], group.stop)
        everything = unit.codec != 0 or unit.magic == shape.magic
        keep += bytes(everything or offset >= first for offset in decoded.offsets[start:stop])
    return bytes(keep)


def _stamp(group: Group, shape: Shape) -> tuple[int, int]:
    """(timestamp type, log append time). Where a wrapper's time is not that of its messages (of another magic, say),
    only the way down takes it for theirs, as Kafka's does."""
    unit = group.decoded.units[group.first]
    time = -1 if unit.max_timestamp is None else unit.max_timestamp
    if unit.timestamp_type != LOG_APPEND:
        return 0, -1
    holds = unit.magic == 2 or shape.magic < unit.magic or group.decoded.all_at(time, group.start, group.stop)
    return (LOG_APPEND, time) if holds else (0, -1)


def _wrapper_header(
    group: Group, offsets: list[int], timestamps: list[int], shape: Shape, target: Target
) -> BatchHeader:
    """As RecordsUtil.convertRecordBatch asks the builder for it, and with what the builder refuses."""
    unit = group.decoded.units[group.first]
    timestamp_type, time = _stamp(group, shape)
    earliest = min(time, min(timestamps))
    base = offsets[0]
    disorder = next((pair for pair in pairwise(offsets) if pair[0] >= pair[1]), None)
    if disorder:
        raise refusals.refused(unit, "offsets_out_of_order", expected=disorder[0], found=disorder[1])
    if earliest < -1:
        raise refusals.refused(unit, "timestamp_negative", expected=-1, found=earliest)
    if offsets[-1] - base > INT32_MAX:
        raise refusals.too_wide(unit, base, offsets[-1])
    if base < 0 and shape.magic == 1 and shape.codec:  # Kafka writes it, and cannot read it: inner offsets are relative
        detail = f"a wrapper cannot hold offset {base}"
        raise refusals.refused(unit, "magic_unfit", expected=2, found=1, detail=detail)
    return BatchHeader(shape.magic, shape.codec, target.level, timestamp_type, base, log_append_time=time)


def _batch_header(group: Group, shape: Shape, target: Target) -> BatchHeader:
    decoded = group.decoded
    unit = decoded.units[group.first]
    base, last = _offset_range(group)
    if last - base > INT32_MAX:
        raise refusals.too_wide(unit, base, last)
    timestamp_type, time = _stamp(group, shape)
    sequence = -1
    if unit.base_sequence is not None and unit.base_offset is not None:
        sequence = sequence_after(unit.base_sequence, base - unit.base_offset)
    return BatchHeader(
        shape.magic, shape.codec, target.level, timestamp_type, base, last,
        partition_leader_epoch=_or_absent(unit.partition_leader_epoch),
        log_append_time=time,
        producer_id=_or_absent(unit.producer_id),
        producer_epoch=_or_absent(unit.producer_epoch),
        base_sequence=sequence,
        is_transactional=unit.is_transactional,
        delete_horizon_ms=unit.delete_horizon_ms,
    )  # fmt: skip


def _or_absent(value: int | None) -> int:
    return -1 if value is None else value


def _offset_range(group: Group) -> tuple[int, int]:
    """Base and last offset. What compaction left of the range of a batch stays covered: a cut batch's pieces meet."""
    decoded, start, stop = group.decoded, group.start, group.stop
    unit, end = decoded.units[group.first], decoded.units[group.last]
    offsets = decoded.offsets
    begins, ends = start == decoded.bounds[group.first], stop == decoded.bounds[group.last + 1]
    if unit.magic < 2:
        rows = offsets[start:stop]
        return min(rows), max(max(rows), end.last_offset) if ends else max(rows)
    base = unit.base_offset if begins and unit.base_offset is not None else offsets[start]
    return base, end.last_offset if ends else offsets[stop] - 1


def count_losses(group: Group, plan: Plan, shape: Shape, stats: ConversionStats) -> None:
    """What magic 0 and 1 have no place for, of the rows that are written and of the units that end with them."""
    decoded = group.decoded
    place = decoded.units[group.first].place
    counts, timestamps = (
        column[group.start : group.stop] for column in (decoded.header_counts, decoded.timestamps)
    )
    if plan.keep:
        counts, timestamps = list(compress(counts, plan.keep)), list(compress(timestamps, plan.keep))
    stats.lose("headers", sum(counts), place)
    stats.lose("records_with_headers", len(counts) - counts.count(0), place)
    if shape.magic == 0:
        stats.lose("timestamps", len(timestamps) - timestamps.count(-1), place)
    for number in group.ended():
        unit = decoded.units[number]
        count_header_losses(unit, shape, stats)
        offsets = decoded.offsets[decoded.bounds[number]], decoded.offsets[decoded.bounds[number + 1] - 1]
        stats.lose("offset_ranges", unit.magic == 2 and offsets != (unit.base_offset, unit.last_offset), unit.place)


def count_header_losses(unit: Unit, shape: Shape, stats: ConversionStats) -> None:
    place = unit.place
    stats.lose("log_append_times", shape.magic == 0 and unit.timestamp_type == LOG_APPEND, place)
    stats.lose("transactional_batches", unit.is_transactional, place)
    stats.lose("producer_ids", unit.producer_id is not None, place)
    stats.lose("leader_epochs", unit.partition_leader_epoch is not None, place)
    stats.lose("delete_horizons", unit.delete_horizon_ms is not None, place)
