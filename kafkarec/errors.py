"""The exceptions of the package, and the table of reasons for them.

A reason is a snake_case word that means the same in an exception, in `Damage`, in JSON, in Spark and in the docs.
Messages name the place and both sides of the comparison that failed. They never hold key, value or header bytes:
people paste them into tickets.
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
    "file",
    "value_index",
    "record_errors",
)


class KafkaRecordError(ValueError):
    """Base of every error raised for bad input: bytes that are not Kafka records, or exceed a limit.

    position: int        byte in the input where the batch (or the damage) begins
    base_offset: int     as that batch claims it; for magic 0 and 1 the outer offset
    next_position: int   where reading can go on, None when it is not known
    reason: str          a word from `REASONS`
    expected, found      both sides of the comparison that failed
    file: str            the file, when one was read
    value_index: int     the row of a column of batches (`decode_each`)
    record_errors        each refused record as (batch_index, message): `validate` tells all of them
    """

    position: int | None
    base_offset: int | None
    next_position: int | None
    reason: str | None
    expected: int | None
    found: int | None
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

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), {name: getattr(self, name) for name in self._fields})


def _rebuild(cls: type[KafkaRecordError], message: str, fields: dict[str, Any]) -> KafkaRecordError:
    return cls(message, **fields)


class CorruptRecordError(KafkaRecordError):
    """The bytes contradict their checksum or their frame (Kafka: CorruptRecordException)."""


class InvalidRecordError(KafkaRecordError):
    """The checksum holds and the content does not follow the format (Kafka: InvalidRecordException)."""


class UnsupportedMagicError(CorruptRecordError):
    """A magic byte other than 0, 1, 2."""


class UnsupportedCompressionError(InvalidRecordError):
    """A codec id that does not exist (5-7), or zstd below magic 2."""


class LimitExceededError(KafkaRecordError):
    """More decompressed bytes than the caller allowed; the message names the option to raise."""


class MissingCodecError(KafkaRecordError):
    """The library of a codec is not installed; the message holds the pip command."""


class InvalidArrowError(KafkaRecordError):
    """An Arrow array that does not fit its own schema. It is refused before one of its pointers is followed.

    column: str   its name; of headers `headers`, `headers.key` and so on; None: the table or the stream itself
    row: int      the row, counted over all batches of a stream; in headers the entry; None: the array as a whole
    """

    column: str | None
    row: int | None
    _fields: ClassVar[tuple[str, ...]] = (*_FIELDS, "column", "row")


class Reason(NamedTuple):
    """What a reason means: the exception it raises, the sentence of its message, what its two numbers are."""

    error: type[KafkaRecordError]
    sentence: str
    expected: str = ""
    found: str = ""


_C, _I = CorruptRecordError, InvalidRecordError

# The closed table. Its words are public: adding one is a feature, renaming one breaks users. Those of the compiled core
# come first, in the order of `_c/status.pxd`; the rest is found above it.
REASONS: dict[str, Reason] = {
    # framing: Kafka's ByteBufferLogInputStream
    "size_too_small": Reason(_C, "the size field is below the smallest record overhead", "at least", "found"),
    "size_overflow": Reason(_C, "the size field and its 12 byte prefix go beyond 2^31-1", "at most", "found"),
    "unsupported_magic": Reason(UnsupportedMagicError, "unknown magic", "at most", "found"),
    "batch_too_small": Reason(_C, "too few bytes for the header of its magic", "at least", "found"),
    "length_beyond_end": Reason(_C, "the batch claims more bytes than there are", "claimed", "left"),
    # checksum: ensureValid
    "crc_mismatch": Reason(_C, "crc mismatch", "stored", "computed"),
    # payload
    "unsupported_codec": Reason(UnsupportedCompressionError, "codec id not supported", "at most", "found"),
    "missing_codec": Reason(MissingCodecError, "the codec's library is not installed"),
    "payload_corrupt": Reason(_C, "the compressed payload cannot be decompressed"),
    "limit_exceeded": Reason(LimitExceededError, "more decompressed bytes than max_decompressed_bytes allows"),
    # records of magic 2: DefaultRecordBatch.RecordIterator, DefaultRecord.readFrom
    "record_count_negative": Reason(_I, "negative record count", "at least", "found"),
    "records_missing": Reason(_I, "fewer records than the batch declares", "declared", "found"),
    "records_left_over": Reason(_I, "bytes are left behind the last declared record", "declared", "bytes left"),
    "record_length_invalid": Reason(_I, "record length does not fit its batch", "at most", "found"),
    "record_structure_invalid": Reason(_I, "record fields do not fill the record's length", "length", "read"),
    "varint_too_long": Reason(_I, "varint longer than its type allows"),
    "key_length_invalid": Reason(_I, "key length goes beyond its record", "at most", "found"),
    "value_length_invalid": Reason(_I, "value length goes beyond its record", "at most", "found"),
    "header_count_invalid": Reason(_I, "header count does not fit its record", "at most", "found"),
    "header_key_invalid": Reason(_I, "header key length does not fit its record", "at most", "found"),
    "header_value_invalid": Reason(_I, "header value length goes beyond its record", "at most", "found"),
    # messages of magic 0 and 1: LegacyRecord, AbstractLegacyRecordBatch.DeepRecordsIterator
    "wrapper_value_null": Reason(_I, "wrapper message without a value"),
    "wrapper_empty": Reason(_I, "wrapper message without a whole inner message"),
    "wrapper_offset_too_small": Reason(_I, "wrapper offset below its last inner offset", "at least", "found"),
    "inner_compressed": Reason(_I, "inner message is compressed itself", "codec id", "found"),
    "inner_size_too_small": Reason(_C, "inner message size is below the record overhead", "at least", "found"),
    "inner_crc_mismatch": Reason(_C, "crc mismatch of an inner message", "stored", "computed"),
    "message_truncated": Reason(_I, "message ends inside a field", "needed", "left"),
    # this machine
    "out_of_memory": Reason(LimitExceededError, "the records do not fit in memory", "bytes asked for", "given"),
    # files
    "unreadable": Reason(_C, "the file could not be read here"),
    # control records: ControlRecordType.parse, ControlRecordUtils
    "control_record_invalid": Reason(_I, "control record cannot be read"),
    # the small files beside the segments: CorruptIndexException, CorruptSnapshotException, CheckpointFile
    "index_invalid": Reason(_C, "the index file does not follow its format"),
    "snapshot_invalid": Reason(_C, "the producer snapshot does not follow its format"),
    "checkpoint_invalid": Reason(_C, "the checkpoint file does not follow its format"),
    "metadata_invalid": Reason(_C, "the metadata file does not follow its format"),
    # messages of internal topics: the generated classes' read(Readable, version)
    "message_invalid": Reason(_I, "the message does not follow its schema"),
    "message_unknown": Reason(_I, "record type or version is not known to Kafka 4.3"),
    "message_too_large": Reason(LimitExceededError, "one message holds more elements than are read", "at most"),
    # requests to write: LogValidator, UnifiedLog.analyzeAndValidateRecords
    "request_empty": Reason(_I, "there is no whole batch"),
    "batch_not_alone": Reason(_I, "a batch of magic 2 or a wrapper message comes with another behind it"),
    "batch_magic_differs": Reason(_I, "the magic is not that of the first batch", "first", "found"),
    "offset_range_invalid": Reason(_I, "last offset below the base offset", "base offset", "last offset"),
    "record_count_invalid": Reason(_I, "a batch to be written holds no record", "at least", "found"),
    "record_count_mismatch": Reason(_I, "record count is not that of the offset range", "offsets", "records"),
    "control_batch_refused": Reason(_I, "control batch from a client"),
    "sequence_invalid": Reason(_I, "producer id without a base sequence", "at least", "found"),
    "producer_state_invalid": Reason(_I, "producer fields that no batch may be written with"),
    "magic_unfit": Reason(_I, "the wanted magic has no place for what the batch holds", "at least", "wanted"),
    "timestamp_negative": Reason(_I, "negative timestamp that is not -1", "at least", "found"),
    "records_rejected": Reason(_I, "records are refused", "", "in number"),
    "timestamps_rejected": Reason(_I, "timestamps are refused", "", "in number"),
    "base_offset_not_zero": Reason(_I, "a client's batch does not begin at offset 0", "wanted", "found"),
    "leader_epoch_differs": Reason(_I, "partition leader epoch is not that of the leader", "leader's", "found"),
    "batch_too_large": Reason(_I, "the batch is larger than allowed", "at most", "found"),
    "offsets_out_of_order": Reason(_I, "offsets are out of order", "above", "found"),
    # batches that compact and convert cannot make anew
    "batch_not_rewritable": Reason(_I, "the batch can be read, but no builder writes it", "", "found"),
    # objects of tiered storage (KIP-405): kafkarec.storage.tiered
    "tiered_object": Reason(UnsupportedCompressionError, "a tiered-storage object and no plain log segment"),
    # what others hand over by Arrow's C data interface: kafkarec/_entry/foreign_arrow.pxd
    "arrow_invalid": Reason(InvalidArrowError, "the Arrow array does not fit its schema", "expected", "found"),
}
