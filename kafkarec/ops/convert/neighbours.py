"""Which batches may become one: what a consumer and the broker's producer state see must stay.

The producer state (ProducerStateManager) knows a producer's epoch, its last sequence and its first open offset; a
consumer knows offsets, timestamps, and to which transaction a batch belongs. Control batches and batches without
records never come here (Target.shape gives them no limit).
"""

from __future__ import annotations

from .decoded import Decoded
from .source_batches import WIDEST, SourceBatch
from .target import Shape

LOG_APPEND = 1
_SEQUENCES = 2**31


def may_follow(first: SourceBatch, last: SourceBatch, unit: SourceBatch, shape: Shape) -> bool:
    """Whether `unit` can go on a run of batches from `first` to `last`, all of the same shape, by the headers alone."""
    if _facts(last, shape) != _facts(unit, shape):
        return False
    begin = unit.last_offset if unit.base_offset is None else unit.base_offset
    whole = first.last_offset if first.base_offset is None else first.base_offset
    if begin <= last.last_offset or unit.last_offset - whole > WIDEST:
        return False
    return shape.magic < 2 or _in_sequence(last, unit)


def _facts(unit: SourceBatch, shape: Shape) -> tuple[object, ...]:
    """What a batch has once for all its records, as far as the target's magic has it."""
    stamped = unit.timestamp_type == LOG_APPEND
    if shape.magic < 2:
        return (stamped, unit.max_timestamp if stamped else None) if shape.magic else ()
    return (
        stamped, unit.max_timestamp if stamped else None, unit.partition_leader_epoch, unit.producer_id,
        unit.producer_epoch, unit.is_transactional, unit.delete_horizon_ms,
    )  # fmt: skip


def _in_sequence(last: SourceBatch, unit: SourceBatch) -> bool:
    """A record's sequence follows its offset delta, so both have to go on."""
    if last.base_sequence is None and unit.base_sequence is None:
        return True
    if last.base_sequence is None or unit.base_sequence is None or last.base_offset is None:
        return False
    step = 1 + last.last_offset - last.base_offset
    return unit.base_offset == last.last_offset + 1 and unit.base_sequence == sequence_after(last.base_sequence, step)


def sequence_after(sequence: int, step: int) -> int:
    """DefaultRecordBatch.incrementSequence: 0 follows the last int."""
    return (sequence + step) % _SEQUENCES


def is_regular(decoded: Decoded, number: int, shape: Shape) -> bool:
    """Whether unit `number` can be cut and put together: its records go up and its header says of them what is so."""
    unit, start, stop = decoded.units[number], decoded.bounds[number], decoded.bounds[number + 1]
    first, last = decoded.offsets[start], decoded.offsets[stop - 1]
    if not decoded.ascend(start, stop) or last - first > WIDEST:
        return False
    latest = -1 if unit.max_timestamp is None else unit.max_timestamp
    if unit.magic < 2 and unit.timestamp_type == LOG_APPEND and not decoded.all_at(latest, start, stop):
        return False
    if shape.magic < 2:
        return min(latest, min(decoded.timestamps[start:stop])) >= -1
    if unit.magic < 2:
        return True
    if unit.timestamp_type != LOG_APPEND and max(-1, max(decoded.timestamps[start:stop])) != latest:
        return False
    if unit.base_sequence is not None and unit.base_sequence < 0:
        return False
    return unit.base_offset is not None and unit.base_offset <= first and last <= unit.last_offset
