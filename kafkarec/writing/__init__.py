"""The way back: records and columns into batches.

    encode               columns or rows to batches, in C                        encoding.py, sheets.py
    RecordBatchBuilder   one batch, a record at a time, as Kafka's producer      builder.py, sizes.py, ratio.py
    stamp                header fields of batches that are there, in place       stamping.py
    BatchHeader          what the desk (`kafkarec/_writer.pyx`) is told           header.py
"""

from .builder import RecordBatchBuilder, write_empty_header
from .encoding import encode
from .header import BatchHeader
from .ratio import CompressionRatioEstimator
from .sheets import record_input_of
from .sizes import estimate_size, estimate_size_upper_bound
from .stamping import stamp, stamp_all

__all__ = [
    "BatchHeader", "CompressionRatioEstimator", "RecordBatchBuilder", "encode", "estimate_size",
    "estimate_size_upper_bound", "sheet_of", "stamp", "stamp_all", "write_empty_header",
]  # fmt: skip
