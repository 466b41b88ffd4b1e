"""The options of encode: checks them, and makes what the compiled writer needs of them and of its input.

`_writer.encode` calls these functions; equal options are checked once.
"""

from __future__ import annotations

from typing import Any

from kafkarec._writer import RecordInput
from kafkarec.format.enums import CODEC_NAMES, Compression, TimestampType
from kafkarec.format.java_integers import INT_MAX, LONG_MAX, number_or_none
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.tables.records import RecordColumns

from .fields import checked_magic
from .header import BatchHeader
from .record_input import Cuts, cuts_of, record_input_of

_INT16_MAX = 2**15 - 1


def checked(
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
    _check(header)
    return header, keep_codec, keep_magic, tuple(overrides)


def input_of(records: Any) -> tuple[RecordInput, Cuts | None]:
    """The records, and with columns that have offsets and timestamps the batches that they were read from."""
    columns = records if isinstance(records, RecordColumns) else None
    if columns is not None:
        _check_one_partition(columns)
        if not {"offset", "timestamp"} <= set(columns.schema.names):
            columns = None  # headers are only kept with the records' offsets and timestamps
    record_input = record_input_of(records, plain=columns is not None)
    return record_input, None if columns is None else cuts_of(columns)


def _check_one_partition(columns: RecordColumns) -> None:
    names = [name for name in ("topic", "partition") if name in columns.schema.names]
    partitions = set(zip(*map(columns.column, names), strict=True)) if names else set()
    if len(partitions) > 1:
        raise ValueError(f"records of {len(partitions)} partitions: encode those of one partition at a time")


def check_range(name: str, value: Any, minimum: int, maximum: int) -> None:
    number_or_none(name, value, f"an int from {minimum} to {maximum}", minimum, maximum)


_RANGES = {
    "log_append_time": (-1, LONG_MAX),
    "partition_leader_epoch": (-1, INT_MAX),
    "producer_id": (-1, LONG_MAX),
    "producer_epoch": (-1, _INT16_MAX),
    "base_sequence": (-1, INT_MAX),
}


def _check(header: BatchHeader) -> None:
    """The checks of MemoryRecordsBuilder and writeHeader: consistent fields, fields that only magic 2 has."""
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
