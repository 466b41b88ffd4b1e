"""The lines of records and of messages of magic 0 and 1, and the mismatches that follow all files

    | offset: 7 CreateTime: 1700000000000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value

The inner messages of a wrapper are read as magic 0 if their magic is 0, otherwise as magic 1 (DeepRecordsIterator).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkarec import codecs
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control, layout, single_fields
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.java_integers import INT_MAX, wrapped
from kafkarec.format.layout import CODEC_MASK, KEY_AT, LATEST_CODECS, MESSAGE_AT, message_header
from kafkarec.format.message_schemas import ZERO_UUID
from kafkarec.format.messages import java_text
from kafkarec.format.single_fields import FieldFault
from kafkarec.internal_topics.dump_text import json_text
from kafkarec.read.decode_options import MAX_DECOMPRESSED_BYTES

from .batch_lines import BOOL, DumpedBatch


class _MismatchKind(NamedTuple):
    """Heading and line of one kind of mismatch. descending: order by the first number; None: in order of addition."""

    heading: str
    line: str
    descending: bool | None


# In the order in which they are printed.
_SECTIONS = {
    "index_mismatch": _MismatchKind("Mismatches in :{}", "  Index offset: {}, log offset: {}", True),
    "time_mismatch": _MismatchKind("Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}", None),
    "time_order": _MismatchKind(
        "Found out of order timestamp in :{}", "  Index timestamp: {}, Previously indexed timestamp: {}", None
    ),
    "offset_missing": _MismatchKind(
        "The following indexed offsets are not found in :{}", "Indexed offset: {}, found log offset: {}", None
    ),
    "not_consecutive": _MismatchKind("Non-consecutive offsets in {}", "  {} is followed by {}", False),
}


class Mismatches:
    """All mismatches of one run, of each kind by file in the order of the run. A pair of numbers takes 16 bytes."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, tuple[array[int], array[int]]]] = {kind: {} for kind in _SECTIONS}

    def add(self, kind: str, path: str, first: int, second: int) -> None:
        """Adds the two numbers of a line under the heading of `path` (absolute)."""
        firsts, seconds = self._found[kind].setdefault(path, (array("q"), array("q")))
        firsts.append(first)
        seconds.append(second)

    def lines(self) -> Iterator[str]:
        for kind, section in _SECTIONS.items():
            for path, columns in self._found[kind].items():
                yield section.heading.format(path)
                pairs: Iterable[tuple[int, int]] = zip(*columns, strict=True)
                in_order = section.descending is None or (
                    not section.descending and all(a < b for a, b in pairwise(columns[0]))
                )
                if not in_order:  # of a number that is listed twice Kafka's TreeMap keeps the last pair
                    pairs = sorted(dict(pairs).items(), reverse=bool(section.descending))
                for first, second in pairs:
                    yield section.line.format(first, second)


class ConsecutiveCheck:
    """Checks that a file's record offsets increase by one. Kafka 4.3 starts at -1, so the first record of every segment
    that does not begin at 0 is reported, too."""

    def __init__(self, mismatches: Mismatches, path: str) -> None:
        self._mismatches = mismatches
        self._path = path
        self._last = -1

    def check(self, offset: int) -> None:
        if offset != self._last + 1 and offset != wrapped(self._last + 1, 64):
            self._mismatches.add("not_consecutive", self._path, self._last, offset)
        self._last = offset


def control_record_text(key: bytes | None, value: bytes | None) -> str:
    """The text with a leading space; InvalidRecordError if Kafka's classes refuse the record."""
    kind = control.type_id(key)
    if kind not in control.CLASSES:
        return f" controlType: UNKNOWN({kind})"
    name = control.DUMP_NAMES[kind]
    if control.CLASSES[kind] is not control.EndTxnMarker:
        if value is None or len(value) < 2:
            control.parse(key, value)  # refuses it
            raise AssertionError("a message begins with its version")
        # ControlRecordUtils reads every version as 0; the JSON then has the stored version's fields
        stored = int.from_bytes(value[:2], "big", signed=True)
        fields = control.as_json(control.parse(key, bytes(2) + value[2:]))
        del fields["type"], fields["typeId"]
        fields["version"] = stored
        if stored >= 1:
            for voters in ("voters", "grantingVoters"):
                for voter in fields.get(voters, ()) if "leaderId" in fields else ():
                    voter["voterDirectoryId"] = ZERO_UUID
        return f" {name} {json_text(fields)}"
    marker = control.parse(key, value)
    assert isinstance(marker, control.EndTxnMarker)
    return f" {name} {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"


Blob = bytes | None
Decode = Callable[[Blob, Blob, int], tuple[str | None, str | None]]
Row = tuple[int, int | None, Blob, Blob, int | None, Sequence[tuple[str, Blob]]]
"""A record of magic 2: offset, timestamp, key, value, sequence, headers."""


def utf8_texts(key: Blob, value: Blob, offset: int) -> tuple[str | None, str | None]:
    """As Kafka's StringDecoder prints them."""
    try:
        return None if key is None else key.decode(), None if value is None else value.decode()
    except UnicodeDecodeError:
        return None if key is None else java_text(key), None if value is None else java_text(value)


class DumpOptions(NamedTuple):
    """kafka-dump-log's options, and `max_decompressed_bytes` of a batch.

    decode      decoder of keys and values in place of UTF-8 text; implies print_data
    max_bytes   reads only batches that end within this many bytes
    """

    print_data: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = 5 << 20
    max_bytes: int = INT_MAX
    decode: Decode | None = None
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES

    @property
    def decoder(self) -> Decode | None:
        """The decoder of keys and values; None: lines do not show them."""
        return self.decode or (utf8_texts if self.print_data else None)


