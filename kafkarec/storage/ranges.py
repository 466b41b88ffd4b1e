"""The byte of a segment at which reading a range of offsets or timestamps begins.

Index entries are not trusted: one is used only if a batch that contains its offset begins at its position.
Kafka's lookup: LogSegment.translateOffset and findOffsetByTimestamp.
"""

from __future__ import annotations

from bisect import bisect_right

from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import BATCH_MAGICS, MAGICS, UP_TO_MAGIC, V2_OVERHEAD, start_of, v2_header
from kafkarec.read.record_range import RecordRange
from kafkarec.sidecars import offset_index, time_index

from . import segment_summary
from .segment_protocol import SegmentLike


def start_position(segment: SegmentLike, record_range: RecordRange) -> int:
    """The position of a batch such that no record before it is in the range. 0 without an index."""
    offset = record_range.first_offset
    if record_range.start_timestamp is not None and offset is None and segment.fetch_counter is not None:
        start = segment_summary.start_of_last_batches(segment, record_range.start_timestamp)
        if start is not None:
            return start
    if record_range.start_timestamp is not None:
        by_time = _offset_for_time(segment, record_range.start_timestamp)
        offset = by_time if offset is None else max(offset, by_time)
    base = segment.base_offset
    if offset is None or base is None or offset <= base:
        return 0
    data = segment.sidecar(offset_index.SUFFIX)
    if not data:
        return 0
    try:
        entries = offset_index.read(data, base)
        entry_offset, position = _entry_for(entries, offset)
    except KafkaRecordError:
        return 0
    if not 0 < position < segment.size:
        return 0
    return position if _holds(segment.raw(position, V2_OVERHEAD), entry_offset) else 0


def _entry_for(entries: offset_index.OffsetIndex, offset: int) -> tuple[int, int]:
    """The last entry at or below an offset, as (offset, position)."""
    index = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[index - 1] if index else (0, 0)


def _holds(head: bytes, offset: int) -> bool:
    """Whether a batch that contains the offset begins with `head`; in magic 0 and 1, one with that outer offset."""
    if len(head) < UP_TO_MAGIC:
        return False
    start = start_of(head)
    if start.magic not in BATCH_MAGICS:
        return start.magic in MAGICS and start.base_offset == offset
    return len(head) >= V2_OVERHEAD and 0 <= offset - start.base_offset <= v2_header(head).last_offset_delta


def _offset_for_time(segment: SegmentLike, timestamp: int) -> int:
    """An offset before which no record has this timestamp or a later one, from the .timeindex. An entry is used only if
    the batch that contains its offset has its timestamp as max timestamp."""
    base = segment.base_offset or 0
    data = segment.sidecar(time_index.SUFFIX)
    if not data:
        return base
    try:
        entries = time_index.read(data, base)
        index = bisect_right(entries, timestamp, key=lambda entry: entry.timestamp)
        entry = entries[index - 1] if index else None
        if entry is not None:
            row = next(iter(segment.scan(start_offset=entry.offset, end_offset=entry.offset + 1)), None)
            if row is not None and row["max_timestamp"] == entry.timestamp and row["last_offset"] >= entry.offset:
                return entry.offset
    except (KafkaRecordError, ValueError):
        pass
    return base
