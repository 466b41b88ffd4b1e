"""Ranges of offsets and timestamps, and the byte of a segment at which reading a range begins.

Index entries are not trusted: one is used only if a batch that contains its offset begins at its position.
Kafka's lookup: LogSegment.translateOffset and findOffsetByTimestamp.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from kafkarec.format.java_integers import number_or_none
from kafkarec.format.layout import BATCH_MAGIC, V2_OVERHEAD, batch_header, batch_start
from kafkarec.read.walk import HEADERS, walk, walk_request
from kafkarec.sidecars import offset_index, time_index

from . import segment_summary
from .segment_file import SegmentFile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = "an offset (int64) or None"


class RecordRange(NamedTuple):
    """Offsets, and timestamps in ms; the ends are exclusive; None: no bound."""

    first_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None

    @classmethod
    def of(
        cls,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: int | datetime | None = None,
        end_timestamp: int | datetime | None = None,
    ) -> RecordRange:
        """ValueError for what is no offset or timestamp."""
        first, end = (
            number_or_none("start_offset", start_offset, _OFFSET),
            number_or_none("end_offset", end_offset, _OFFSET),
        )
        return cls(first, end, _ms("start_timestamp", start_timestamp), _ms("end_timestamp", end_timestamp))


EVERYTHING = RecordRange()


def segments_in_range(bases: Sequence[int | None], first: int | None, end: int | None) -> list[int]:
    """The numbers of a log's segments that may have offsets of [first, end), None: no bound; at least one of them.

    bases: the base offset of each segment, in order; None: unknown. Where two have the same one, neither is left out
    """
    chosen = []
    for number, base in enumerate(bases):
        later = bases[number + 1] if number + 1 < len(bases) else None
        if first is not None and base is not None and later is not None and base < later <= first:
            continue
        if number == 0 or end is None or base is None or base < end:
            chosen.append(number)
    return chosen


def _ms(name: str, value: int | datetime | None) -> int | None:
    """Milliseconds since 1970 of an int or an aware datetime, rounded up, so that no earlier record is included."""
    if not isinstance(value, datetime):
        return number_or_none(name, value, "milliseconds (int) or an aware datetime")
    if value.tzinfo is None:
        raise ValueError(f"{name} {value!r} has no time zone; set one, e.g. .replace(tzinfo=datetime.UTC)")
    return -((_EPOCH - value) // timedelta(milliseconds=1))


def start_position(segment: SegmentFile, record_range: RecordRange) -> int:
    """The position of a batch such that no record before it is in the range, among the bytes that are read of the
    segment: their begin without an index, their end if what follows them has the range."""
    position = max(segment.begin, _position_in_file(segment, record_range))
    return position if segment.end is None else min(position, segment.end)


def _position_in_file(segment: SegmentFile, record_range: RecordRange) -> int:
    offset = record_range.first_offset
    if record_range.start_timestamp is not None and offset is None and segment.fetch_counter is not None:
        start = segment_summary.start_of_last_batches(segment, record_range.start_timestamp)
        if start is not None:
            return start
    if record_range.start_timestamp is not None:
        by_time = _offset_from_time_index(segment, record_range.start_timestamp)
        offset = by_time if offset is None else max(offset, by_time)
    base = segment.base_offset
    if offset is None or base is None or offset <= base:
        return 0
    entries = segment.index_entries(offset_index)
    later = bisect_right(entries, offset, key=lambda entry: entry.offset)
    entry_offset, position = entries[later - 1] if later else (0, 0)
    if not 0 < position < segment.size:
        return 0
    head = segment.raw(position, V2_OVERHEAD)
    first, header = batch_start(head), batch_header(head)
    if header is None:  # a message is there with its outer offset
        is_there = first is not None and first.magic < BATCH_MAGIC and first.base_offset == entry_offset
    else:
        is_there = 0 <= entry_offset - header.base_offset <= header.last_offset_delta
    return position if is_there else 0


def _offset_from_time_index(segment: SegmentFile, timestamp: int) -> int:
    """An offset before which no record has this timestamp or a later one, from the .timeindex. An entry is used only if
    the batch that contains its offset has its timestamp as max timestamp."""
    entries = segment.index_entries(time_index)
    if later := bisect_right(entries, timestamp, key=lambda entry: entry.timestamp):
        entry = entries[later - 1]
        with suppress(ValueError):  # a KafkaRecordError is one
            one = RecordRange(entry.offset, entry.offset + 1)
            steps = walk(
                [segment],
                walk_request(HEADERS).with_options(within=one),
                start_of=partial(start_position, record_range=one),
            )
            step = next(filter(len, steps), None)
            if step and step.column("max_timestamp")[0] == entry.timestamp and step.last_offset >= entry.offset:
                return int(entry.offset)
    return segment.base_offset or 0
