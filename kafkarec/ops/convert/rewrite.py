"""The new bytes of a batch: the same payload with another codec, or a new header and rewritten records.

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | 38 more bytes | payload     (magic 2)

If only the codec or its level changes, all fields after the attributes and the decompressed payload stay the same.
Otherwise the writer encodes the records; their header is built here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from kafkarec import codecs
from kafkarec.errors import KafkaRecordError
from kafkarec.format import checksum, layout
from kafkarec.format.java_integers import INT_MAX, increment_sequence
from kafkarec.ops.rewrite.batches import SourceBatch
from kafkarec.ops.rewrite.new_batches import new_header
from kafkarec.write.fields import BatchHeader

from . import conversion_errors
from .batch_joining import LOG_APPEND
from .decoded_batches import DecodedBatches
from .stats import ConversionStats
from .target import Shape, Target


def recompressed_batch(unit: SourceBatch, codec: int, level: int | None, limit: int) -> bytes:
    """A batch (not a message) with another codec or level and the same records. `limit`: max decompressed bytes."""
    if layout.v2_header(unit.raw).record_count:
        payload = _recompressed(unit, codec, level, limit)
    else:
        codec, payload = 0, b""  # readers ignore bytes after the header of an empty batch
    length = layout.LEAST_SIZES[unit.magic] - layout.LOG_OVERHEAD + len(payload)
    if length > layout.MAX_BATCH_LENGTH:
        raise conversion_errors.refused(unit, "batch_too_large", expected=layout.MAX_BATCH_LENGTH, found=length)
    written = layout.header_for_payload(unit.raw, len(payload), codec)
    crc = checksum.crc32c(payload, checksum.crc32c(written[layout.V2_AT.attributes :]))
    written[layout.V2_AT.crc : layout.V2_AT.attributes] = crc.to_bytes(4, "big")
    return bytes(written) + payload


def _recompressed(unit: SourceBatch, codec: int, level: int | None, limit: int) -> bytes:
    try:
        payload = unit.raw[layout.LEAST_SIZES[unit.magic] :]
        return codecs.compress(codec, codecs.decompress(unit.codec, payload, limit), level)
    except codecs.MissingCodec as missing:
        raise _missing(unit, missing) from None


class Group(NamedTuple):
    """Rows [start, stop) of decoded units that are written as one batch."""

    decoded: DecodedBatches
    start: int
    stop: int

    @property
    def first(self) -> int:
        """The index of the unit of the first row."""
        return bisect_right(self.decoded.bounds, self.start) - 1

    @property
    def last(self) -> int:
        return bisect_left(self.decoded.bounds, self.stop) - 1

    @property
    def whole(self) -> SourceBatch | None:
        """The unit, if the rows are exactly those of one unit."""
        first, bounds = self.first, self.decoded.bounds
        if (self.start, self.stop) == (bounds[first], bounds[first + 1]):
            return self.decoded.units[first]
        return None


def write_group(group: Group, header: BatchHeader) -> bytes:
    """One batch of magic 2, one wrapper message, or consecutive plain messages."""
    try:
        data: bytes = group.decoded.record_input.write(header, group.start, group.stop)
    except codecs.MissingCodec as missing:
        raise _missing(group.decoded.units[group.first], missing) from None
    return data


def _missing(unit: SourceBatch, missing: codecs.MissingCodec) -> KafkaRecordError:
    return conversion_errors.refused(unit, "missing_codec", detail=str(missing))


def header_of(group: Group, shape: Shape, target: Target) -> BatchHeader:
    """The header of a group's batch. InvalidRecordError if Kafka refuses it."""
    make = _batch_header if shape.magic >= layout.BATCH_MAGIC else _wrapper_header
    return make(group, shape, target)


def _timestamp_type_and_time(group: Group, shape: Shape) -> tuple[int, int]:
    """(timestamp type, log append time). If a wrapper's time is not that of its messages, only down-conversion uses it
    for them, as Kafka's does."""
    unit = group.decoded.units[group.first]
    time = unit.max_timestamp
    if unit.timestamp_type != LOG_APPEND:
        return 0, -1
    keeps_time = (
        unit.magic >= layout.BATCH_MAGIC
        or shape.magic < unit.magic
        or group.decoded.summary(group.start, group.stop).all_at(time)
    )
    return (LOG_APPEND, time) if keeps_time else (0, -1)


