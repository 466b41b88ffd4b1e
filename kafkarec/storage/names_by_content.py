"""The base offsets of segments whose names are wrong, by their batches: names were exchanged, or changed."""

from __future__ import annotations

from collections.abc import Sequence

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.format.layout import LATEST_MAGIC, LEAST_SIZES, LOG_OVERHEAD, UP_TO_MAGIC, start_of

from .log_reading import tables
from .segment_file import SegmentFile, known_size

_FRAMES = 3  # that are read to learn the offsets of a segment


def places_by_content(segments: Sequence[SegmentFile]) -> dict[SegmentFile, int]:
    """Segment -> base offset, of those of a log whose first batches are all outside of the range that their names
    give, and of those without a whole batch whose names these have: they get the names that are left."""
    offsets = sorted({one.base_offset for one in segments if one.base_offset is not None})
    ends = dict(zip(offsets, (*offsets[1:], LONG_MAX), strict=False))
    wrong: dict[int, tuple[SegmentFile, list[int]]] = {}
    empty: dict[int, SegmentFile] = {}
    for segment in segments:
        base, found = segment.base_offset, _first_base_offsets(segment)
        if base is not None and found and _is_elsewhere(segment, found, base, ends[base]):
            wrong[base] = segment, found
        elif base is not None and not found:
            empty[base] = segment
    moved = {}
    for segment, found in wrong.values():
        place = next((base for base in (*wrong, *empty) if base <= found[0] < ends[base]), None)
        if place is None and len(found) > 1 and found[0] not in offsets:
            place = found[0]
        if place is not None:
            moved[segment] = place
    left = [base for base, (segment, _) in wrong.items() if segment in moved and base not in moved.values()]
    exchanged = [empty[place] for place in moved.values() if place in empty]
    moved.update(zip(exchanged, left, strict=False))
    return moved if len(set(moved.values())) == len(moved) else {}


def _is_elsewhere(segment: SegmentFile, first_offsets: Sequence[int], low: int, high: int) -> bool:
    """Whether the first batches and most others of a segment are outside of its range. Blocks of another file at its
    start are not enough."""
    if any(low <= each < high for each in first_offsets):
        return False
    inside = batches = 0
    try:
        for table in tables([segment], errors="skip"):
            inside += sum(low <= last < high for last in table.column("last_offset"))
            batches += len(table)
    except (OSError, KafkaRecordError):
        return False
    return 2 * inside < batches


def _first_base_offsets(segment: SegmentFile) -> list[int]:
    """The base offsets of the first whole frames; fewer where a header is not one."""
    found: list[int] = []
    position, end = 0, known_size(segment)
    try:
        while len(found) < _FRAMES and len(head := segment.raw(position, UP_TO_MAGIC)) == UP_TO_MAGIC:
            start = start_of(head)
            size = LOG_OVERHEAD + start.batch_length
            position += size
            if not 0 <= start.magic <= LATEST_MAGIC or size < LEAST_SIZES[start.magic] or start.base_offset < 0:
                break
            if position > end:
                break
            found.append(start.base_offset)
    except (OSError, KafkaRecordError):
        return []
    return found
