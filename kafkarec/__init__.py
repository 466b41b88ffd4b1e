"""Reads, checks, repairs and writes Kafka record batches without a broker; decodes to and encodes from Arrow."""

from . import _compiled as _compiled
from . import _log_handler as _log_handler
from ._lazy import lazy_getattr
from ._version import __version__
from .build_info import build_info

TYPE_CHECKING = False  # type checkers take this name for true; to import it takes longer than all of this package
if TYPE_CHECKING:
    from .damage import Damage, Restored, UndecidedTransaction
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
    from .format.control import ControlRecordType
    from .format.enums import Compression, Isolation, TimestampType
    from .logs import Log, LogDir, Segment, find, open
    from .memory import release_memory
    from .ops.compact import Compacted, compact
    from .ops.convert import Converted, LossError, convert
    from .ops.salvage import SalvageReport, salvage
    from .ops.segment_writer import SegmentWriter
    from .ops.study import NothingToTry, Study, study
    from .ops.validate import ValidatedRecords, validate
    from .ops.verify import Report, verify
    from .read.nested import RecordLists, decode_each, scan_each
    from .read.reader import batches, decode, scan, stream
    from .sources.remote_errors import RemoteError
    from .support.package_logger import logger
    from .tables.records import BatchTable, Record, RecordBatch, RecordColumns
    from .write import RecordBatchBuilder, encode, estimate_size, stamp

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
    "NothingToTry",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "RecordColumns",
    "RecordLists",
    "RemoteError",
    "Report",
    "Restored",
    "SalvageReport",
    "Segment",
    "SegmentWriter",
    "Study",
    "TimestampType",
    "UndecidedTransaction",
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
    "find",
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

__dir__ = __all__.copy

__getattr__ = lazy_getattr(
    __name__,
    {
        "damage": ("Damage", "Restored", "UndecidedTransaction"),
        "distributed": (),
        "errors": (
            "CorruptRecordError",
            "InvalidArrowError",
            "InvalidRecordError",
            "KafkaRecordError",
            "LimitExceededError",
            "MissingCodecError",
            "UnsupportedCompressionError",
            "UnsupportedMagicError",
        ),
        "format.control": ("ControlRecordType",),
        "format.enums": ("Compression", "Isolation", "TimestampType"),
        "internal_topics": (),
        "logs": ("Log", "LogDir", "Segment", "find", "open"),
        "memory": ("release_memory",),
        "ops.compact": ("Compacted", "compact"),
        "ops.convert": ("Converted", "LossError", "convert"),
        "ops.explain": (),
        "ops.salvage": ("SalvageReport", "salvage"),
        "ops.segment_writer": ("SegmentWriter",),
        "ops.study": ("NothingToTry", "Study", "study"),
        "ops.validate": ("ValidatedRecords", "validate"),
        "ops.verify": ("Report", "verify"),
        "read.nested": ("RecordLists", "decode_each", "scan_each"),
        "read.reader": ("batches", "decode", "scan", "stream"),
        "sidecars": (),
        "sources.remote_errors": ("RemoteError",),
        "support.package_logger": ("logger",),
        "tables.records": ("BatchTable", "Record", "RecordBatch", "RecordColumns"),
        "write": ("RecordBatchBuilder", "encode", "estimate_size", "stamp"),
    },
)
