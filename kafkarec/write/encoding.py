"""encode: writes records or columns as batches, split as a producer splits them or as in the original batches."""

from __future__ import annotations

from typing import Any, Literal

from kafkarec._writer import BATCH_SIZE as BATCH_SIZE
from kafkarec._writer import encode as encoded
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.format.layout import LATEST_MAGIC
from kafkarec.tables.records import RecordColumns


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
        _check_magics(records_or_arrow)
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


def _check_magics(columns: RecordColumns) -> None:
    """ValueError for batches that no broker reads: kafkarec.experimental."""
    latest = max(columns.batches.column("magic"), default=LATEST_MAGIC)
    if latest > LATEST_MAGIC:
        raise ValueError(f"magic='keep' of batches of magic {latest}: kafkarec.experimental writes them")
