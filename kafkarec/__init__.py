"""Kafka record batches without a broker: bytes to Arrow columns, and what is wrong with them."""

from typing import TYPE_CHECKING

from ._core import release_memory
from ._version import __version__
from .control import ControlRecordType
from .enums import Compression, Isolation, TimestampType
from .errors import (
    CorruptRecordError,
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
from .reader import batches, decode, scan, stream
from .records import BatchTable, Record, RecordBatch, RecordColumns
from .storage import Log, LogDir, Segment, open

if TYPE_CHECKING:
    from .checks import Report, verify
    from .rescue import SalvageReport, salvage

__all__ = [
    "BatchTable",
    "Compression",
    "ControlRecordType",
    "CorruptRecordError",
    "Damage",
    "InvalidRecordError",
    "Isolation",
    "KafkaRecordError",
    "LimitExceededError",
    "Log",
    "LogDir",
    "MissingCodecError",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "RecordLists",
    "Report",
    "SalvageReport",
    "Segment",
    "TimestampType",
    "UnsupportedCompressionError",
    "UnsupportedMagicError",
    "__version__",
    "batches",
    "build_info",
    "decode",
    "decode_each",
    "logger",
    "open",
    "release_memory",
    "salvage",
    "scan",
    "scan_each",
    "stream",
    "verify",
]
