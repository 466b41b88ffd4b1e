"""The exceptions of the package, and the table of reasons for them.

A reason is a snake_case word that means the same in an exception, in `Damage`, in JSON, in Spark and in the docs.
Messages have the position and both values of the comparison that failed. They never contain key, value or header
bytes: people paste them into tickets.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

_FIELDS = (
    "position",
    "base_offset",
    "next_position",
    "reason",
    "expected",
    "found",
    "record",
    "cause",
    "file",
    "value_index",
    "record_errors",
)


class KafkaRecordError(ValueError):
    """Base of every error raised for bad input: bytes that are not Kafka records, or exceed a limit.

    position: int        byte in the input where the batch (or the damage) begins
    base_offset: int     as stored in that batch; for magic 0 and 1 the outer offset
    next_position: int   the position where reading can go on; None: not known
    reason: str          a key of `REASONS`
    expected, found      both values of the comparison that failed
    record: int          the record of its batch, from 0
    cause: str           what the message has beyond these fields
    file: str            the file, if one was read
    value_index: int     the row of a column of batches (`decode_each`)
    record_errors        (batch_index, message) of each refused record; set by `validate`
    """

    position: int | None
    base_offset: int | None
    next_position: int | None
    reason: str | None
    expected: int | None
    found: int | None
    record: int | None
    cause: str | None
    file: str | None
    value_index: int | None
    record_errors: tuple[tuple[int, str], ...] | None
    _fields: ClassVar[tuple[str, ...]] = _FIELDS

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        unknown = set(fields) - set(self._fields)
        if unknown:
            raise TypeError(f"no such field: {', '.join(sorted(unknown))}")
        for name in self._fields:
            setattr(self, name, fields.get(name))


class CorruptRecordError(KafkaRecordError):
    """The bytes contradict their checksum or their frame (Kafka: CorruptRecordException)."""


class InvalidRecordError(KafkaRecordError):
    """The checksum is right, but the content does not follow the format (Kafka: InvalidRecordException)."""


class UnsupportedMagicError(CorruptRecordError):
    """A magic byte that does not exist."""


class UnsupportedCompressionError(InvalidRecordError):
    """A codec id that does not exist, or that the batch's magic does not have (zstd below magic 2)."""


class LimitExceededError(KafkaRecordError):
    """More decompressed bytes than the caller allowed. The message has the name of the option to increase."""


class MissingCodecError(KafkaRecordError):
    """The library of a codec is not installed. The message has the pip command."""


class InvalidArrowError(KafkaRecordError):
    """An Arrow array that does not fit its own schema. It is refused before one of its pointers is followed.

    column: str   the column's name; for headers `headers`, `headers.key` and so on; None: the table or stream itself
    row: int      the row, counted over all batches of a stream; for headers the entry; None: the array as a whole
    """

    column: str | None
    row: int | None
    _fields: ClassVar[tuple[str, ...]] = (*_FIELDS, "column", "row")


class PackedFileError(OSError):
    """The gzip or zstd data around a file ends or is corrupt, so the content after it cannot be read. No disk reports
    this, so `errno` is None.

    unreadable_cause: int   CUT_OFF or CORRUPT; below 0, so that the decoder can keep it in place of an errno
    """

    CUT_OFF: ClassVar[int] = -1
    CORRUPT: ClassVar[int] = -2

    def __init__(self, name: str, codec: str, cause: int) -> None:
        super().__init__(None, f"the {codec} data around the file ends or is corrupt here", name)
        self.codec, self.unreadable_cause = codec, cause

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.filename, self.codec, self.unreadable_cause)


class Reason(NamedTuple):
    """A reason: the exception that is raised, the sentence of its message, what to do about a log on disk (for
    docs/damage.md), the names of its two values."""

    error: type[KafkaRecordError]
    sentence: str
    advice: str
    expected: str = ""
    found: str = ""
    in_hexadecimal: bool = False


_C, _I = CorruptRecordError, InvalidRecordError
_SALVAGE = "`salvage`: every other batch is saved; or take the batch from a replica: `diff`, `salvage A B`"
_EXPLAIN = "the checksum is right, so this is an error of the writer: `explain` shows where"
_REBUILD = "`reindex` makes a new one"
_SENDER = "a broker would refuse it, too: correct the sender, or change the setting in the message"