def record_lines(
    batch: DumpedBatch, rows: Iterable[Row], options: DumpOptions, consecutive: ConsecutiveCheck
) -> Iterator[str]:
    """The lines of the records of a magic 2 batch, joined.

    KafkaRecordError, after the lines before it, for a record that cannot be read, or that its decoder refuses.
    """
    is_control, stamped = batch.header.attributes & layout.CONTROL, batch.timestamp_type
    check, decode, bare = consecutive.check, options.decoder, options.skip_record_metadata
    lines: list[str] = []
    refused = None
    try:
        for offset, timestamp, key, value, sequence, headers in rows:
            check(offset)
            content = ""
            if is_control:
                content = "" if bare else control_record_text(key, value)
            elif decode:
                key_text, value_text = decode(key, value, offset)
                content = content_text(key_text, value_text, bare)
            if not bare:
                content = (
                    f"| offset: {offset} {stamped}: {-1 if timestamp is None else timestamp} "
                    f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)} "
                    f"sequence: {-1 if sequence is None else sequence} "
                    f"headerKeys: [{','.join([name for name, _ in headers]) if headers else ''}]{content}"
                )
            lines.append(f"{content}\n")
    except KafkaRecordError as error:
        refused = error
    yield "".join(lines)
    if refused:
        raise refused


def content_text(key: str | None, value: str | None, bare: bool) -> str:
    """Key and value of a line, after its metadata; `bare`: without metadata, after a bar."""
    text = "" if key is None else f" key: {key}"
    if value is not None:
        text += f" payload: {value}"
    return f"|{text}" if bare and text else text


class _Message(NamedTuple):
    """A message: its offset, its timestamp (-1 in magic 0) or that of its wrapper, and its bytes."""

    offset: int
    timestamp: int
    raw: memoryview


def message_lines(batch: DumpedBatch, options: DumpOptions, consecutive: ConsecutiveCheck) -> Iterator[str]:
    """The lines of a plain message, or of the messages inside a compressed one. KafkaRecordError if a message ends
    before what its line shows of it."""
    metadata, decode = not options.skip_record_metadata, options.decoder
    for message in messages(batch, options.max_decompressed_bytes):
        consecutive.check(message.offset)
        raw, line = message.raw, ""
        if metadata or decode:
            try:
                key_size, key, key_end = _size_and_bytes(raw, KEY_AT[raw[MESSAGE_AT.magic] != 0], bool(decode))
                value_size, value, _ = _size_and_bytes(raw, key_end, bool(decode))
            except struct.error:
                _check_fault(batch, single_fields.message(raw, 0, len(raw)).fault)
                raise
        if metadata:
            stored, computed = batch_checksums(raw, 0)  # that of magic 1 has the same bytes
            line = (
                f"| offset: {message.offset} {batch.timestamp_type}: {message.timestamp} keySize: {key_size} "
                f"valueSize: {value_size} isValid: {BOOL[stored == computed]} crc: {stored}"
            )
        if decode:
            line += content_text(*decode(key, value, message.offset), not metadata)
        yield f"{line}\n"


def messages(batch: DumpedBatch, limit: int) -> Iterator[_Message]:
    """A plain message itself, or the inner messages of a wrapper. `limit`: max decompressed bytes."""
    wrapper = batch.header
    if batch.codec == 0:
        yield _Message(batch.stored_offset, wrapper.timestamp, batch.raw)
        return
    latest = LATEST_CODECS[wrapper.magic]
    read = single_fields.message(batch.raw, 0, len(batch.raw))
    _check_fault(batch, FieldFault("unsupported_codec", latest, batch.codec) if batch.codec > latest else read.fault)
    value = read.values().get("value")
    if value is None:
        batch.refuse(FieldFault("wrapper_value_null"))
    try:
        data = memoryview(codecs.decompress(batch.codec, value, limit, magic=wrapper.magic))
    except codecs.CodecError as error:
        batch.refuse(FieldFault(error.reason, detail=error.detail))
    frames, fault = single_fields.inner_message_ranges(data)
    shift, shift_fault = single_fields.inner_shift(wrapper, data, frames)
    _check_fault(batch, fault or shift_fault)
    append_time = batch.timestamp_type == "LogAppendTime"
    for frame in frames:
        raw = data[frame.start : frame.stop]
        inner = message_header(raw)
        codec = inner.attributes & CODEC_MASK
        _check_fault(batch, FieldFault("inner_compressed", 0, codec) if codec else None)
        timestamp = wrapper.timestamp if append_time and inner.magic == 1 else inner.timestamp
        yield _Message(wrapped(inner.offset + shift, 64), timestamp, raw)


def _check_fault(batch: DumpedBatch, fault: FieldFault | None) -> None:
    if fault:
        batch.refuse(fault)


def _size_and_bytes(raw: memoryview, at: int, with_bytes: bool) -> tuple[int, Blob, int]:
    """(size, bytes, end) of a key or value at byte `at`. struct.error if it is cut."""
    (size,) = struct.unpack_from(">i", raw, at)
    (blob,) = struct.unpack_from(f"{size}s", raw, at + 4) if with_bytes and size >= 0 else (None,)
    return size, blob, at + 4 + max(0, size)
