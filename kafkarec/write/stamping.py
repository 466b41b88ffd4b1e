"""Changes header fields of a batch in place, as a broker does with batches that it need not rewrite.

    magic 2       base offset 0..8 | length 4 | leader epoch 12..16 | magic 1 | crc 17..21 | attributes 21..23 |
                  last offset delta 23..27 | base timestamp 8 | max timestamp 35..43 | ...     CRC-32C of all from 21 on
    magic 0, 1    offset 0..8 | size 4 | crc 12..16 | magic 1 | attributes 17 | timestamp 18..26 (magic 1) | ...
                                                                                               CRC-32 of all from 16 on

The checksum does not cover offsets and the leader epoch. It covers timestamps: it is computed anew when one changes, so
existing damage is no longer detected; verify first. Follows DefaultRecordBatch and ByteBufferLegacyRecordBatch
(setLastOffset, setPartitionLeaderEpoch, setMaxTimestamp).
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple, NoReturn

from crc32c import crc32c

from kafkarec._core import checksums_of
from kafkarec.damage import error
from kafkarec.format.enums import TimestampType
from kafkarec.write.fields import MAX_SIZE, fitting, wrapped
from kafkarec.write.sizes import LOG_OVERHEAD

_INT64, _INT32, _INT16, _UINT32 = Struct(">q"), Struct(">i"), Struct(">h"), Struct(">I")

_SIZE_AT, _MAGIC_AT = 8, 16
_LEAST_SIZE = (14, 22, 61 - LOG_OVERHEAD)
_CODEC_MASK, _LAST_CODEC = 7, 4
_APPEND_TIME_FLAG = 8
_FLAGS_2 = 0x77  # codec, transactional, control, delete horizon: Kafka writes the other bits as 0


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
        last offset: a plain one takes either argument, a wrapper `last_offset`. Inner messages of magic 0 keep their
        offsets, which are absolute
    partition_leader_epoch: magic 2 only
    timestamp_type: "create_time" or "log_append_time"; max_timestamp: ms. An omitted one stays unchanged. Under log
        append time every record has the max timestamp. Not for magic 0, which has no timestamps

    Changes nothing if it raises: ValueError for fields that the magic lacks (Kafka: UnsupportedOperationException),
    TypeError for a buffer that is not writable, CorruptRecordError if there is no whole batch at `position`,
    UnsupportedCompressionError for a timestamp of a batch with an unknown codec id.
    """
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError("the buffer is not writable: take a bytearray")
    batch = _batch_at(view.cast("B"), position)
    changes: list[tuple[Struct, int, int]] = []
    if base_offset is not None or last_offset is not None:
        changes.append((_INT64, 0, _stored_offset(batch, base_offset, last_offset)))
    if partition_leader_epoch is not None:
        if batch.magic < 2:
            raise ValueError(f"a message of magic {batch.magic} has no partition leader epoch")
        changes.append((_INT32, 12, fitting("partition leader epoch", partition_leader_epoch, 32)))
    times = []
    if timestamp_type is not None or max_timestamp is not None:
        times = _time_changes(batch, timestamp_type, max_timestamp)
    for field, at, value in changes + times:
        batch.put(field, at, value)
    if times:
        _seal(batch)
    return position + batch.size


def stamp_all(
    buffer: Any,
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int | None = None,
    timestamp_type: TimestampType | str | None = None,
    max_timestamp: int | None = None,
) -> int:
    """Calls `stamp` for each batch of a buffer of whole batches; returns the offset after the last one.

    base_offset: of the first batch; each further one begins at the next offset. Not for wrappers of magic 0 and 1,
        which do not store how many offsets they have

    If a later batch raises, the batches before it stay changed.
    """
    view = memoryview(buffer).cast("B")
    position, next_offset = 0, 0 if base_offset is None else base_offset
    while position < view.nbytes:
        start = position
        position = stamp(
            buffer,
            position=start,
            base_offset=None if base_offset is None else next_offset,
            partition_leader_epoch=partition_leader_epoch,
            timestamp_type=timestamp_type,
            max_timestamp=max_timestamp,
        )
        next_offset = _last_offset(_batch_at(view, start)) + 1
    return next_offset


