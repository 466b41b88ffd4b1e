"""Checks and converts single fields for the writer, and BatchHeader, the header fields with which it writes a batch.

    timestamp     ms, None for -1; aware datetimes are rounded down to ms
    integers      within the bits of their field: 64 of offset, timestamp, producer id; 32 of sequence and leader epoch;
                  16 of the producer epoch
    key, value    bytes or None; other buffers are copied
    header        (UTF-8 bytes, bytes or None)

ValueError for a value that does not fit, TypeError for a wrong type. Error messages never contain bytes of a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import index
from struct import Struct
from typing import Any, NamedTuple

from kafkarec.format.layout import MAGICS

Headers = Iterable[tuple[str | bytes, bytes | None]]
Timestamp = int | datetime | None

_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_HALVES = {bits: 1 << (bits - 1) for bits in (16, 32, 64)}
_single = Struct("<f")


def to_float32(number: float) -> float:
    """`number` rounded to a 32-bit float, as Java's float arithmetic does after each step."""
    rounded: float = _single.unpack(_single.pack(number))[0]
    return rounded


def checked_int(name: str, value: Any, bits: int) -> int:
    """`value` as an int; ValueError unless it fits a signed field of `bits`: 16, 32 or 64."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}: an int, not {type(value).__name__}") from None
    half = _HALVES[bits]
    if -half <= number < half:
        return number
    raise ValueError(f"{name} {number} does not fit {bits} bits")


def timestamp_of(value: Timestamp) -> int:
    """A record's timestamp in ms; -1 for none."""
    if value is None:
        return -1
    if not isinstance(value, datetime):
        return checked_int("timestamp", value, 64)
    if value.tzinfo is None:
        raise ValueError("a timestamp without a time zone: use an aware datetime or ms")
    return (value - _EPOCH) // _MS


def bytes_or_none(name: str, data: Any) -> bytes | None:
    """A key or value as bytes, from any buffer; None stays None."""
    if data is None or type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"{name}: bytes or None, not {type(data).__name__}") from None


def header_pair(header: Any) -> tuple[bytes, bytes | None]:
    """A record header as (bytes, bytes or None), from a pair or a dict, as of Arrow's to_pylist. ValueError for a key
    with a lone surrogate: not UTF-8."""
    try:
        key, value = (header["key"], header["value"]) if isinstance(header, dict) and len(header) == 2 else header
    except (TypeError, ValueError, KeyError):
        raise TypeError("a record header is a pair of key and value") from None
    if key is None:
        raise ValueError("a header key must not be None")
    if isinstance(key, str):
        try:
            key = key.encode()
        except UnicodeEncodeError:
            raise ValueError("a header key has half of a surrogate pair, which is not UTF-8") from None
    name = bytes_or_none("header key", key)
    assert name is not None
    return name, bytes_or_none("header value", value)


def checked_magic(magic: Any) -> int:
    """`magic`; ValueError unless it exists."""
    if type(magic) is not int or magic not in MAGICS:
        raise ValueError(f"magic {magic!r}: one of {', '.join(map(str, MAGICS))}")
    return magic


class BatchHeader(NamedTuple):
    """Header fields of a batch; the defaults mean "absent". Callers check the values.

    codec                 id (`Compression`)
    level                 None: Kafka's default of the codec
    timestamp_type        0 create, 1 log append; without meaning in magic 0
    last_offset           None: that of the last record; after compaction it may be higher
    log_append_time       ms; under log append the max timestamp (magic 2) or every message's timestamp (magic 1)
    delete_horizon_ms     sets the flag and is stored as the base timestamp (KIP-534)
    base_timestamp        None: that of the first record, or the horizon; -1 without records
    max_timestamp         None: the greatest timestamp of the records, or log_append_time
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    timestamp_type: int = 0
    base_offset: int = 0
    last_offset: int | None = None
    partition_leader_epoch: int = -1
    log_append_time: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