# The closed table. Its keys are public: adding one is a feature, renaming one breaks users. Those of the compiled core
# come first, in the order of `_c/status.pxd`; the others are from Python modules.
REASONS: dict[str, Reason] = {
    # framing: Kafka's ByteBufferLogInputStream
    "size_too_small": Reason(_C, "the size field is below the smallest record overhead", _SALVAGE, "at least", "found"),
    "size_overflow": Reason(_C, "the size field and its 12 byte prefix go beyond 2^31-1", _SALVAGE, "at most", "found"),
    "unsupported_magic": Reason(
        UnsupportedMagicError,
        "unknown magic",
        f"no Kafka batch begins here, or a byte of it is damaged; {_SALVAGE}",
        "at most",
        "found",
    ),
    "batch_too_small": Reason(_C, "too few bytes for the header of its magic", _SALVAGE, "at least", "found"),
    "length_beyond_end": Reason(_C, "the batch claims more bytes than there are", _SALVAGE, "claimed", "left"),
    # checksum: ensureValid
    "crc_mismatch": Reason(_C, "crc mismatch", _SALVAGE, "stored", "computed", in_hexadecimal=True),
    # payload
    "unsupported_codec": Reason(
        UnsupportedCompressionError,
        "codec id not supported",
        "as `unsupported_magic`: no codec has this id",
        "at most",
        "found",
    ),
    "missing_codec": Reason(
        MissingCodecError,
        "the codec's library is not installed",
        "install what the message names; `doctor` lists all of them",
    ),
    "payload_corrupt": Reason(
        _C,
        "the compressed payload cannot be decompressed",
        "the checksum is right, so a producer wrote it like this: `explain`; consumers fail on it too",
    ),
    "limit_exceeded": Reason(
        LimitExceededError,
        "more decompressed bytes than max_decompressed_bytes allows",
        "trusted data: raise `--max-decompressed-bytes 1g`, `max_decompressed_bytes=`; else leave it out",
    ),
    # records of magic 2: DefaultRecordBatch.RecordIterator, DefaultRecord.readFrom
    "record_count_negative": Reason(_I, "negative record count", _EXPLAIN, "at least", "found"),
    "records_missing": Reason(_I, "fewer records than the batch declares", _EXPLAIN, "declared", "found"),
    "records_left_over": Reason(
        _I, "bytes are left after the last declared record", _EXPLAIN, "declared", "bytes left"
    ),
    "record_length_invalid": Reason(_I, "record length does not fit its batch", _EXPLAIN, "at most", "found"),
    "record_structure_invalid": Reason(_I, "record fields do not fill the record's length", _EXPLAIN, "length", "read"),
    "varint_too_long": Reason(_I, "varint longer than its type allows", _EXPLAIN),
    "key_length_invalid": Reason(_I, "key length goes beyond its record", _EXPLAIN, "at most", "found"),
    "value_length_invalid": Reason(_I, "value length goes beyond its record", _EXPLAIN, "at most", "found"),
    "header_count_invalid": Reason(_I, "header count does not fit its record", _EXPLAIN, "at most", "found"),
    "header_key_invalid": Reason(_I, "header key length does not fit its record", _EXPLAIN, "at most", "found"),
    "header_value_invalid": Reason(_I, "header value length goes beyond its record", _EXPLAIN, "at most", "found"),
    # messages of magic 0 and 1: LegacyRecord, AbstractLegacyRecordBatch.DeepRecordsIterator
    "wrapper_value_null": Reason(_I, "wrapper message without a value", _EXPLAIN),
    "wrapper_empty": Reason(_I, "wrapper message without a whole inner message", _EXPLAIN),
    "wrapper_offset_too_small": Reason(_I, "wrapper offset below its last inner offset", _EXPLAIN, "at least", "found"),
    "inner_compressed": Reason(_I, "inner message is itself compressed", _EXPLAIN, "codec id", "found"),
    "inner_size_too_small": Reason(
        _C, "inner message size is below the record overhead", _SALVAGE, "at least", "found"
    ),
    "inner_crc_mismatch": Reason(
        _C, "crc mismatch of an inner message", _SALVAGE, "stored", "computed", in_hexadecimal=True
    ),
    "message_truncated": Reason(_I, "message ends inside a field", _EXPLAIN, "needed", "left"),
    # this machine
    "out_of_memory": Reason(
        LimitExceededError,
        "the records do not fit in memory",
        "`stream`, or fewer columns, instead of `decode`",
        "bytes asked for",
        "given",
    ),
    # files
    "unreadable": Reason(
        _C,
        "the file could not be read here",
        "the disk failed: copy it with ddrescue, then `verify` and `salvage` the copy",
    ),
    "base_offset_undecided": Reason(
        _C,
        "the base offset does not fit those of the batches around it",
        "the batch itself is whole: `explain` shows it; its offset is one of those that are lost",
    ),
    "search_limit": Reason(
        _C,
        "the search for batches behind damage ended at its limit of work",
        "copy this range into a file of its own (`dd`), and `salvage` that, too: its search has a limit of its own",
    ),
    # control records: ControlRecordType.parse, ControlRecordUtils
    "control_record_invalid": Reason(
        _I, "control record cannot be read", "`read_committed` stops here; `explain` shows the record"
    ),
    # side files of the segments: CorruptIndexException, CorruptSnapshotException, CheckpointFile
    "index_invalid": Reason(_C, "the index file does not follow its format", _REBUILD),
    "snapshot_invalid": Reason(_C, "the producer snapshot does not follow its format", _REBUILD),
    "checkpoint_invalid": Reason(
        _C,
        "the checkpoint file does not follow its format",
        "leader-epoch-checkpoint: `reindex`; a data folder's: delete it, a broker writes a new one",
    ),
    "metadata_invalid": Reason(
        _C,
        "the metadata file does not follow its format",
        "take the file from another broker, or write a new one: it is a few lines of text",
    ),
    # messages of internal topics: the generated classes' read(Readable, version)
    "message_invalid": Reason(
        _I, "the message does not follow its schema", "`cat --raw` shows the bytes; the record stays bytes otherwise"
    ),
    "message_unknown": Reason(
        _I, "record type or version is not known to Kafka 4.4", "written by a newer Kafka; the record stays bytes"
    ),
    "message_too_large": Reason(
        LimitExceededError, "one message holds more elements than are read", "the record stays bytes", "at most"
    ),
    # requests to write: LogValidator, UnifiedLog.analyzeAndValidateRecords
    "request_empty": Reason(_I, "there is no whole batch", _SENDER),
    "batch_not_alone": Reason(_I, "a batch of magic 2 or a wrapper message is followed by another one", _SENDER),
    "batch_magic_differs": Reason(_I, "the magic is not that of the first batch", _SENDER, "first", "found"),
    "offset_range_invalid": Reason(_I, "last offset below the base offset", _SENDER, "base offset", "last offset"),
    "record_count_invalid": Reason(_I, "a batch to be written has no records", _SENDER, "at least", "found"),
    "record_count_mismatch": Reason(_I, "record count is not that of the offset range", _SENDER, "offsets", "records"),
    "control_batch_refused": Reason(_I, "control batch from a client", _SENDER),
    "sequence_invalid": Reason(_I, "producer id without a base sequence", _SENDER, "at least", "found"),
    "producer_state_invalid": Reason(_I, "producer fields that no batch may be written with", _SENDER),
    "magic_unfit": Reason(
        _I,
        "the requested magic cannot represent the batch",
        "write it with magic 2, or `convert`, which counts what is lost",
        "at least",
        "requested",
    ),
    "timestamp_negative": Reason(_I, "negative timestamp that is not -1", _SENDER, "at least", "found"),
    "records_rejected": Reason(_I, "records are refused", _SENDER, "", "in number"),
    "timestamps_rejected": Reason(_I, "timestamps are refused", _SENDER, "", "in number"),
    "base_offset_not_zero": Reason(_I, "a client's batch does not begin at offset 0", _SENDER, "expected", "found"),
    "leader_epoch_differs": Reason(
        _I, "partition leader epoch is not that of the leader", _SENDER, "leader's", "found"
    ),
    "batch_too_large": Reason(_I, "the batch is larger than allowed", _SENDER, "at most", "found"),
    "record_too_large": Reason(
        _I,
        "a record is larger than max_decompressed_message_bytes allows",
        "raise the topic's max.decompressed.message.bytes: `verify` names the largest record",
        "at most",
        "found",
    ),
    "offsets_out_of_order": Reason(_I, "offsets are out of order", _SENDER, "above", "found"),
    # batches that compact and convert cannot rewrite
    "batch_not_rewritable": Reason(
        _I,
        "the batch can be read, but not written again",
        "leave that batch out, or `salvage` it from a replica",
        "",
        "found",
    ),
    # objects of tiered storage (KIP-405): kafkarec.storage.tiered
    "tiered_object": Reason(
        UnsupportedCompressionError,
        "a tiered-storage object, not a plain log segment",
        "fetch the segment through the plugin, or let a broker do it; [Layouts](layouts.md)",
    ),
    # arrays passed through Arrow's C data interface: kafkarec/_entry/arrow_capsules.pxd
    "arrow_invalid": Reason(
        InvalidArrowError,
        "the Arrow array does not fit its schema",
        "the program that made the Arrow array is wrong; with pyarrow, `.validate(full=True)` says more",
        "expected",
        "found",
    ),
}

_NAMES = list(REASONS)
PAYLOAD_REASONS = frozenset(_NAMES[_NAMES.index("crc_mismatch") + 1 : _NAMES.index("out_of_memory")])
"""Reasons of batches whose checksum is right, so that their length can be trusted, but which no reader accepts."""
