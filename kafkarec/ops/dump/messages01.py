"""Lines of messages of magic 0 and 1, and of the inner messages of a wrapper (`kafkarec.format.single_fields`)

Inner messages are read as magic 0 if their magic is 0, otherwise as magic 1 (DeepRecordsIterator).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.errors import REASONS
from kafkarec.format import single_fields
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import CODEC_MASK, LATEST_CODECS
from kafkarec.format.single_fields import FieldFault, Fields

from .batch_lines import BOOL, DumpedBatch
from .mismatches import Consecutive
from .record_lines import LineOptions, content


class _Message(NamedTuple):
    """A message: its offset, its bytes, the fields that can be read and the fault of the next one, and the log append
    time of its wrapper, which replaces its own."""

    offset: int
    raw: memoryview
    values: dict[str, Any]
    fault: FieldFault | None
    append_time: int | None = None


def message_lines(batch: DumpedBatch, style: LineOptions, consecutive: Consecutive, limit: int) -> Iterator[str]:
    """The lines of a plain message, or of the messages inside a compressed one."""
    for message in messages(batch, limit):
        consecutive.note((message.offset,))
        yield _line(batch, message, style)


def messages(batch: DumpedBatch, limit: int) -> Iterator[_Message]:
    """A plain message itself, or the inner messages of a wrapper. `limit`: max decompressed bytes."""
    read = single_fields.message(batch.raw, 0, len(batch.raw))
    wrapper = batch.header
    if batch.codec == 0:
        yield _Message(batch.offset, batch.raw, read.values(), read.fault)
        return
    latest = LATEST_CODECS[wrapper.magic]
    _check(batch, FieldFault("unsupported_codec", latest, batch.codec) if batch.codec > latest else read.fault)
    data = _decompressed(batch, read, limit)
    frames, fault = single_fields.inner_messages(data)
    _check(batch, fault)
    shift, fault = single_fields.inner_shift(wrapper, data, frames)
    _check(batch, fault)
    append_time = wrapper.timestamp if batch.timestamp_type == "LogAppendTime" else None
    for frame in frames:
        read = single_fields.message(data, frame.start, frame.stop)
        values = read.values()
        codec = values["attributes"] & CODEC_MASK
        _check(batch, FieldFault("inner_compressed", 0, codec) if codec else None)
        offset = wrapped(values["offset"] + shift, 64)
        own_time = append_time if values["magic"] == 1 else None
        yield _Message(offset, data[frame.start : frame.stop], values, read.fault, own_time)


def _decompressed(batch: DumpedBatch, read: Fields, limit: int) -> memoryview:
    value = read.blob("value")
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


def timestamp_of(batch: DumpedBatch, message: _Message) -> int:
    """-1 in magic 0."""
    if message.append_time is not None:
        return message.append_time
    if message.values["magic"] and "timestamp" not in message.values:
        _check(batch, message.fault)
    return int(message.values.get("timestamp", -1))


def _line(batch: DumpedBatch, message: _Message, style: LineOptions) -> str:
    """KafkaRecordError if the message ends before what the line shows of it."""
    values = message.values
    line = ""
    if style.content or (style.metadata and "value_length" not in values):
        _check(batch, message.fault)
    if style.metadata:
        stored, computed = batch_checksums(message.raw, 0)  # that of magic 1 has the same bytes
        line = (
            f"| offset: {message.offset} {batch.timestamp_type}: {timestamp_of(batch, message)} "
            f"keySize: {values['key_length']} valueSize: {values['value_length']} "
            f"isValid: {BOOL[stored == computed]} crc: {values['crc']}"
        )
    if style.content:
        key, value = (None if name not in values else bytes(values[name]) for name in ("key", "value"))
        line += content(key, value, message.offset, style)
    return f"{line}\n"
