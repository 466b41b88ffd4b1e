"""Writes a partition folder as a broker does: segments, indexes, producer snapshots, leader epochs, topic id

writer_settings      options, and when a segment is rolled
append_checks    checks of batches before they are appended
active_segment   the active segment, to which batches are appended
recovery         recovery of an existing folder
folder_lock      the lock against other writers and a broker
writer           SegmentWriter
"""

from .active_segment import WrittenSegment
from .append_checks import AppendRefused
from .writer import SegmentWriter

__all__ = ["AppendRefused", "SegmentWriter", "WrittenSegment"]
