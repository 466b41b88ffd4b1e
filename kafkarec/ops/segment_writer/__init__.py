"""A partition folder as a broker leaves it, written without one: batches in, segments and the files beside them out

settings    sizes and times, when a segment is rolled      checked     batches before anything is written
active      the segment that is written to                 recovery    a folder that is there already
locking     one writer in a folder                         writer      SegmentWriter
"""

from .active_segment import SegmentFile
from .append_checks import AppendRefused
from .writer import SegmentWriter

__all__ = ["AppendRefused", "SegmentFile", "SegmentWriter"]
