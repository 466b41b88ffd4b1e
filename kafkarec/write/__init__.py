"""Writes batches from records and columns.

encode               columns or rows to batches, in C: encoding.py
RecordBatchBuilder   one batch, as MemoryRecordsBuilder: builder.py, sizes.py
stamp                changes header fields of existing batches in place: stamping.py
BatchHeader          header fields for the writer (`kafkarec/_writer.pyx`): fields.py
"""

from kafkarec import codecs
from kafkarec._writer import attach

from . import encoding
from .builder import RecordBatchBuilder
from .encoding import encode, record_input_of
from .fields import BatchHeader
from .sizes import CompressionRatioEstimator, estimate_size
from .stamping import stamp

__all__ = [
    "BatchHeader",
    "CompressionRatioEstimator",
    "RecordBatchBuilder",
    "encode",
    "estimate_size",
    "record_input_of",
    "stamp",
]

attach(codecs, encoding)
