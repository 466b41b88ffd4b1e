"""The offsets of a log whose files have them out of order: by the batches that `kafkarec salvage` keeps.

    good  good |xx damage xx| FOREIGN FOREIGN |xx damage xx| good  good

Blocks of another file may be good batches with any offsets. The checks of single files see them only one after the
other; what the log has, and what it lost, follows from its longest ascending sequence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kafkarec.storage.good_batches import SourceReader
from kafkarec.storage.segment_file import SegmentFile

from .batch_checks import FileOffsetCheck, Gap
from .segment_check import SegmentCheck


class LogOrder:
    """The offsets of a log by its batches in order.

    next_offset   after the last batch
    lost          the offsets that are missing where batches are not the log's, without damage
    """

    def __init__(self, segments: list[SegmentFile], limit: int) -> None:
        """Reads the log's segments again. limit: max decompressed bytes of a payload"""
        segments.sort(key=lambda one: one.base_offset or 0)
        self._numbers = numbers = {one.path: number for number, one in enumerate(segments)}
        self._offsets = [FileOffsetCheck(one.path) for one in segments]
        # before these there is damage, or batches that are not the log's; last < first: no offset is missing there
        self._breaks: list[Gap] = []
        self.next_offset = segments[0].base_offset or 0
        self.lost: list[Gap] = []
        before = None
        for row in SourceReader(limit, []).ordered_batches(segments):
            number = numbers[row.segment.path]
            offsets, first, last = self._offsets[number], self.next_offset, row.base - 1
            if row.follows_damage:
                self._breaks.append(Gap(row.segment.path, row.position, first, last))
                offsets.follows_break = offsets.follows_break or offsets.first is None
                if before not in (None, offsets):
                    before.before_break = True
            elif first <= last and offsets.first is not None:
                offsets.add_gap(row.position, first, last)
            offsets.first = row.base if offsets.first is None else offsets.first
            self.next_offset = offsets.next = row.last + 1
            before = offsets
        for segment in segments:
            segment.close()

    def set_offsets(self, files: Sequence[SegmentCheck]) -> None:
        """Sets the offsets of the files, and those that their damage has lost."""
        starts = [(self._numbers[one.file], one.position) for one in self._breaks]
        with_damage = set()
        for file in files:
            number = self._numbers[file.path]
            file.offsets = self._offsets[number]
            for index, one in enumerate(file.damage):
                at = bisect_right(starts, (number, one.position))
                with_damage.add(at)
                first, last = self.next_offset, None
                if at < len(starts):
                    first, last = self._breaks[at].first, self._breaks[at].last
                file.damage[index] = one._replace(lost_from=first, lost_to=last)
        breaks = enumerate(self._breaks)
        self.lost = [one for at, one in breaks if at not in with_damage and one.first <= one.last]
