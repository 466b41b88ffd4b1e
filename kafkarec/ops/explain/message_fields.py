"""A message of magic 0 or 1, plain or a wrapper, byte by byte.

    offset  bytes  field
         0      8  offset              plain: its own; wrapper: the offset of its last inner message
         8      4  size                bytes after this field
        12      4  crc                 CRC-32 of byte 16 to the end
        16      1  magic
        17      1  attributes          codec, timestamp type (magic 1)
       (18      8  timestamp           magic 1 only, KIP-32)
     18/26      4  key length          any negative: null
                   key
                4  value length        any negative: null
                   value               of a wrapper: the compressed set of inner messages

Follows LegacyRecord and AbstractLegacyRecordBatch.DeepRecordsIterator; inner offsets by KIP-31.
"""

from __future__ import annotations

from typing import Any

from kafkarec.codecs import CodecError, decompress
from kafkarec.format.checksum import checksum
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import (
    CHECKED_FROM,
    CODEC_MASK,
    LATEST_CODECS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MESSAGE_OVERHEAD,
    batch_length,
)

from . import compression_frames, value_descriptions
from .batch_fields import add_codec_fault
from .spans import SKIPPED, Section, SpanWriter, UnreadableField, UnreadableSpan, joined
from .value_descriptions import iso_time


def walk(writer: SpanWriter, whole: bool, cap: int, most: int | None) -> list[Section]:
    """Writes the spans of the outer message from its crc on. Returns the section of its inner messages, for a
    wrapper."""
    data = writer.data
    offset = int.from_bytes(data[:8], "big", signed=True)
    try:
        magic, attributes, timestamp = _header(writer, "", 0, writer.stop if whole else None)
    except UnreadableField as broken:
        writer.unread(writer.stop, "message", "", broken)
        return []
    codec = attributes & CODEC_MASK
    try:
        _sized(writer, "key")
        if not codec:
            _sized(writer, "value")
            return []
        if codec > LATEST_CODECS[magic]:
            writer.number("value_length", 4, value_descriptions.sized)
            raise UnreadableField("unsupported_codec", LATEST_CODECS[magic], codec)
        return _wrapper(writer, codec, offset, magic, attributes, timestamp, cap, most)
    except UnreadableSpan:
        writer.unread(writer.stop, "message")
    except UnreadableField as broken:
        writer.unread(writer.stop, "message", "", broken)
    finally:
        if writer.left:
            writer.unread(writer.stop, "spare", "spare bytes: readers ignore them")
    return []


def _header(writer: SpanWriter, path: str, start: int, stop: int | None) -> tuple[int, int, int]:
    """(magic, attributes, timestamp) of the message whose offset field is at `start`. Checks the CRC up to `stop`;
    None: not."""
    stored = writer.number(f"{path}crc", 4, "CRC-32", signed=False, show=lambda v: f"0x{v:08x}")
    if stop is None:
        note = "CRC-32; cannot be checked, as bytes of the message are missing"
        writer.spans[-1] = writer.spans[-1]._replace(note=note)
    else:
        _compare(writer, path, stored, start + CHECKED_FROM[0], stop)
    magic = writer.number(f"{path}magic", 1, "LegacyRecord")
    attributes = writer.number(
        f"{path}attributes",
        1,
        lambda v: value_descriptions.message_attributes(v & 0xFF, magic),
        show=lambda v: f"0x{v & 0xFF:02x}",
    )
    timestamp = writer.number(f"{path}timestamp", 8, iso_time) if magic else -1
    return magic, attributes, timestamp


def _compare(writer: SpanWriter, path: str, stored: int, start: int, stop: int) -> None:
    computed = checksum(writer.data[start:stop], 0)
    note = f"CRC-32 of bytes {start} to {stop - 1}"
    span = writer.spans[-1]
    if stored == computed:
        writer.spans[-1] = span._replace(note=f"{note}: matches")
    elif path:
        # Kafka's iterators do not check it; consumers with check.crcs and `verify` do.
        odd = f"ODD: computed 0x{computed:08x}; readers do not check it, verify does [inner_crc_mismatch]"
        writer.spans[-1] = span._replace(note=joined(note, odd))
    else:
        writer.spans[-1] = span._replace(note=note)
        writer.add_fault("crc_mismatch", stored, computed)


def _sized(writer: SpanWriter, path: str) -> None:
    """A key or a value with its int32 length."""
    length = writer.number(f"{path}_length", 4, value_descriptions.sized)
    if length > writer.left:
        writer.add_fault("message_truncated", length, writer.left)
        raise UnreadableSpan
    if length > 0:
        writer.payload(path, length)


