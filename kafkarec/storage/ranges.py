"""Ranges of offsets and timestamps, and the byte of a segment at which reading a range begins.

Index entries are not trusted: one counts only if a batch that holds its offset begins at its position.
Kafka's lookup: LogSegment.translateOffset and findOffsetByTimestamp.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import offset_index, time_index

from . import segment_summary
from .segment_protocol import SegmentLike

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# base offset, and the last offset delta of magic 2
_HEAD = struct.Struct(">q8xb6xi")
_HEAD_BYTES = 61


class RecordRange(NamedTuple):
    """Offsets, and timestamps in ms: (first, end), the end exclusive; None: no bound."""

    offsets: tuple[int | None, int | None] | None = None
    times: tuple[int | None, int | None] | None = None

    @classmethod
    def of(
        cls,
        start_offset: int | None,
        end_offset: int | None,
        start_timestamp: int | datetime | None,
        end_timestamp: int | datetime | None,
    ) -> RecordRange:
        offsets = (_number("start_offset", start_offset), _number("end_offset", end_offset))
        times = (_ms("start_timestamp", start_timestamp), _ms("end_timestamp", end_timestamp))
        return cls(offsets if offsets != (None, None) else None, times if times != (None, None) else None)

    @property
    def first_offset(self) -> int | None:
        return self.offsets[0] if self.offsets else None

    @property
    def end_offset(self) -> int | None:
        return self.offsets[1] if self.offsets else None

    @property
    def start_timestamp(self) -> int | None:
        return self.times[0] if self.times else None


EVERYTHING = RecordRange()


def _number(name: str, value: int | None) -> int | None:
    if value is None or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    raise ValueError(f"{name} {value!r}: an offset (int64) or None")


def _ms(name: str, value: int | datetime | None) -> int | None:
    """Milliseconds since 1970 of an int or an aware datetime, rounded up, so that no earlier record is included."""
    if not isinstance(value, datetime):
        if value is None or (isinstance(value, int) and -(2**63) <= value < 2**63):
            return value
        raise ValueError(f"{name} {value!r}: milliseconds (int) or an aware datetime")
    if value.tzinfo is None:
        raise ValueError(f"{name} {value!r} has no time zone; say which, e.g. .replace(tzinfo=datetime.UTC)")
    return -((_EPOCH - value) // timedelta(milliseconds=1))


def start_position(segment: SegmentLike, wanted: RecordRange) -> int:
    """The position of a batch before which nothing is wanted. 0 without an index."""
    offset = wanted.first_offset
    if wanted.start_timestamp is not None and offset is None and segment.fetch_counter is not None:
        start = segment_summary.start_of_last_batches(segment, wanted.start_timestamp)
        if start is not None:
            return start
    if wanted.start_timestamp is not None:
        by_time = _offset_for_time(segment, wanted.start_timestamp)
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
    return position if _holds(segment.raw(position, _HEAD_BYTES), entry_offset) else 0


def _entry_for(entries: offset_index.OffsetIndex, offset: int) -> tuple[int, int]:
    """The last entry at or below an offset, as (offset, position)."""
    found = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[found - 1] if found else (0, 0)


def _holds(head: bytes, offset: int) -> bool:
    """Whether `head` begins a batch that holds the offset. Magic 0 and 1: whether the outer offset is the offset."""
    if len(head) < _HEAD.size:
        return False
    base, magic, delta = _HEAD.unpack_from(head)
    if magic == 2:
        return bool(base <= offset <= base + delta)
    return magic in (0, 1) and base == offset


def _offset_for_time(segment: SegmentLike, timestamp: int) -> int:
    """An offset before which no record has this timestamp or a later one, from the .timeindex. An entry counts only if
    the batch that holds its offset has its timestamp as max timestamp."""
    base = segment.base_offset or 0
    data = segment.sidecar(time_index.SUFFIX)
    if not data:
        return base
    try:
        entries = time_index.read(data, base)
        found = bisect_right(entries, timestamp, key=lambda entry: entry.timestamp)
        entry = entries[found - 1] if found else None
        if entry is not None:
            row = next(iter(segment.scan(start_offset=entry.offset, end_offset=entry.offset + 1)), None)
            if row is not None and row["max_timestamp"] == entry.timestamp and row["last_offset"] >= entry.offset:
                return entry.offset
    except (KafkaRecordError, ValueError):
        pass
    return base
