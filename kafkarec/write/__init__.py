"""The way back: records and columns into batches.

    encode               columns or rows to batches, in C                        encoding.py, record_input.py
    RecordBatchBuilder   one batch, a record at a time, as Kafka's producer      builder.py, sizes.py, compression_ratio.py
    stamp                header fields of batches that are there, in place       stamping.py
    BatchHeader          what the writer (`kafkarec/_writer.pyx`) gets           header.py
"""

from kafkarec import _writer, codecs
from kafkarec.codecs import native_compress

from .builder import RecordBatchBuilder, write_empty_header
from .compression_ratio import CompressionRatioEstimator
from .encoding import encode
from .header import BatchHeader
from .record_errors import refused
from .record_input import record_input_of
from .sizes import estimate_size, estimate_size_upper_bound
from .stamping import stamp, stamp_all

__all__ = [
    "BatchHeader", "CompressionRatioEstimator", "RecordBatchBuilder", "encode", "estimate_size",
    "estimate_size_upper_bound", "record_input_of", "stamp", "stamp_all", "write_empty_header",
]  # fmt: skip

_writer.attach(codecs, native_compress, refused)
