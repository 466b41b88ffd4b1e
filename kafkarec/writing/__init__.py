"""The way back: records and columns into batches.

    encode               columns or rows to batches, in C                        encode.py, sheets.py
    RecordBatchBuilder   one batch, a record at a time, as Kafka's producer      builder.py, sizes.py, ratio.py
    stamp                header fields of batches that are there, in place       stamping.py
    BatchHeader          what the desk (`kafkarec/_press.pyx`) is told           header.py
"""

from .encode import encode
from .header import BatchHeader
from .sheets import sheet_of

__all__ = ["BatchHeader", "encode", "sheet_of"]
