"""Which adjacent batches may be joined without a change for consumers and for the broker's producer state.

The producer state (ProducerStateManager) has a producer's epoch, its last sequence and its first open offset; a
consumer sees offsets, timestamps and the transaction of a batch. Control batches and batches without records are never
joined (Target.shape gives them no limit).
"""

from __future__ import annotations

from kafkarec.format.java_integers import increment_sequence
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.rewrite.batches import SourceBatch

from .decoded_batches import DecodedBatches
from .target import Shape

LOG_APPEND = 1
WIDEST = 2**30 - 1
"""Largest last - base offset of a batch that may be joined with another: the offset delta of two such fits an int32."""


def may_follow(first: SourceBatch, last: SourceBatch, unit: SourceBatch, shape: Shape) -> bool:
    """Whether the headers allow `unit` to be joined to a run of batches from `first` to `last` of the same shape."""
    if _shared_fields(last, shape) != _shared_fields(unit, shape):
        return False
    begin = unit.last_offset if unit.base_offset is None else unit.base_offset
    whole = first.last_offset if first.base_offset is None else first.base_offset
    if begin <= last.last_offset or unit.last_offset - whole > WIDEST:
        return False
    return shape.magic < BATCH_MAGIC or _in_sequence(last, unit)


def _shared_fields(unit: SourceBatch, shape: Shape) -> tuple[object, ...]:
    """The header fields that apply to all records of a batch, as far as the target's magic has them."""
    stamped = unit.timestamp_type == LOG_APPEND
    if shape.magic < BATCH_MAGIC:
        return (stamped, unit.max_timestamp if stamped else None) if shape.magic else ()
    return (
        stamped,
        unit.max_timestamp if stamped else None,
        unit.partition_leader_epoch,
        unit.producer_id,
        unit.producer_epoch,
        unit.is_transactional,
        unit.delete_horizon_ms,
    )


def _in_sequence(last: SourceBatch, unit: SourceBatch) -> bool:
    """Whether offsets and sequences both continue: a record's sequence is base sequence + offset delta."""
    if last.base_sequence == unit.base_sequence == -1:
        return True
    if -1 in (last.base_sequence, unit.base_sequence) or last.base_offset is None:
        return False
    step = 1 + last.last_offset - last.base_offset
    follows = unit.base_offset == last.last_offset + 1
    return follows and unit.base_sequence == increment_sequence(last.base_sequence, step)


def is_regular(decoded: DecodedBatches, number: int, shape: Shape) -> bool:
    """Whether unit `number` can be split and joined: its offsets ascend and its header agrees with its records."""
    unit, rows = decoded.units[number], decoded.summary(decoded.bounds[number], decoded.bounds[number + 1])
    if rows.falls or rows.last_offset - rows.first_offset > WIDEST:
        return False
    latest = unit.max_timestamp
    if unit.magic < BATCH_MAGIC and unit.timestamp_type == LOG_APPEND and not rows.all_at(latest):
        return False
    if shape.magic < BATCH_MAGIC:
        return min(latest, rows.least_timestamp) >= -1
    if unit.magic < BATCH_MAGIC:
        return True
    if unit.timestamp_type != LOG_APPEND and max(-1, rows.greatest_timestamp) != latest:
        return False
    if unit.base_sequence < -1:
        return False
    first = unit.base_offset
    return first is not None and first <= rows.first_offset and rows.last_offset <= unit.last_offset
