"""Lines of messages of magic 0 and 1, and of the inner messages of a wrapper; for the bytes see format/layout.py

LegacyRecord reads fields lazily, so an error in a truncated message may come after part of its line. Inner messages are
read as magic 0 if their magic is 0, otherwise as magic 1 (AbstractLegacyRecordBatch.DeepRecordsIterator).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkarec import codecs
from kafkarec.errors import REASONS
from kafkarec.format.checksum import checksum
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import CODEC_MASK, CRC_AT, KEY_AT, LATEST_CODECS, LOG_OVERHEAD, MESSAGE_AT, batch_length
from kafkarec.sources.files import ByteSource

from .batch_lines import DumpedBatch
from .batch_reader import LEAST_SIZE, refuse
from .mismatches import Consecutive
from .record_lines import LineOptions, as_text, content

# Positions in a message without its offset and size.
_CRC_END, _MAGIC, _ATTRIBUTES, _TIMESTAMP = (
    at - LOG_OVERHEAD for at in (CRC_AT[0] + 4, MESSAGE_AT.magic, MESSAGE_AT.attributes, MESSAGE_AT.timestamp)
)
_KEY_AT = tuple(at - LOG_OVERHEAD for at in KEY_AT)
_BOOL = ("false", "true")


class _Message(NamedTuple):
    """A message. timestamp: the log append time of its wrapper, which replaces its own, or None."""

    offset: int
    raw: memoryview
    timestamp: int | None = None


def message_lines(
    source: ByteSource, batch: DumpedBatch, style: LineOptions, consecutive: Consecutive, limit: int
) -> Iterator[str]:
    """The lines of a plain message, or of the messages inside a compressed one."""
    for message in messages(source, batch, limit):
        consecutive.note((message.offset,))
        yield from _line(source, batch, message, style)


def messages(source: ByteSource, batch: DumpedBatch, limit: int) -> Iterator[_Message]:
    """A plain message itself, or the inner messages of a wrapper. `limit`: max decompressed bytes."""
    outer = batch.raw[LOG_OVERHEAD:]
    if batch.codec == 0:
        yield _Message(batch.offset, outer)
        return
    known = LATEST_CODECS[batch.magic]
    if batch.codec > known:
        refuse("unsupported_codec", source, batch.position, offset=batch.offset, expected=known, found=batch.codec)
    value = _blob(source, batch, outer, _value_at(source, batch, outer))
    if value is None:
        refuse("wrapper_value_null", source, batch.position, offset=batch.offset)
    inside = _inside(source, batch, value, limit)
    shift = 0
    if batch.magic == 1 and batch.offset != 0:
        last = inside[-1].offset
        if batch.offset < last:
            refuse(
                "wrapper_offset_too_small",
                source,
                batch.position,
                offset=batch.offset,
                expected=last,
                found=batch.offset,
            )
        shift = wrapped(batch.offset - last, 64)
    for message in inside:
        if message.raw[_ATTRIBUTES] & CODEC_MASK:
            refuse(
                "inner_compressed",
                source,
                batch.position,
                offset=batch.offset,
                expected=0,
                found=message.raw[_ATTRIBUTES] & CODEC_MASK,
            )
        yield message._replace(offset=wrapped(message.offset + shift, 64))


def _inside(source: ByteSource, batch: DumpedBatch, value: memoryview, limit: int) -> list[_Message]:
    try:
        data = memoryview(bytes(codecs.decompress(batch.codec, value, limit, magic=batch.magic)))
    except codecs.CodecError as failure:
        reason = failure.reason if failure.reason in REASONS else "payload_corrupt"
        refuse(reason, source, batch.position, str(failure), offset=batch.offset)
    log_append_time = batch.max_timestamp if batch.timestamp_type == "LogAppendTime" else None
    found = []
    at = 0
    while len(data) - at >= LOG_OVERHEAD:
        size = batch_length(data, at)
        if size < LEAST_SIZE:
            refuse(
                "inner_size_too_small",
                source,
                batch.position,
                offset=batch.offset,
                expected=LEAST_SIZE,
                found=size,
            )
        if size > len(data) - at - LOG_OVERHEAD:
            break  # incomplete: Kafka drops it without an error
        raw = data[at + LOG_OVERHEAD : at + LOG_OVERHEAD + size]
        offset = int.from_bytes(data[at : at + 8], "big", signed=True)
        found.append(_Message(offset, raw, log_append_time if raw[_MAGIC] == 1 else None))
        at += LOG_OVERHEAD + size
    if not found:
        refuse("wrapper_empty", source, batch.position, offset=batch.offset)
    return found


def timestamp_of(source: ByteSource, batch: DumpedBatch, message: _Message) -> int:
    """-1 in magic 0."""
    if message.raw[_MAGIC] == 0:
        return -1
    return message.timestamp if message.timestamp is not None else _integer(source, batch, message.raw, _TIMESTAMP, 8)


def _line(source: ByteSource, batch: DumpedBatch, message: _Message, style: LineOptions) -> Iterator[str]:
    raw = message.raw
    if style.metadata:
        timestamp = timestamp_of(source, batch, message)
        key_size = _integer(source, batch, raw, _key_at(raw), 4)
        value_size = _integer(source, batch, raw, _value_at(source, batch, raw), 4)
        crc = int.from_bytes(raw[:_CRC_END], "big")
        valid = checksum(raw[_CRC_END:], batch.magic) == crc
        yield (
            f"| offset: {message.offset} {batch.timestamp_type}: {timestamp} keySize: {key_size} "
            f"valueSize: {value_size} isValid: {_BOOL[valid]} crc: {crc}"
        )
    complaint = _truncation(raw, style.truncated.with_key) if style.truncated and style.content else None
    if style.truncated and complaint:
        yield content(*style.truncated.texts(message.offset, complaint), style.metadata)
    elif style.content:
        key = _blob(source, batch, raw, _key_at(raw))
        value = _blob(source, batch, raw, _value_at(source, batch, raw))
        decode = style.decode or as_text
        texts = decode(None if key is None else bytes(key), None if value is None else bytes(value), message.offset)
        yield content(*texts, style.metadata)
    yield "\n"


def _truncation(raw: memoryview, with_key: bool) -> str | None:
    """Java's exception message for the first field that is not within the message; None if there is none."""
    at = _key_at(raw)
    for looked_at in (with_key, True):
        if at + 4 > len(raw):
            return "null"  # an IndexOutOfBoundsException has no message
        size, left = int.from_bytes(raw[at : at + 4], "big", signed=True), len(raw) - at - 4
        if looked_at and at == _key_at(raw) and size < 0:
            return None  # without a key Kafka's tool ends with an exception
        if looked_at and size > left:
            return f"newLimit > capacity: ({size} > {left})"
        at += 4 + max(0, size)
    return None


def _key_at(raw: memoryview) -> int:
    return _KEY_AT[raw[_MAGIC] != 0]


def _value_at(source: ByteSource, batch: DumpedBatch, raw: memoryview) -> int:
    at = _key_at(raw)
    return at + 4 + max(0, _integer(source, batch, raw, at, 4))


def _integer(source: ByteSource, batch: DumpedBatch, raw: memoryview, at: int, size: int) -> int:
    if at + size > len(raw):
        refuse(
            "message_truncated",
            source,
            batch.position,
            offset=batch.offset,
            expected=at + size,
            found=len(raw),
        )
    return int.from_bytes(raw[at : at + size], "big", signed=True)


def _blob(source: ByteSource, batch: DumpedBatch, raw: memoryview, at: int) -> memoryview | None:
    size = _integer(source, batch, raw, at, 4)
    if size < 0:
        return None
    if size > len(raw) - at - 4:
        refuse(
            "message_truncated",
            source,
            batch.position,
            offset=batch.offset,
            expected=at + 4 + size,
            found=len(raw),
        )
    return raw[at + 4 : at + 4 + size]
