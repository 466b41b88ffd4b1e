"""Sizes of records and batches before they are written (Kafka: AbstractRecords, DefaultRecord, LegacyRecord).

magic 2     61 of the batch + for each record: length varint, attributes 1, timestamp and offset deltas, key and
            value with length varints, count of headers, headers. The first four are 21 bytes at most
magic 0, 1  for each message: offset 8, size 4, then 14 (magic 0) or 22 (magic 1) + key + value; with a codec also
            12 + 14 or 22 of the wrapper
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafkarec._writer import record_size
from kafkarec.format.enums import Compression
from kafkarec.tables.records import Record
from kafkarec.write.fields import MAX_SIZE, Headers, checked_magic, timestamp_of, wrapped

LOG_OVERHEAD = 12
BATCH_OVERHEAD = 61
MESSAGE_OVERHEAD = (14, 22)
MAX_RECORD_OVERHEAD = 21


def batch_header_size(magic: int, codec: int) -> int:
    """Bytes before the records: of the batch header, of the wrapper, or 0 (recordBatchHeaderSizeInBytes)."""
    if magic == 2:
        return BATCH_OVERHEAD
    return LOG_OVERHEAD + MESSAGE_OVERHEAD[magic] if codec else 0


def estimate_size(
    records: Iterable[Any],
    *,
    magic: int = 2,
    compression: Compression | str = "none",
    base_offset: int | None = None,
) -> int:
    """Bytes of `records` as one batch or message set: exact without a codec, a rough estimate with one.

    records: (offset, timestamp_ms, key, value, headers) tuples, or Records; RecordColumns yield these
    base_offset: magic 2's offset deltas are relative to it; None: the deltas are 0, 1, 2, ...

    With a codec: half the size, 1 KiB at least, 64 KiB at most. No records: 0. As AbstractRecords.estimateSizeInBytes.
    """
    checked_magic(magic)
    codec = Compression.of(compression)
    size = 0
    base_timestamp = 0
    for index, (offset, timestamp, key, value, headers) in enumerate(map(_fields, records)):
        if index == 0:
            base_timestamp = timestamp
            size = BATCH_OVERHEAD if magic == 2 else 0
        delta = index if base_offset is None else offset - base_offset
        size += record_size(magic, wrapped(delta, 32), wrapped(timestamp - base_timestamp, 64), key, value, headers)
    if size > MAX_SIZE:
        raise ValueError(f"the records take {size} bytes; a batch holds {MAX_SIZE} at most")
    return size if not codec else min(max(size // 2, 1024), 1 << 16)


def estimate_size_upper_bound(
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    *,
    magic: int = 2,
    compression: Compression | str = "none",
) -> int:
    """The maximum size of an uncompressed batch of this one record, for any offset and timestamp.

    A producer allocates this for a record larger than batch.size (AbstractRecords.estimateSizeInBytesUpperBound).
    """
    checked_magic(magic)
    codec = Compression.of(compression)
    header = batch_header_size(magic, codec)
    if magic < 2:
        # Kafka counts the 12 bytes of offset and size once, not for both the wrapper and its record
        return max(header, LOG_OVERHEAD) + record_size(magic, 0, 0, key, value, ()) - LOG_OVERHEAD
    pairs = [(name.encode() if isinstance(name, str) else name, content) for name, content in headers]
    fields = [key, value, *(field for pair in pairs for field in pair)]
    return header + MAX_RECORD_OVERHEAD + _varint_size(len(pairs)) + sum(map(_prefixed_size, fields))


def _fields(record: Any) -> Sequence[Any]:
    """The five fields, in the order of the tuples."""
    if isinstance(record, Record):
        fields: Sequence[Any] = (record.offset, record.timestamp, record.key, record.value, record.headers)
    elif isinstance(record, tuple) and len(record) == 5:
        fields = record
    else:
        raise TypeError("a Record or (offset, timestamp, key, value, headers) is needed; see encode for columns")
    return fields[0], timestamp_of(fields[1]), *fields[2:4], fields[4] or ()


def _varint_size(number: int) -> int:
    """Bytes of a zig-zag varint of a length or count."""
    return max(1, ((number << 1 if number >= 0 else -2 * number - 1).bit_length() + 6) // 7)


def _prefixed_size(data: bytes | None) -> int:
    return 1 if data is None else _varint_size(len(data)) + len(data)
