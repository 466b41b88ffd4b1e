"""Writes batches from records and columns.

encode               columns or rows to batches, in C: encoding.py, encode_options.py, record_input.py, py_rows.py
RecordBatchBuilder   one batch, as MemoryRecordsBuilder: builder.py, open_batch.py, sizes.py, compression_ratio.py
stamp                changes header fields of existing batches in place: stamping.py
BatchHeader          header fields for the writer (`kafkarec/_writer.pyx`): header.py
"""

from kafkarec import codecs
from kafkarec._writer import attach

from . import encode_options
from .builder import RecordBatchBuilder
from .compression_ratio import CompressionRatioEstimator
from .encoding import encode
from .header import BatchHeader
from .py_rows import RECORD_CONVERSION
from .record_errors import refused
from .record_input import record_input_of
from .sizes import estimate_size
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

attach(codecs, refused, encode_options, RECORD_CONVERSION)
