"""Pieces spread over a log.


    |--------- segment ---------|------- segment -------|--- segment ---|
      ####          ####          ####          ####         ####

A piece is a run of whole batches. The log is divided into as many parts of equal size as there are pieces; each piece
begins near the middle of its part, at an offset interpolated between the segment's first and next one and found by the
indexes. A log that is not larger than the pieces together is read completely.

A piece shows nothing of batches that are larger than itself. So of many logs not a little of each is read, but enough
of some, which are spread evenly over all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkarec.storage import Segment
from kafkarec.storage.segment_summary import summarize

PIECES = 8
PIECE_BYTES = 2 << 20
_PIECE_AT_LEAST = 128 << 10
_LOG_AT_LEAST = 2 * _PIECE_AT_LEAST  # a margin of error needs two pieces


class Sample(NamedTuple):
    """Bytes [begin, begin + len(data)) of a segment: whole batches, and any bytes between them."""

    segment: Segment
    begin: int
    data: bytes


def shares(sizes: Sequence[int], sample: int) -> list[int]:
    """How many bytes to read of each log, about `sample` bytes of all: in proportion to their sizes, but all of a small
    log, at least 256 KiB of another one, or nothing. Those that are read are spread evenly over all."""
    found, total, reached = [], max(1, sum(sizes)), 0.5
    for size in sizes:
        share = min(size, size * max(1, sample) / total)
        least = max(1, min(size, sample, _LOG_AT_LEAST))
        before = int(reached)
        reached += min(1.0, share / least)
        found.append(max(int(share), least) if int(reached) > before else 0)
    return found


def pieces(segments: Sequence[Segment], sample: int | None) -> Iterator[Sample]:
    """Pieces of `sample` bytes in total; None: the whole log, in pieces. One is in memory at a time."""
    total = sum(segment.size for segment in segments)
    if sample is None or total <= sample:
        for segment in segments:
            yield from _all_of(segment)
        return
    count = max(2, min(PIECES, sample // _PIECE_AT_LEAST))
    each = max(1, sample // count)
    read_to: dict[str, int] = {}
    for number in range(count):
        segment, position = _at(segments, (2 * number + 1) * total // (2 * count))
        piece = _near(segment, max(0, position - each // 2), each, read_to.get(segment.path, 0))
        if piece is not None:
            read_to[segment.path] = piece.begin + len(piece.data)
            yield piece


def _all_of(segment: Segment) -> Iterator[Sample]:
    """The whole segment in pieces of whole batches; a trial holds a piece in memory several times."""
    begin = 0
    for table in segment.scan_pieces(errors="skip"):
        for position in table.column("position"):
            if position - begin >= PIECE_BYTES:
                yield Sample(segment, begin, segment.raw(begin, position - begin))
                begin = position
    if segment.size > begin:
        yield Sample(segment, begin, segment.raw(begin, segment.size - begin))


def _at(segments: Sequence[Segment], position: int) -> tuple[Segment, int]:
    """(segment, position in it) of byte `position` of the log."""
    for segment in segments:
        if position < segment.size:
            return segment, position
        position -= segment.size
    return segments[-1], segments[-1].size


def _near(segment: Segment, position: int, length: int, least: int) -> Sample | None:
    """Batches from about position `position` on, but not below position `least`; None if there are none."""
    seen = summarize(segment)
    start = None
    if seen.first_offset is not None and seen.next_offset is not None:
        share = position / max(1, segment.size)
        start = seen.first_offset + int(share * (seen.next_offset - seen.first_offset))
    begin = end = None
    for table in segment.scan_pieces(errors="skip", start_offset=start):
        for position, size in zip(table.column("position"), table.column("size_in_bytes"), strict=True):
            if position < least or (start is None and position < position):
                continue
            if begin is None:
                begin = position
            end = position + size
            if end - begin >= length:
                return Sample(segment, begin, segment.raw(begin, end - begin))
    if begin is None or end is None:
        return None
    return Sample(segment, begin, segment.raw(begin, end - begin))
