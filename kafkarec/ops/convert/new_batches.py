"""The new bytes of a batch: the same payload with another codec, or a new header and rewritten records.

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | 38 more bytes | payload     (magic 2)

If only the codec or its level changes, all fields after the attributes and the decompressed payload stay the same.
Otherwise the writer encodes the records; their header is built here. What Kafka's builder or its down-conversion
refuses is refused here, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from kafkarec import codecs, damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format import checksum, layout
from kafkarec.format.java_integers import INT_MAX, increment_sequence
from kafkarec.ops.rewrite import SourceBatch, new_header
from kafkarec.write.fields import BatchHeader

from .target import LOG_APPEND, ConversionStats, DecodedBatches, Shape, Target


def refusal_of(unit: SourceBatch, reason: str, **sides: Any) -> KafkaRecordError:
    """The error for a batch that cannot be written: `sides` is expected and found, or `detail`."""
    return damage.error(reason, unit.place | sides)


def too_wide_error(unit: SourceBatch, base: int, last: int) -> KafkaRecordError:
    """MemoryRecordsBuilder: Maximum offset delta exceeded."""
    where = f"in {unit.file} at byte" if unit.file else "at byte"
    message = f"the batch cannot be rewritten {where} {unit.position}: offset {last} is too far from the first, {base}"
    return unit.error("batch_not_rewritable", message)


def recompressed_batch(unit: SourceBatch, codec: int, level: int | None, limit: int) -> bytes:
    """A batch (not a message) with another codec or level and the same records. `limit`: max decompressed bytes."""
    if layout.v2_header(unit.raw).record_count:
        stored = unit.raw[layout.LEAST_SIZES[unit.magic] :]
        payload = codecs.compress(codec, codecs.decompress(unit.codec, stored, limit), level)
    else:
        codec, payload = 0, b""  # readers ignore bytes after the header of an empty batch
    length = layout.LEAST_SIZES[unit.magic] - layout.LOG_OVERHEAD + len(payload)
    if length > layout.MAX_BATCH_LENGTH:
        raise refusal_of(unit, "batch_too_large", expected=layout.MAX_BATCH_LENGTH, found=length)
    written = layout.header_for_payload(unit.raw, len(payload), codec)
    crc = checksum.crc32c(payload, checksum.crc32c(written[layout.V2_AT.attributes :]))
    written[layout.V2_AT.crc : layout.V2_AT.attributes] = crc.to_bytes(4, "big")
    return bytes(written) + payload


class RowGroup(NamedTuple):
    """Rows [start, stop) of decoded units that are written as one batch."""

    decoded: DecodedBatches
    start: int
    stop: int

    @property
    def first_unit(self) -> int:
        """The index of the unit of the first row."""
        return bisect_right(self.decoded.bounds, self.start) - 1

    @property
    def last_unit(self) -> int:
        return bisect_left(self.decoded.bounds, self.stop) - 1

    @property
    def whole_unit(self) -> SourceBatch | None:
        """The unit, if the rows are exactly those of one unit."""
        first, bounds = self.first_unit, self.decoded.bounds
        if (self.start, self.stop) == (bounds[first], bounds[first + 1]):
            return self.decoded.units[first]
        return None


def header_of(group: RowGroup, shape: Shape, target: Target) -> BatchHeader:
    """The header of a group's batch, or that which RecordsUtil.convertRecordBatch passes to the builder.
    InvalidRecordError if Kafka refuses it."""
    decoded, unit = group.decoded, group.decoded.units[group.first_unit]
    timestamp_type, time = 0, -1
    # If a wrapper's time is not that of its messages, only down-conversion uses it for them, as Kafka's does.
    if unit.timestamp_type == LOG_APPEND and (
        unit.magic >= layout.BATCH_MAGIC
        or shape.magic < unit.magic
        or decoded.summary(group.start, group.stop).all_have_timestamp(unit.max_timestamp)
    ):
        timestamp_type, time = LOG_APPEND, unit.max_timestamp
    if shape.magic >= layout.BATCH_MAGIC:
        # Parts of a split batch cover its whole offset range, with the gaps that compaction left.
        start, stop, end = group.start, group.stop, decoded.units[group.last_unit]
        begins, ends = start == decoded.bounds[group.first_unit], stop == decoded.bounds[group.last_unit + 1]
        if unit.magic < layout.BATCH_MAGIC:
            rows = decoded.summary(start, stop)
            base, last = rows.least_offset, rows.greatest_offset
            last = max(last, end.last_offset) if ends else last
        else:
            base = unit.base_offset if begins and unit.base_offset is not None else decoded.offsets[start]
            last = end.last_offset if ends else decoded.offsets[stop] - 1
        if last - base > INT_MAX:
            raise too_wide_error(unit, base, last)
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
    rows = decoded.summary(group.start, group.stop)
    earliest, base = min(time, rows.least_timestamp), rows.first_offset
    if rows.falls:
        raise refusal_of(unit, "offsets_out_of_order", expected=rows.fall_from, found=rows.fall_to)
    if earliest < -1:
        raise refusal_of(unit, "timestamp_negative", expected=-1, found=earliest)
    if rows.last_offset - base > INT_MAX:
        raise too_wide_error(unit, base, rows.last_offset)
    if base < 0 and shape.magic == 1 and shape.codec:  # Kafka writes it but cannot read it: inner offsets are relative
        detail = f"a wrapper cannot have inner offset {base}"
        raise refusal_of(unit, "magic_unfit", expected=2, found=1, detail=detail)
    return BatchHeader(shape.magic, shape.codec, target.level, timestamp_type, base, log_append_time=time)


def count_losses(group: RowGroup, shape: Shape, stats: ConversionStats) -> None:
    """Counts what magic 0 and 1 cannot store: of the rows of the group and of the units that end in it."""
    decoded = group.decoded
    rows = decoded.summary(group.start, group.stop)
    stats.lost["headers"] += rows.headers
    stats.lost["records_with_headers"] += rows.with_headers
    if shape.magic == 0:
        stats.lost["timestamps"] += rows.with_timestamp
    last = group.last_unit
    # those whose last row is in the group
    for number in range(group.first_unit, last + (decoded.bounds[last + 1] == group.stop)):
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
