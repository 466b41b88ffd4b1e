"""encode: writes records or columns as batches, split as a producer splits them or as in the original batches.

Python records become rows: tuples (offset, timestamp in ms, key, value, headers) of exact types. Columns and rows
become a RecordInput, the compiled writer's view of records.

    offset        int or None                     timestamp    int ms, an aware datetime, None
    key, value    bytes or another buffer, None   headers      pairs (str or UTF-8 bytes, bytes or None), dicts
                                                  with "key" and "value", or a mapping

`_writer.encode` calls `checked_options`, `input_and_batches`, `check_range` and `refusal`; equal options are checked
once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from kafkarec._writer import BATCH_COLUMNS
from kafkarec._writer import BATCH_SIZE as BATCH_SIZE
from kafkarec._writer import RecordInput as RecordInput
from kafkarec._writer import encode as encoded
from kafkarec.format.enums import CODEC_NAMES, Compression, TimestampType
from kafkarec.format.java_integers import INT_MAX, LONG_MAX, number_or_none
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, LATEST_MAGIC
from kafkarec.format.schema import RECORD_FIELDS
from kafkarec.tables.records import ChunkSlice, Record, RecordColumns

from .fields import BatchHeader, bytes_or_none, checked_int, checked_magic, header_pair, timestamp_of

NAMES = ("offset", "timestamp", "key", "value", "headers")
_IGNORED_NAMES = {"topic", "partition"}
Row = tuple[int | None, int | None, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


def row_of(record: Any, number: int) -> Row:
    """A record of any supported type as a row, but no control record. A TypeError or ValueError names the record and
    the field."""
    if isinstance(record, Record) and record.is_control:
        raise ValueError(f"record {number} is a control record: pass RecordColumns, or use a RecordBatchBuilder")
    return checked_fields(record, number)


def checked_fields(record: Any, number: int) -> Row:
    """The same of a control record, too."""
    offset, timestamp, key, value, headers = _record_fields(record, number)
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    if not isinstance(pairs, Iterable):
        raise TypeError(f"record {number}: headers are pairs (key, value), not {type(headers).__name__}")
    try:
        return (
            None if offset is None else checked_int("offset", offset, 64),
            timestamp_of(timestamp),
            bytes_or_none("key", key),
            bytes_or_none("value", value),
            tuple(map(header_pair, pairs)),
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"record {number}: {error}") from None


def _record_fields(record: Any, number: int) -> tuple[Any, ...]:
    if isinstance(record, Record):
        return record.offset, record.timestamp, record.key, record.value, record.headers
    if isinstance(record, tuple) and len(record) == len(NAMES):
        return tuple(record)
    if isinstance(record, Mapping):
        unknown = sorted(map(str, record.keys() - {*NAMES, *_IGNORED_NAMES}))
        if unknown:
            raise ValueError(f"record {number}: unknown {', '.join(unknown)}; a record has {', '.join(NAMES)}")
        return tuple(record.get(name) for name in NAMES)
    raise TypeError(
        f"record {number}: a Record, a dict or a tuple ({', '.join(NAMES)}) is needed, not {type(record).__name__}"
    )


RECORD_CONVERSION = (row_of, (*NAMES, *sorted(_IGNORED_NAMES)))
"""For the compiled writer: how to convert any record; the names of dicts that it reads itself."""


# The errors of records that cannot be written, by the members of the C enum RowFault of `_c/write.pxd`.
FAULT_MESSAGES = {
    "fine": "",
    "header_key_null": "a header key is null",
    "record_too_large": "its key, value and headers take more than 2^31-1 bytes",
    "offset_null": "its offset is null",
    "offset_not_rising": "its offset {offset} does not follow {previous}: offsets increase within an input",
    "timestamp_negative": "its timestamp {timestamp} is negative; -1 or null is none",
    "codec_unknown": f"its compression is not one of {', '.join(CODEC_NAMES)}",
    "headers_unsupported": "it has headers, which magic 0 and 1 do not have; convert() drops and counts them",
    "fields_unsupported": "it belongs to a producer, a transaction or a control batch, which magic 0 and 1 do not have",
    "offset_too_far": "its offset {offset} is 2^31 or more away from the base offset {base}",
    "fields_contradict": "its producer_id, producer_epoch, sequence and is_transactional do not belong together: a "
    "producer has the first three, and a transaction has a producer",
    "codec_unfit": "its codec is not one that its magic has: zstd came with magic 2 (KIP-110)",
    "offset_negative": "its offset {offset} is negative",
}
_BY_NUMBER = tuple(FAULT_MESSAGES.values())


def refusal(fault: int, record: int, **values: int) -> ValueError:
    """The error for a RowFault. record: its index in the input; values: fields of the message."""
    return ValueError(f"record {record}: {_BY_NUMBER[fault].format(**values)}")


OriginalBatches = tuple[list[tuple[Any, list[ChunkSlice]]], bool]
"""See `_entry/written_batches.pxd`: the original batches of rows; whether batches without rows are kept."""

KNOWN_COLUMNS = frozenset(RECORD_FIELDS) | BATCH_COLUMNS
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # the name of pandas' index as an Arrow column


def record_input_of(records: Any, *, plain: bool = False) -> RecordInput:
    """A RecordInput over `records`: anything with __arrow_c_stream__ or __arrow_c_array__ (RecordColumns too), not
    copied; or an iterable of Record, of dicts by those names, or of tuples (offset, timestamp, key, value, headers).

    Missing columns are null; missing offsets are 0, 1, 2, ... Timestamps are ms (int), aware datetimes or Arrow
    timestamps of any unit, rounded down to ms; None is -1. Header keys are str or bytes.
    plain: ignores the columns with header fields of batches.

    Arrow arrays are checked before they are read: InvalidArrowError if one does not fit its schema. RecordColumns are
    trusted and not checked. TypeError and ValueError name the column or the record.
    """
    left_out = set(BATCH_COLUMNS) if plain else set()
    if hasattr(records, "__arrow_c_stream__"):
        own = type(records) is RecordColumns
        return _check_columns(RecordInput(stream=records.__arrow_c_stream__(), left_out=left_out, own=own))
    if hasattr(records, "__arrow_c_array__"):
        return _check_columns(RecordInput(array=records.__arrow_c_array__(), left_out=left_out))
    if isinstance(records, str | bytes | bytearray | memoryview | Mapping) or not isinstance(records, Iterable):
        raise TypeError(f"records or Arrow columns are needed, not {type(records).__name__}; decode() reads bytes")
    return RecordInput(rows=tuple(records))


def _check_columns(record_input: RecordInput) -> RecordInput:
    unknown = sorted(name for name in record_input.names - KNOWN_COLUMNS if not _PANDAS_INDEX.fullmatch(name))
    if unknown:
        raise ValueError(
            f"unknown column {', '.join(map(repr, unknown))}; there are: {', '.join(sorted(KNOWN_COLUMNS))}"
        )
    if not record_input.names & {"key", "value"}:
        raise ValueError("neither a column 'key' nor a column 'value'")
    return record_input


_INT16_MAX = 2**15 - 1


def checked_options(
    magic: Any,
    compression: Any,
    level: int | None,
    timestamp_type: TimestampType | str | None,
    log_append_time: int | None,
    partition_leader_epoch: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    base_sequence: int | None,
    is_transactional: bool | None,
) -> tuple[BatchHeader, bool, bool, tuple[str, ...]]:
    """(header, whether codecs are kept, whether magics are, names of the fields that override the input)."""
    keep_magic, keep_codec = magic == "keep", compression == "keep"
    given = {
        "timestamp_type": None if timestamp_type is None else TimestampType.of(timestamp_type),
        "log_append_time": log_append_time,
        "partition_leader_epoch": partition_leader_epoch,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "is_transactional": is_transactional,
    }
    overrides: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    header = BatchHeader(
        magic=2 if keep_magic else checked_magic(magic),
        codec=0 if keep_codec else Compression.of(compression),
        level=level,
        **overrides,
    )
    if keep_codec and level is not None:
        raise ValueError('compression="keep" uses each codec\'s default level; leave out level=')
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME and log_append_time is None:
        raise ValueError("timestamp_type log_append_time needs log_append_time=, in ms; -1 is none")
    # As MemoryRecordsBuilder and writeHeader: consistent fields, fields that only magic 2 has.
    for name, (minimum, maximum) in _RANGES.items():
        check_range(name, getattr(header, name), minimum, maximum)
    if type(header.is_transactional) is not bool:
        raise ValueError(f"is_transactional {header.is_transactional!r}: True or False")
    if header.codec > LATEST_CODECS[header.magic]:
        raise ValueError(f"{CODEC_NAMES[header.codec]} in magic {header.magic}, which does not have it (KIP-110)")
    if header.magic < BATCH_MAGIC and (header.producer_id >= 0 or header.is_transactional):
        raise ValueError(f"a producer id or a transaction in magic {header.magic}: only magic 2 has them (KIP-98)")
    if header.producer_id < 0 and (header.producer_epoch >= 0 or header.base_sequence >= 0):
        raise ValueError("a producer epoch and a base sequence need producer_id=")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise ValueError("a producer id needs producer_epoch= and base_sequence=, both 0 or more")
    return header, keep_codec, keep_magic, tuple(overrides)


def input_and_batches(records: Any) -> tuple[RecordInput, OriginalBatches | None]:
    """The records, and with columns that have offsets and timestamps the batches that they were read from, including
    empty ones unless the columns are a slice."""
    columns = records if isinstance(records, RecordColumns) else None
    if columns is not None:
        names = [name for name in ("topic", "partition") if name in columns.schema.names]
        partitions = set(columns.zip_columns(*names)) if names else set()
        if len(partitions) > 1:
            raise ValueError(f"records of {len(partitions)} partitions: encode those of one partition at a time")
        if not {"offset", "timestamp"} <= set(columns.schema.names):
            columns = None  # headers are only kept with the records' offsets and timestamps
    record_input = record_input_of(records, plain=columns is not None)
    if columns is None:
        return record_input, None
    slices: dict[int, tuple[Any, list[ChunkSlice]]] = {id(table): (table, []) for table in columns._found.tables}
    for piece in columns._slices:
        rows = piece[0].rows
        slices.setdefault(id(rows), (rows, []))[1].append(piece)
    return record_input, (list(slices.values()), columns._whole)


def check_range(name: str, value: Any, minimum: int, maximum: int) -> None:
    number_or_none(name, value, f"an int from {minimum} to {maximum}", minimum, maximum)


_RANGES = {
    "log_append_time": (-1, LONG_MAX),
    "partition_leader_epoch": (-1, INT_MAX),
    "producer_id": (-1, LONG_MAX),
    "producer_epoch": (-1, _INT16_MAX),
    "base_sequence": (-1, INT_MAX),
}


def encode(
    records_or_arrow: Any,
    *,
    magic: int | Literal["keep"] = 2,
    compression: Compression | str = "none",
    level: int | None = None,
    base_offset: int | None = None,
    batch_size: int | None = None,
    timestamp_type: TimestampType | str | None = None,
    log_append_time: int | None = None,
    partition_leader_epoch: int | None = None,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    base_sequence: int | None = None,
    is_transactional: bool | None = None,
) -> bytes:
    """Consecutive record batches (magic 2) or messages (magic 0, 1) of records or Arrow columns.

    records_or_arrow    RecordColumns; anything with __arrow_c_stream__ or __arrow_c_array__ (pyarrow, polars, duckdb,
                        pandas); or an iterable of Record, dicts or tuples (offset, timestamp, key, value, headers).
                        Columns by name: offset, timestamp, key, value, headers, and those with fields of a record's
                        batch: base_offset, partition_leader_epoch, timestamp_type, producer_id, producer_epoch,
                        sequence, is_transactional, is_control. Missing ones are null.
    magic               2, 1 or 0; "keep": that of the batches read, or of the column `magic`
    compression         a codec (`Compression`); "keep": that of the batches read, or of the column `compression`
    level               None is Kafka's default: gzip -1, lz4 9, zstd 3
    base_offset         of the first batch: the input's offsets are shifted to it, with their gaps. None: they stay
                        unchanged; an input without offsets gets 0, 1, 2, ...
    batch_size          bytes: a batch ends before a record that would not fit, by MemoryRecordsBuilder.hasRoomFor, and
                        holds one record at least. None: RecordColumns and a column base_offset keep the batches that
                        they were read from; for any other input it is 16384
    timestamp_type, log_append_time, partition_leader_epoch, producer_id, producer_epoch, base_sequence,
    is_transactional    of every batch, overriding the input; sequences continue from base_sequence

    With RecordColumns, batches whose records are all present keep all their header fields, and empty batches are kept.
    So encode(decode(b, control=True)) equals b if b is uncompressed and canonical (the shortest varints, offsets and
    times as the builder writes them; under log append time without the original create times, which decode does not
    return). A batch of which only some records are present keeps its producer, epochs, flags and sequences.

    ValueError names the record that does not fit a batch: offsets must increase, timestamps may not be below -1, header
    keys not null; magic 0 and 1 have no headers and no producers (`convert` drops and counts them).
    Follows MemoryRecordsBuilder and DefaultRecordBatch of Kafka 4.4.
    """
    if magic == "keep" and isinstance(records_or_arrow, RecordColumns):
        latest = max(records_or_arrow.batches.column("magic"), default=LATEST_MAGIC)
        if latest > LATEST_MAGIC:  # kafkarec.experimental: no broker reads them
            raise ValueError(f"magic='keep' of batches of magic {latest}: kafkarec.experimental writes them")
    return encoded(
        records_or_arrow,
        base_offset,
        batch_size,
        magic,
        compression,
        level,
        timestamp_type,
        log_append_time,
        partition_leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        is_transactional,
    )
