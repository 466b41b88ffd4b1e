"""Cuts a segment into ranges of bytes that are read by themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from kafkarec.errors import KafkaRecordError
from kafkarec.read.decode_options import request
from kafkarec.recover.offset_order import WINDOW
from kafkarec.recover.steps import as_stored

from .log_reading import part_of, tables
from .segment_file import SegmentFile

_COLUMNS = ("position", "size_in_bytes", "last_offset", "next_offset", "partition_leader_epoch")
RESYNC_BYTES = 4 << 20  # how far resynchronisation searches (MAX_SEARCH_BYTES of _c/resync.pxd)


def splits(segment: SegmentFile, max_bytes: int) -> list[tuple[int, int]]:
    """Consecutive ranges [begin, end) of about `max_bytes` each, cut between two good batches of rising offsets.

    Reads the headers of the file, and the two batches at each cut. Does not cut within RESYNC_BYTES after broken
    framing, falling offsets or falling leader epochs, nor within offset_order.WINDOW batches before: so
    resynchronisation and restoring never need bytes of another range, and the ranges together have the same
    records and damage as the file.
    """
    if max_bytes < 1:
        raise ValueError(f"max_bytes {max_bytes}: 1 or more")
    cuts, previous_position, next_offset, previous_epoch = [segment.begin], segment.begin, 0, -1
    recent: deque[int] = deque(maxlen=WINDOW)
    expected, cut_from = segment.begin, segment.begin
    end = segment.size if segment.end is None else segment.end
    for table in tables([segment.between(segment.begin, end)], errors="skip"):  # the file may grow meanwhile
        for position, size, last, following, epoch in zip(*map(table.column, _COLUMNS), strict=True):
            epoch = as_stored(epoch)
            if position != expected or last < next_offset or epoch < previous_epoch:
                cut_from = position + RESYNC_BYTES
                _drop_cuts(cuts, recent)
            may_cut = position - cuts[-1] >= max_bytes and position >= cut_from
            if may_cut and _are_good_batches(segment, previous_position, position, position + size):
                cuts.append(position)
            previous_position, expected, next_offset, previous_epoch = position, position + size, following, epoch
            recent.append(position)
    if expected != end:
        _drop_cuts(cuts, recent)
    return [*pairwise(cuts), (cuts[-1], end)]


def _are_good_batches(segment: SegmentFile, *positions: int) -> bool:
    """Whether there is exactly one good batch between each two consecutive ones of `positions`."""
    try:
        parts = [part_of(segment.between(*ends), request(columns=[])) for ends in pairwise(positions)]
    except KafkaRecordError:
        return False
    return all(sum(map(len, part.tables)) == 1 and not part.remaining for part in parts)


def _drop_cuts(cuts: list[int], recent: Sequence[int]) -> None:
    """Removes the cuts at these batches, and later ones; the first one stays."""
    while len(cuts) > 1 and recent and cuts[-1] >= recent[0]:
        cuts.pop()