def _wrapper_header(group: Group, shape: Shape, target: Target) -> BatchHeader:
    """The header that RecordsUtil.convertRecordBatch passes to the builder. InvalidRecordError if that refuses it."""
    unit, rows = group.decoded.units[group.first], group.decoded.summary(group.start, group.stop)
    timestamp_type, time = _timestamp_type_and_time(group, shape)
    earliest = min(time, rows.least_timestamp)
    base = rows.first_offset
    if rows.falls:
        raise conversion_errors.refused(unit, "offsets_out_of_order", expected=rows.fall_from, found=rows.fall_to)
    if earliest < -1:
        raise conversion_errors.refused(unit, "timestamp_negative", expected=-1, found=earliest)
    if rows.last_offset - base > INT_MAX:
        raise conversion_errors.too_wide(unit, base, rows.last_offset)
    if base < 0 and shape.magic == 1 and shape.codec:  # Kafka writes it but cannot read it: inner offsets are relative
        detail = f"a wrapper cannot have inner offset {base}"
        raise conversion_errors.refused(unit, "magic_unfit", expected=2, found=1, detail=detail)
    return BatchHeader(shape.magic, shape.codec, target.level, timestamp_type, base, log_append_time=time)


def _batch_header(group: Group, shape: Shape, target: Target) -> BatchHeader:
    decoded = group.decoded
    unit = decoded.units[group.first]
    base, last = _offset_range(group)
    if last - base > INT_MAX:
        raise conversion_errors.too_wide(unit, base, last)
    timestamp_type, time = _timestamp_type_and_time(group, shape)
    sequence = -1
    if unit.base_sequence != -1 and unit.base_offset is not None:
        sequence = increment_sequence(unit.base_sequence, base - unit.base_offset)
    return new_header(unit)._replace(
        magic=shape.magic,
        codec=shape.codec,
        level=target.level,
        timestamp_type=timestamp_type,
        base_offset=base,
        last_offset=last,
        log_append_time=time,
        base_sequence=sequence,
    )


def _offset_range(group: Group) -> tuple[int, int]:
    """Base and last offset. Parts of a split batch cover its whole offset range, with the gaps that compaction left."""
    decoded, start, stop = group.decoded, group.start, group.stop
    unit, end = decoded.units[group.first], decoded.units[group.last]
    offsets = decoded.offsets
    begins, ends = start == decoded.bounds[group.first], stop == decoded.bounds[group.last + 1]
    if unit.magic < layout.BATCH_MAGIC:
        rows = decoded.summary(start, stop)
        return rows.least_offset, max(rows.greatest_offset, end.last_offset) if ends else rows.greatest_offset
    base = unit.base_offset if begins and unit.base_offset is not None else offsets[start]
    return base, end.last_offset if ends else offsets[stop] - 1


def count_losses(group: Group, shape: Shape, stats: ConversionStats) -> None:
    """Counts what magic 0 and 1 cannot store: of the rows of the group and of the units that end in it."""
    decoded = group.decoded
    rows = decoded.summary(group.start, group.stop)
    stats.lost["headers"] += rows.headers
    stats.lost["records_with_headers"] += rows.with_headers
    if shape.magic == 0:
        stats.lost["timestamps"] += rows.with_timestamp
    last = group.last
    for number in range(group.first, last + (decoded.bounds[last + 1] == group.stop)):  # whose last row is in the group
        unit = decoded.units[number]
        count_batch_header_losses(unit, shape, stats)
        offsets = decoded.offsets[decoded.bounds[number]], decoded.offsets[decoded.bounds[number + 1] - 1]
        differs = unit.magic >= layout.BATCH_MAGIC and offsets != (unit.base_offset, unit.last_offset)
        stats.lost["offset_ranges"] += differs


def count_batch_header_losses(unit: SourceBatch, shape: Shape, stats: ConversionStats) -> None:
    for word, is_lost in (
        ("log_append_times", shape.magic == 0 and unit.timestamp_type == LOG_APPEND),
        ("transactional_batches", unit.is_transactional),
        ("producer_ids", unit.producer_id != -1),
        ("leader_epochs", unit.partition_leader_epoch != -1),
        ("delete_horizons", unit.delete_horizon_ms is not None),
    ):
        stats.lost[word] += is_lost
