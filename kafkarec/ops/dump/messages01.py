"""Lines of messages of magic 0 and 1, and of the inner messages of a wrapper

Inner messages are read as magic 0 if their magic is 0, otherwise as magic 1 (DeepRecordsIterator).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from kafkarec import codecs
from kafkarec.errors import REASONS
from kafkarec.format import single_fields
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import CODEC_MASK, KEY_AT, LATEST_CODECS, MESSAGE_AT, message_header
from kafkarec.format.single_fields import FieldFault, Fields

from .batch_lines import BOOL, DumpedBatch
from .mismatches import Consecutive
from .record_lines import Blob, LineOptions, contents


class _Message(NamedTuple):
    """A message: its offset, its timestamp (-1 in magic 0) or that of its wrapper, and its bytes."""

    offset: int
    timestamp: int
    raw: memoryview


def message_lines(batch: DumpedBatch, style: LineOptions, consecutive: Consecutive, limit: int) -> Iterator[str]:
    """The lines of a plain message, or of the messages inside a compressed one."""
    for message in messages(batch, limit):
        consecutive.note((message.offset,))
        yield _line(batch, message, style)


def messages(batch: DumpedBatch, limit: int) -> Iterator[_Message]:
    """A plain message itself, or the inner messages of a wrapper. `limit`: max decompressed bytes."""
    wrapper = batch.header
    if batch.codec == 0:
        yield _Message(batch.offset, wrapper.timestamp, batch.raw)
        return
    latest = LATEST_CODECS[wrapper.magic]
    read = single_fields.message(batch.raw, 0, len(batch.raw))
    _check(batch, FieldFault("unsupported_codec", latest, batch.codec) if batch.codec > latest else read.fault)
    data = _decompressed(batch, read, limit)
    frames, fault = single_fields.inner_messages(data)
    shift, shift_fault = single_fields.inner_shift(wrapper, data, frames)
    _check(batch, fault or shift_fault)
    append_time = batch.timestamp_type == "LogAppendTime"
    for frame in frames:
        raw = data[frame.start : frame.stop]
        inner = message_header(raw)
        codec = inner.attributes & CODEC_MASK
        _check(batch, FieldFault("inner_compressed", 0, codec) if codec else None)
        timestamp = wrapper.timestamp if append_time and inner.magic == 1 else inner.timestamp
        yield _Message(wrapped(inner.offset + shift, 64), timestamp, raw)


def _decompressed(batch: DumpedBatch, read: Fields, limit: int) -> memoryview:
    value = read.values().get("value")
    if value is None:
        batch.refuse(FieldFault("wrapper_value_null"))
    try:
        return memoryview(bytes(codecs.decompress(batch.codec, value, limit, magic=batch.header.magic)))
    except codecs.CodecError as error:
        reason = error.reason if error.reason in REASONS else "payload_corrupt"
        batch.refuse(FieldFault(reason, detail=str(error)))


def _check(batch: DumpedBatch, fault: FieldFault | None) -> None:
    if fault:
        batch.refuse(fault)


def _line(batch: DumpedBatch, message: _Message, style: LineOptions) -> str:
    """KafkaRecordError if the message ends before what the line shows of it."""
    if not style.metadata and not style.content:
        return "\n"
    raw, line = message.raw, ""
    try:
        key_size, key, key_end = _sized(raw, KEY_AT[raw[MESSAGE_AT.magic] != 0], style.content)
        value_size, value, _ = _sized(raw, key_end, style.content)
    except struct.error:
        _check(batch, single_fields.message(raw, 0, len(raw)).fault)
        raise
    if style.metadata:
        stored, computed = batch_checksums(raw, 0)  # that of magic 1 has the same bytes
        line = (
            f"| offset: {message.offset} {batch.timestamp_type}: {message.timestamp} keySize: {key_size} "
            f"valueSize: {value_size} isValid: {BOOL[stored == computed]} crc: {stored}"
        )
    if style.content:
        content, columns = contents([key], [value], [message.offset], style)
        line += content % tuple(chain(*columns))
    return f"{line}\n"


def _sized(raw: memoryview, at: int, with_bytes: bool) -> tuple[int, Blob, int]:
    """(size, bytes, end) of a key or value at byte `at`. struct.error if it is cut."""
    (size,) = struct.unpack_from(">i", raw, at)
    (blob,) = struct.unpack_from(f"{size}s", raw, at + 4) if with_bytes and size >= 0 else (None,)
    return size, blob, at + 4 + max(0, size)
