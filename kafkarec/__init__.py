"""Kafka record batches without a broker: bytes to Arrow columns and back, and what is wrong with them."""

from typing import TYPE_CHECKING

from ._version import __version__
from .control import ControlRecordType
from .enums import Compression, Isolation, TimestampType
from .errors import (
    CorruptRecordError,
    InvalidArrowError,
    InvalidRecordError,
    KafkaRecordError,
    LimitExceededError,
    MissingCodecError,
    UnsupportedCompressionError,
    UnsupportedMagicError,
)
from .faults import Damage
from .later import __getattr__ as __getattr__
from .lists import RecordLists, decode_each, scan_each
from .log import build_info, logger
from .memory import release_memory
from .reader import batches, decode, scan, stream
from .records import BatchTable, Record, RecordBatch, RecordColumns
from .storage import Log, LogDir, Segment, open

if TYPE_CHECKING:
    from .appending import SegmentWriter
    from .checks import Report, verify
    from .compaction import Compacted, compact
    from .conversion import Converted, LossError, convert
    from .rescue import SalvageReport, salvage
    from .studying import Study, study
    from .validation import ValidatedRecords, validate
    from .writing import RecordBatchBuilder, encode, estimate_size, stamp

__all__ = [
    "BatchTable",
    "Compacted",
    "Compression",
    "ControlRecordType",
    "Converted",
    "CorruptRecordError",
    "Damage",
    "InvalidArrowError",
    "InvalidRecordError",
    "Isolation",
    "KafkaRecordError",
    "LimitExceededError",
    "Log",
    "LogDir",
    "LossError",
    "MissingCodecError",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "RecordColumns",
    "RecordLists",
    "Report",
    "SalvageReport",
    "Segment",
    "SegmentWriter",
    "Study",
    "TimestampType",
    "UnsupportedCompressionError",
    "UnsupportedMagicError",
    "ValidatedRecords",
    "__version__",
    "batches",
    "build_info",
    "compact",
    "convert",
    "decode",
    "decode_each",
    "encode",
    "estimate_size",
    "logger",
    "open",
    "release_memory",
    "salvage",
    "scan",
    "scan_each",
    "stamp",
    "stream",
    "study",
    "validate",
    "verify",
]
