"""Pieces spread over a log.


    |--------- segment ---------|------- segment -------|--- segment ---|
      ####          ####          ####          ####         ####

A piece is a run of whole batches. The log is divided into as many parts of equal size as there are pieces; each piece
begins near the middle of its part, at a batch near which the .index, if there is one, has an entry; else the headers
before it are read. A log that is not larger than the pieces together is read completely.

A piece shows nothing of batches that are larger than itself. So of many logs not a little of each is read, but enough
of some, which are spread evenly over all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kafkarec.sidecars import offset_index
from kafkarec.storage.log_reading import batch_tables
from kafkarec.storage.ranges import RecordRange
from kafkarec.storage.segment_file import SegmentFile

PIECES = 8
PIECE_BYTES = 2 << 20
_PIECE_AT_LEAST = 128 << 10
_LOG_AT_LEAST = 2 * _PIECE_AT_LEAST  # a margin of error needs two pieces


def sample_shares(sizes: Sequence[int], sample: int) -> list[int]:
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


def sample_pieces(segments: Sequence[SegmentFile], sample: int | None) -> Iterator[bytes]:
    """Pieces of `sample` bytes in total, each of whole batches and any bytes between them; None: the whole log, in
    pieces. One is in memory at a time."""
    total = sum(segment.size for segment in segments)
    if sample is None or total <= sample:
        for segment in segments:  # in pieces of whole batches; a trial holds a piece in memory several times
            begin = 0
            for table in batch_tables([segment], errors="skip"):
                for position in table.column("position"):
                    if position - begin >= PIECE_BYTES:
                        yield segment.raw(begin, position - begin)
                        begin = position
            if segment.size > begin:
                yield segment.raw(begin, segment.size - begin)
        return
    count = max(2, min(PIECES, sample // _PIECE_AT_LEAST))
    each = max(1, sample // count)
    read_to: dict[str, int] = {}
    for number in range(count):
        position = (2 * number + 1) * total // (2 * count)
        for segment in segments:
            if position < segment.size:
                break
            position -= segment.size
        least = max(0, position - each // 2)
        entries = segment.index_entries(offset_index)
        before = bisect_right(entries, least, key=lambda entry: entry.position)
        indexed = entries[before - 1].offset if before else None  # of the last batch before it that has an entry
        least = max(least, read_to.get(segment.path, 0))
        # if the entry is wrong, no batch may be as late as its offset
        found = _batches_from(segment, least, each, indexed) or _batches_from(segment, least, each, None)
        if found is not None:
            begin, end = found
            read_to[segment.path] = end
            yield segment.raw(begin, end - begin)


def _batches_from(segment: SegmentFile, least: int, length: int, start: int | None) -> tuple[int, int] | None:
    """[begin, end) of at least `length` bytes of batches, fewer at the end, none below position `least`; None if there
    are none. start: an offset from which on to look for them"""
    begin = end = None
    for table in batch_tables([segment], errors="skip", record_range=RecordRange(start)):
        for position, size in table.zip_columns("position", "size_in_bytes"):
            if position < least:
                continue
            if begin is None:
                begin = position
            end = position + size
            if end - begin >= length:
                return begin, end
    return None if begin is None or end is None else (begin, end)