def _stored_offset(batch: _Batch, base_offset: int | None, last_offset: int | None) -> int:
    """The new value of the first field: the base offset, in magic 0 and 1 the last offset."""
    if base_offset is not None and last_offset is not None:
        raise ValueError("base_offset and last_offset: one of them says it all")
    if base_offset is None:
        delta = batch.get(_INT32, 23) if batch.magic == 2 else 0
        return wrapped(fitting("last offset", last_offset, 64) - delta, 64)
    if batch.magic < 2 and batch.get(_INT16, 16) & _CODEC_MASK:
        raise ValueError(f"a wrapper message of magic {batch.magic} has its last offset only: give last_offset")
    return fitting("base offset", base_offset, 64)


def _last_offset(batch: _Batch) -> int:
    return batch.get(_INT64, 0) + (batch.get(_INT32, 23) if batch.magic == 2 else 0)


def _time_changes(
    batch: _Batch, timestamp_type: TimestampType | str | None, max_timestamp: int | None
) -> list[tuple[Struct, int, int]]:
    """The new attributes and timestamp; empty if both are unchanged, and then the checksum stays too."""
    if batch.magic == 0:
        raise ValueError("a message of magic 0 has no timestamp")
    timestamp_at = 35 if batch.magic == 2 else 18
    attributes = batch.get(_INT16, 21 if batch.magic == 2 else 16) & 0xFF
    old_type = attributes & _APPEND_TIME_FLAG
    old_timestamp = batch.get(_INT64, timestamp_at)
    new_type = old_type
    if timestamp_type is not None:
        new_type = _APPEND_TIME_FLAG * TimestampType.of(timestamp_type)
    timestamp = old_timestamp if max_timestamp is None else fitting("max timestamp", max_timestamp, 64)
    if (new_type, timestamp) == (old_type, old_timestamp):
        return []
    codec = attributes & _CODEC_MASK
    if codec > _LAST_CODEC:
        _refuse("unsupported_codec", batch.position, _LAST_CODEC, codec)
    if batch.magic == 2:
        return [(_INT16, 21, attributes & _FLAGS_2 | new_type), (_INT64, timestamp_at, timestamp)]
    return [(_INT16, 16, batch.magic << 8 | codec | new_type), (_INT64, timestamp_at, timestamp)]


def _seal(batch: _Batch) -> None:
    """Writes the checksum of the current bytes."""
    content = batch.view[batch.position : batch.position + batch.size]
    if batch.magic == 2:
        batch.put(_UINT32, 17, crc32c(content[21:]))
    else:
        batch.put(_UINT32, 12, checksums_of(content[16:])[2])


def _batch_at(view: memoryview, position: int) -> _Batch:
    """The whole batch at `position`; CorruptRecordError if there is none."""
    if position < 0:
        raise ValueError(f"position {position} is below 0")
    left = view.nbytes - position
    if left <= _MAGIC_AT:
        _refuse("batch_too_small", position, _MAGIC_AT + 1, max(left, 0))
    length: int = _INT32.unpack_from(view, position + _SIZE_AT)[0]
    magic: int = view[position + _MAGIC_AT]
    if length < _LEAST_SIZE[0]:
        _refuse("size_too_small", position, _LEAST_SIZE[0], length)
    if length > MAX_SIZE - LOG_OVERHEAD:
        _refuse("size_overflow", position, MAX_SIZE - LOG_OVERHEAD, length)
    if magic > 2:
        _refuse("unsupported_magic", position, 2, magic)
    if length < _LEAST_SIZE[magic]:
        _refuse("batch_too_small", position, _LEAST_SIZE[magic] + LOG_OVERHEAD, length + LOG_OVERHEAD)
    if length > left - LOG_OVERHEAD:
        _refuse("length_beyond_end", position, length + LOG_OVERHEAD, left)
    return _Batch(view, position, length + LOG_OVERHEAD, magic)


def _refuse(reason: str, position: int, expected: int, found: int) -> NoReturn:
    raise error(reason, {"position": position, "expected": expected, "found": found})
