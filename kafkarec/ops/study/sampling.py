"""Pieces of a log, spread over all of it.

    |--------- segment ---------|------- segment -------|--- segment ---|
      ####          ####          ####          ####         ####

A piece is a run of whole batches. The log is divided into as many equal parts as there are pieces, by bytes; each piece
begins near the middle of its part, at an offset between the segment's first and next one, which the indexes find.
A log that is not larger than the pieces together is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkarec.storage import Segment
from kafkarec.storage.segment_summary import summarize

PIECES = 8
PIECE_BYTES = 2 << 20


class Sample(NamedTuple):
    """Bytes [begin, begin + len(data)) of a segment: whole batches, and what lies between them."""

    segment: Segment
    begin: int
    data: bytes


def pieces(segments: Sequence[Segment], sample: int | None) -> Iterator[Sample]:
    """Pieces of about `sample` bytes together; None: everything, in pieces. One is in memory at a time."""
    total = sum(segment.size for segment in segments)
    if sample is None or total <= sample:
        for segment in segments:
            yield from _all_of(segment)
        return
    each = max(1, sample // PIECES)
    reach: dict[str, int] = {}
    for number in range(PIECES):
        segment, place = _at(segments, (2 * number + 1) * total // (2 * PIECES))
        piece = _near(segment, max(0, place - each // 2), each, reach.get(segment.path, 0))
        if piece is not None:
            reach[segment.path] = piece.begin + len(piece.data)
            yield piece


def _all_of(segment: Segment) -> Iterator[Sample]:
    """Cut where a batch begins: what is tried on a piece has to hold it in memory several times."""
    begin = 0
    for table in segment.scan_pieces(errors="skip"):
        for position in table.column("position"):
            if position - begin >= PIECE_BYTES:
                yield Sample(segment, begin, segment.raw(begin, position - begin))
                begin = position
    if segment.size > begin:
        yield Sample(segment, begin, segment.raw(begin, segment.size - begin))


def _at(segments: Sequence[Segment], place: int) -> tuple[Segment, int]:
    """The segment that has the byte `place` of the log, and which byte of it that is."""
    for segment in segments:
        if place < segment.size:
            return segment, place
        place -= segment.size
    return segments[-1], segments[-1].size


def _near(segment: Segment, place: int, length: int, least: int) -> Sample | None:
    """Batches from about the byte `place` on, none below the byte `least`; None: there is none."""
    seen = summarize(segment)
    start = None
    if seen.first_offset is not None and seen.next_offset is not None:
        share = place / max(1, segment.size)
        start = seen.first_offset + int(share * (seen.next_offset - seen.first_offset))
    begin = end = None
    for table in segment.scan_pieces(errors="skip", start_offset=start):
        for position, size in zip(table.column("position"), table.column("size_in_bytes"), strict=True):
            if position < least or (start is None and position < place):
                continue
            if begin is None:
                begin = position
            end = position + size
            if end - begin >= length:
                return Sample(segment, begin, segment.raw(begin, end - begin))
    if begin is None or end is None:
        return None
    return Sample(segment, begin, segment.raw(begin, end - begin))
