"""Changes header fields of a batch in place, as a broker does with batches that it need not rewrite.

The checksum does not cover offsets and the leader epoch. It covers timestamps: if one changes, it is recomputed, and
existing damage is no longer detected; verify first. Follows DefaultRecordBatch and ByteBufferLegacyRecordBatch
(setLastOffset, setPartitionLeaderEpoch, setMaxTimestamp).
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple, NoReturn

from kafkarec.damage import error
from kafkarec.format import checksum
from kafkarec.format.enums import TimestampType
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import (
    BATCH_MAGIC,
    CODEC_MASK,
    CRC_AT,
    LATEST_CODEC,
    LATEST_MAGIC,
    LEAST_SIZES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGICS,
    MAX_BATCH_LENGTH,
    MESSAGE_AT,
    UP_TO_MAGIC,
    USED_BITS,
    V2_AT,
    first_fields,
)
from kafkarec.write.fields import checked_int

_INT64, _INT32, _INT16, _INT8, _UINT32 = (Struct(form) for form in (">q", ">i", ">h", ">b", ">I"))


class _Batch(NamedTuple):
    """One batch, or message of magic 0 and 1, in the caller's buffer."""

    view: memoryview
    position: int
    size: int
    magic: int

    def get(self, field: Struct, at: int) -> int:
        value: int = field.unpack_from(self.view, self.position + at)[0]
        return value

    def put(self, field: Struct, at: int, value: int) -> None:
        field.pack_into(self.view, self.position + at, value)


def stamp(
    buffer: Any,
    *,
    position: int = 0,
    base_offset: int | None = None,
    last_offset: int | None = None,
    partition_leader_epoch: int | None = None,
    timestamp_type: TimestampType | str | None = None,
    max_timestamp: int | None = None,
) -> int:
    """Changes the batch at byte `position` of a writable buffer; returns the position after it.

    base_offset, last_offset: one of them; shifts the offsets of all records. A message of magic 0 or 1 stores only its
        last offset: a plain one accepts either argument, a wrapper only `last_offset`. Inner messages of magic 0 keep
        their offsets, which are absolute
    partition_leader_epoch: magic 2 only
    timestamp_type: "create_time" or "log_append_time"; max_timestamp: ms. An omitted one stays unchanged. Under log
        append time every record has the max timestamp. Not for magic 0, which has no timestamps

    Changes nothing if it raises: ValueError for fields that the magic lacks (Kafka: UnsupportedOperationException),
    TypeError for a buffer that is not writable, CorruptRecordError if there is no whole batch at `position`,
    UnsupportedCompressionError for a timestamp of a batch with an unknown codec id.
    """
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError("the buffer is not writable; use a bytearray")
    position = checked_int("position", position, 64)
    batch = _batch_at(view.cast("B"), position)
    changes: list[tuple[Struct, int, int]] = []
    if base_offset is not None or last_offset is not None:
        changes.append((_INT64, 0, _stored_offset(batch, base_offset, last_offset)))
    if partition_leader_epoch is not None:
        if batch.magic < BATCH_MAGIC:
            raise ValueError(f"a message of magic {batch.magic} has no partition leader epoch")
        changes.append(
            (_INT32, V2_AT.partition_leader_epoch, checked_int("partition leader epoch", partition_leader_epoch, 32))
        )
    times = []
    if timestamp_type is not None or max_timestamp is not None:
        times = _time_changes(batch, timestamp_type, max_timestamp)
    for field, at, value in changes + times:
        batch.put(field, at, value)
    if times:
        content = batch.view[batch.position : batch.position + batch.size]
        batch.put(_UINT32, CRC_AT[batch.magic], checksum.batch_checksums(content, batch.magic)[1])
    return position + batch.size


def _stored_offset(batch: _Batch, base_offset: int | None, last_offset: int | None) -> int:
    """The new value of the first field: the base offset, in magic 0 and 1 the last offset."""
    if base_offset is not None and last_offset is not None:
        raise ValueError("base_offset and last_offset: give one of them")
    if base_offset is None:
        delta = batch.get(_INT32, V2_AT.last_offset_delta) if batch.magic >= BATCH_MAGIC else 0
        return wrapped(checked_int("last offset", last_offset, 64) - delta, 64)
    if batch.magic < BATCH_MAGIC and batch.get(_INT8, MESSAGE_AT.attributes) & CODEC_MASK:
        raise ValueError(f"a wrapper message of magic {batch.magic} stores only its last offset; give last_offset")
    return checked_int("base offset", base_offset, 64)


def _time_changes(
    batch: _Batch, timestamp_type: TimestampType | str | None, max_timestamp: int | None
) -> list[tuple[Struct, int, int]]:
    """The new attributes and timestamp; empty if both are unchanged, and then the checksum stays too."""
    if batch.magic == 0:
        raise ValueError("a message of magic 0 has no timestamp")
    timestamp_at = V2_AT.max_timestamp if batch.magic >= BATCH_MAGIC else MESSAGE_AT.timestamp
    form, at = (_INT16, V2_AT.attributes) if batch.magic >= BATCH_MAGIC else (_INT8, MESSAGE_AT.attributes)
    attributes = batch.get(form, at)
    old_type = attributes & LOG_APPEND_TIME
    old_timestamp = batch.get(_INT64, timestamp_at)
    new_type = old_type
    if timestamp_type is not None:
        new_type = LOG_APPEND_TIME * TimestampType.of(timestamp_type)
    timestamp = old_timestamp if max_timestamp is None else checked_int("max timestamp", max_timestamp, 64)
    if (new_type, timestamp) == (old_type, old_timestamp):
        return []
    codec = attributes & CODEC_MASK
    if codec > LATEST_CODEC:
        _refuse("unsupported_codec", batch.position, LATEST_CODEC, codec)
    # Kafka writes the unused bits as 0
    kept = attributes & USED_BITS[batch.magic] & ~LOG_APPEND_TIME
    return [(form, at, kept | new_type), (_INT64, timestamp_at, timestamp)]


def _batch_at(view: memoryview, position: int) -> _Batch:
    """The whole batch at `position`; CorruptRecordError if there is none."""
    if position < 0:
        raise ValueError(f"position {position} is below 0")
    left = view.nbytes - position
    if left < UP_TO_MAGIC:
        _refuse("batch_too_small", position, UP_TO_MAGIC, max(left, 0))
    start = first_fields(view, position)
    size = start.batch_length + LOG_OVERHEAD
    if size < LEAST_SIZES[0]:
        _refuse("size_too_small", position, LEAST_SIZES[0] - LOG_OVERHEAD, start.batch_length)
    if start.batch_length > MAX_BATCH_LENGTH:
        _refuse("size_overflow", position, MAX_BATCH_LENGTH, start.batch_length)
    if start.magic not in MAGICS:
        _refuse("unsupported_magic", position, LATEST_MAGIC, start.magic)
    if size < LEAST_SIZES[start.magic]:
        _refuse("batch_too_small", position, LEAST_SIZES[start.magic], size)
    if size > left:
        _refuse("length_beyond_end", position, size, left)
    return _Batch(view, position, size, start.magic)


def _refuse(reason: str, position: int, expected: int, found: int) -> NoReturn:
    raise error(reason, {"position": position, "expected": expected, "found": found})