def _wrapper(
    writer: SpanWriter, codec: int, offset: int, magic: int, attributes: int, timestamp: int, cap: int, most: int | None
) -> list[Section]:
    length = writer.number("value_length", 4, value_descriptions.sized)
    if length > writer.left:
        writer.add_fault("message_truncated", length, writer.left)
        raise UnreadableSpan
    if length < 0:
        writer.add_fault("wrapper_value_null", 0, length)
        return []
    start, whole = writer.at, writer.stop
    writer.stop = start + length
    content: Any = None
    refusal: CodecError | None = None
    try:
        content = decompress(codec, bytes(writer.data[start : writer.stop]), cap, 0, magic)
    except CodecError as error:
        refusal = error
    inside = None if content is None else memoryview(bytes(content))
    compression_frames.walk(writer, codec, None if inside is None else len(inside))
    writer.stop = whole
    if refusal is not None:
        add_codec_fault(writer, start, refusal)
    if inside is None:
        return []
    inner = SpanWriter(inside, section=1)
    _InnerMessages(inner, offset, magic, attributes, timestamp, cap).walk(most)
    writer.faults += inner.faults
    return [Section("decompressed messages", inside, tuple(inner.spans))]


class _InnerMessages:
    """The messages inside a wrapper."""

    def __init__(self, writer: SpanWriter, offset: int, magic: int, attributes: int, timestamp: int, cap: int) -> None:
        self._writer, self._cap = writer, cap
        self._offset, self._magic = offset, magic
        self._append_time = timestamp if magic and attributes & LOG_APPEND_TIME else None
        self._shift: int | None = None
        self._last = 0

    def walk(self, most: int | None) -> None:
        writer = self._writer
        places, broken = self._frames()
        if not places and broken is None:
            broken = UnreadableField("wrapper_empty", 1, 0)
        if places:
            self._find_shift(places[-1][0])
        for index, (at, size) in enumerate(places):
            spans, faults = len(writer.spans), len(writer.faults)
            self._one(f"messages[{index}].", at, size, index == len(places) - 1)
            if most is not None and index >= most and len(writer.faults) == faults:
                del writer.spans[spans:]
                writer.at = at
                writer.add_span(size, f"messages[{index}]", None, "good, not shown", SKIPPED)
        if broken is not None:
            writer.unread(writer.stop, "messages", "", broken)
        elif writer.left:
            writer.unread(writer.stop, "messages", "an incomplete message: readers drop it without an error")

    def _frames(self) -> tuple[list[tuple[int, int]], UnreadableField | None]:
        """(start, size) of each inner message, and the error of the bytes after them, if any (DataLogInputStream)."""
        writer, at = self._writer, 0
        frames: list[tuple[int, int]] = []
        while len(writer.data) - at >= LOG_OVERHEAD:
            stored_size = batch_length(writer.data, at)
            if stored_size < MESSAGE_OVERHEAD[0]:
                return frames, UnreadableField("inner_size_too_small", MESSAGE_OVERHEAD[0], stored_size)
            if stored_size > self._cap:
                return frames, UnreadableField("limit_exceeded", self._cap, stored_size)
            if stored_size > len(writer.data) - at - LOG_OVERHEAD:
                break
            frames.append((at, stored_size + LOG_OVERHEAD))
            at += stored_size + LOG_OVERHEAD
        return frames, None

    def _find_shift(self, last: int) -> None:
        """Kafka's absoluteBaseOffset: inner offsets of magic 1 are relative, unless the wrapper's offset is 0."""
        if self._magic == 1:
            self._last = int.from_bytes(self._writer.data[last : last + 8], "big", signed=True)
            self._shift = wrapped(self._offset - self._last, 64) if self._offset else 0

    def _one(self, path: str, start: int, size: int, last: bool) -> None:
        writer = self._writer
        whole = writer.stop
        writer.stop = start + size
        try:
            writer.number(f"{path}offset", 8, self._meaning)
            if last and self._shift is not None and self._offset and self._offset < self._last:
                writer.add_fault("wrapper_offset_too_small", self._last, self._offset)
            writer.number(f"{path}size", 4)
            magic, attributes, _ = _header(writer, path, start, writer.stop)
            if attributes & CODEC_MASK:
                raise UnreadableField("inner_compressed", 0, attributes & CODEC_MASK)
            if magic == 1 and self._append_time is not None:
                note = f"ignored: log append time, {iso_time(self._append_time)}"
                writer.spans[-1] = writer.spans[-1]._replace(note=note)
            _sized(writer, f"{path}key")
            _sized(writer, f"{path}value")
            if writer.left:
                writer.unread(writer.stop, f"{path}spare", "spare bytes: readers ignore them")
        except UnreadableSpan:
            writer.unread(writer.stop, path.rstrip("."))
        except UnreadableField as broken:
            writer.unread(writer.stop, path.rstrip("."), "", broken)
        finally:
            writer.stop = whole

    def _meaning(self, stored: int) -> str:
        if self._shift is None:
            return "absolute"
        if not self._offset:
            return "read as absolute, as the wrapper's offset is 0"
        return f"relative: offset {wrapped(stored + max(self._shift, 0), 64)}"
