"""Writes a partition folder as a broker does: segments, indexes, producer snapshots, leader epochs, topic id

active_segment   the options, the checks of batches before they are appended, and the segment to which they are
recovery         recovery of an existing folder, and the lock against other writers and a broker
writer           SegmentWriter
"""

from .active_segment import AppendRefused, WrittenSegment
from .writer import SegmentWriter

__all__ = ["AppendRefused", "SegmentWriter", "WrittenSegment"]
