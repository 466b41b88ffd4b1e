"""encode: writes records or columns as batches, split as a producer splits them or as in the original batches."""

from __future__ import annotations

from typing import Any, Literal

from kafkarec.format.enums import CODEC_NAMES, Compression, TimestampType
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.tables.records import RecordColumns

from .fields import checked_magic
from .header import BatchHeader
from .record_input import cuts_of, record_input_of

BATCH_SIZE = 16384
"""Bytes; the producer's default `batch.size`."""

_INT16_MAX, _INT32_MAX, _INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1


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
    Follows MemoryRecordsBuilder and DefaultRecordBatch of Kafka 4.3.
    """
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
    _check(header)
    _check_range("base_offset", base_offset, 0, _INT64_MAX)
    _check_range("batch_size", batch_size, 0, _INT32_MAX)
    columns = records_or_arrow if isinstance(records_or_arrow, RecordColumns) else None
    if columns is not None:
        _check_one_partition(columns)
        if not {"offset", "timestamp"} <= set(columns.schema.names):
            columns = None  # headers are only kept with the records' offsets and timestamps
    record_input = record_input_of(records_or_arrow, plain=columns is not None)
    return record_input.encode(
        header,
        base_offset,
        BATCH_SIZE if batch_size is None else batch_size,
        None if columns is None else cuts_of(columns),
        keep_cuts=batch_size is None,
        keep_codec=keep_codec,
        keep_magic=keep_magic,
        overrides=overrides,
    )


def _check_one_partition(columns: RecordColumns) -> None:
    names = [name for name in ("topic", "partition") if name in columns.schema.names]
    partitions = set(zip(*map(columns.column, names), strict=True)) if names else set()
    if len(partitions) > 1:
        raise ValueError(f"records of {len(partitions)} partitions: encode those of one partition at a time")


def _check_range(name: str, value: Any, minimum: int, maximum: int) -> None:
    if value is not None and (type(value) is not int or not minimum <= value <= maximum):
        raise ValueError(f"{name} {value!r}: an int from {minimum} to {maximum}")


_RANGES = {
    "log_append_time": (-1, _INT64_MAX),
    "partition_leader_epoch": (-1, _INT32_MAX),
    "producer_id": (-1, _INT64_MAX),
    "producer_epoch": (-1, _INT16_MAX),
    "base_sequence": (-1, _INT32_MAX),
}


def _check(header: BatchHeader) -> None:
    """The checks of MemoryRecordsBuilder and writeHeader: consistent fields, fields that only magic 2 has."""
    for name, (minimum, maximum) in _RANGES.items():
        _check_range(name, getattr(header, name), minimum, maximum)
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
