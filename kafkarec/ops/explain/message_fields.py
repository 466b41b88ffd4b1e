"""A message of magic 0 or 1, plain or a wrapper, byte by byte.

    offset  bytes  field
         0      8  offset              plain: its own; wrapper: the offset of its last inner message
         8      4  size                bytes behind this field
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

from kafkarec._core import checksums_of
from kafkarec.codecs import CodecError, decompress

from . import compression_frames, value_words
from .batch_fields import blame_codec
from .spans import SKIPPED, Broken, Section, SpanWriter, UnreadableSpan, joined
from .value_words import CODEC_MASK, LOG_APPEND_TIME, moment

CRC_FROM, OVERHEAD, PREFIX = 16, 14, 12
LATEST_CODEC = 3


def walk(pen: SpanWriter, whole: bool, cap: int, most: int | None) -> list[Section]:
    """The outer message from its crc on. Returns the section of its inner messages, where it is a wrapper."""
    data = pen.data
    offset = int.from_bytes(data[:8], "big", signed=True)
    try:
        magic, attributes, timestamp = _header(pen, "", 0, pen.stop if whole else None)
    except Broken as broken:
        pen.unread(pen.stop, "message", "", broken)
        return []
    codec = attributes & CODEC_MASK
    try:
        _sized(pen, "key")
        if not codec:
            _sized(pen, "value")
            return []
        if codec > LATEST_CODEC:
            pen.number("value_length", 4, value_words.sized)
            raise Broken("unsupported_codec", LATEST_CODEC, codec)
        return _wrapper(pen, codec, offset, magic, attributes, timestamp, cap, most)
    except UnreadableSpan:
        pen.unread(pen.stop, "message")
    except Broken as broken:
        pen.unread(pen.stop, "message", "", broken)
    finally:
        if pen.left:
            pen.unread(pen.stop, "spare", "spare bytes: readers ignore them")
    return []


def _header(pen: SpanWriter, path: str, start: int, stop: int | None) -> tuple[int, int, int]:
    """(magic, attributes, timestamp) of the message whose offset field is at `start`; `stop`: check the crc."""
    stored = pen.number(f"{path}crc", 4, "CRC-32", signed=False, show=lambda v: f"0x{v:08x}")
    if stop is None:
        pen.spans[-1] = pen.spans[-1]._replace(note="CRC-32; cannot be checked, as bytes of the message are missing")
    else:
        _compare(pen, path, stored, start + CRC_FROM, stop)
    magic = pen.number(f"{path}magic", 1, "LegacyRecord")
    attributes = pen.number(
        f"{path}attributes", 1, lambda v: value_words.message_attributes(v & 0xFF, magic), show=lambda v: f"0x{v & 0xFF:02x}"
    )
    timestamp = pen.number(f"{path}timestamp", 8, moment) if magic else -1
    return magic, attributes, timestamp


def _compare(pen: SpanWriter, path: str, stored: int, start: int, stop: int) -> None:
    computed = checksums_of(pen.data[start:stop])[2]
    note = f"CRC-32 of bytes {start} to {stop - 1}"
    span = pen.spans[-1]
    if stored == computed:
        pen.spans[-1] = span._replace(note=f"{note}: matches")
    elif path:
        # Kafka's readers do not look at it when they iterate; consumers with check.crcs and `verify` do.
        odd = f"ODD: computed 0x{computed:08x}; readers do not check it, verify does [inner_crc_mismatch]"
        pen.spans[-1] = span._replace(note=joined(note, odd))
    else:
        pen.spans[-1] = span._replace(note=note)
        pen.blame("crc_mismatch", stored, computed)


def _sized(pen: SpanWriter, path: str) -> None:
    """A key or a value with its int32 length."""
    length = pen.number(f"{path}_length", 4, value_words.sized)
    if length > pen.left:
        pen.blame("message_truncated", length, pen.left)
        raise UnreadableSpan
    if length > 0:
        pen.payload(path, length)


def _wrapper(
    pen: SpanWriter, codec: int, offset: int, magic: int, attributes: int, timestamp: int, cap: int, most: int | None
) -> list[Section]:
    length = pen.number("value_length", 4, value_words.sized)
    if length > pen.left:
        pen.blame("message_truncated", length, pen.left)
        raise UnreadableSpan
    if length < 0:
        pen.blame("wrapper_value_null", 0, length)
        return []
    start, whole = pen.at, pen.stop
    pen.stop = start + length
    content: Any = None
    refusal: CodecError | None = None
    try:
        content = decompress(codec, bytes(pen.data[start : pen.stop]), cap, 0, magic)
    except CodecError as error:
        refusal = error
    inside = None if content is None else memoryview(bytes(content))
    compression_frames.walk(pen, codec, None if inside is None else len(inside))
    pen.stop = whole
    if refusal is not None:
        blame_codec(pen, start, refusal)
    if inside is None:
        return []
    inner = SpanWriter(inside, section=1)
    _Inner(inner, offset, magic, attributes, timestamp, cap).walk(most)
    pen.faults += inner.faults
    return [Section("decompressed messages", inside, tuple(inner.spans))]


class _Inner:
    """The messages inside of a wrapper."""

    def __init__(self, pen: SpanWriter, offset: int, magic: int, attributes: int, timestamp: int, cap: int) -> None:
        self._pen, self._cap = pen, cap
        self._offset, self._magic = offset, magic
        self._append_time = timestamp if magic and attributes & LOG_APPEND_TIME else None
        self._shift: int | None = None
        self._last = 0

    def walk(self, most: int | None) -> None:
        pen = self._pen
        places, broken = self._frames()
        if not places and broken is None:
            broken = Broken("wrapper_empty", 1, 0)
        if places:
            self._find_shift(places[-1][0])
        for index, (at, size) in enumerate(places):
            spans, faults = len(pen.spans), len(pen.faults)
            self._one(f"messages[{index}].", at, size, index == len(places) - 1)
            if most is not None and index >= most and len(pen.faults) == faults:
                del pen.spans[spans:]
                pen.at = at
                pen.lay(size, f"messages[{index}]", None, "good, not shown", SKIPPED)
        if broken is not None:
            pen.unread(pen.stop, "messages", "", broken)
        elif pen.left:
            pen.unread(pen.stop, "messages", "a cut message: readers drop it in silence")

    def _frames(self) -> tuple[list[tuple[int, int]], Broken | None]:
        """(start, size) of each inner message, and what stands behind them if that is an error (DataLogInputStream)."""
        pen, at = self._pen, 0
        found: list[tuple[int, int]] = []
        while len(pen.data) - at >= PREFIX:
            claimed = int.from_bytes(pen.data[at + 8 : at + 12], "big", signed=True)
            if claimed < OVERHEAD:
                return found, Broken("inner_size_too_small", OVERHEAD, claimed)
            if claimed > self._cap:
                return found, Broken("limit_exceeded", self._cap, claimed)
            if claimed > len(pen.data) - at - PREFIX:
                break
            found.append((at, claimed + PREFIX))
            at += claimed + PREFIX
        return found, None

    def _find_shift(self, last: int) -> None:
        """Kafka's absoluteBaseOffset: inner offsets of magic 1 are relative, unless the wrapper's offset is 0."""
        if self._magic == 1:
            self._last = int.from_bytes(self._pen.data[last : last + 8], "big", signed=True)
            self._shift = value_words.wrapped(self._offset - self._last) if self._offset else 0

    def _one(self, path: str, start: int, size: int, last: bool) -> None:
        pen = self._pen
        whole = pen.stop
        pen.stop = start + size
        try:
            pen.number(f"{path}offset", 8, self._meaning)
            if last and self._shift is not None and self._offset and self._offset < self._last:
                pen.blame("wrapper_offset_too_small", self._last, self._offset)
            pen.number(f"{path}size", 4)
            magic, attributes, _ = _header(pen, path, start, pen.stop)
            if attributes & CODEC_MASK:
                raise Broken("inner_compressed", 0, attributes & CODEC_MASK)
            if magic == 1 and self._append_time is not None:
                pen.spans[-1] = pen.spans[-1]._replace(note=f"ignored: log append time, {moment(self._append_time)}")
            _sized(pen, f"{path}key")
            _sized(pen, f"{path}value")
            if pen.left:
                pen.unread(pen.stop, f"{path}spare", "spare bytes: readers ignore them")
        except UnreadableSpan:
            pen.unread(pen.stop, path.rstrip("."))
        except Broken as broken:
            pen.unread(pen.stop, path.rstrip("."), "", broken)
        finally:
            pen.stop = whole

    def _meaning(self, stored: int) -> str:
        if self._shift is None:
            return "absolute"
        if not self._offset:
            return "taken as absolute, as the wrapper's offset is 0"
        return f"relative: offset {value_words.wrapped(stored + max(self._shift, 0))}"
