"""The fields of a batch or message, byte by byte (`kafkarec.format.single_fields`), of its records and of the frame of
a compressed payload: its magic, the sizes and checksums that it declares, and the compressed bytes.

    gzip    1f 8b | header 8 | deflate data | crc32 4 | size 4                                        RFC 1952
    snappy  82 "SNAPPY" 00 | versions 8 | blocks                                                     snappy-java
    lz4     04 22 4d 18 | FLG, BD 2 | [content size 8] | checksum 1 | blocks | 0 4 | [checksum 4]
    zstd    28 b5 2f fd | descriptor 1 | [window 1] | [dictionary] | [content size] | blocks | [checksum 4]

Numbers of a frame are little-endian. Whether a payload is valid is decided by `kafkarec.codecs`.

What Kafka's readers (DefaultRecordBatch) refuse is a fault; what is odd but accepted is a note. After an unreadable
record the next one is read at the end given by its length, so one wrong byte affects one record only.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from kafkarec.codecs import CodecError, check_stream_start, decompress
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control, layout, single_fields
from kafkarec.format.checksum import batch_checksums, checksum
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.java_integers import increment_sequence, wrapped
from kafkarec.format.layout import MessageHeader, V2Header
from kafkarec.format.single_fields import FieldFault, Fields, ReadField
from kafkarec.support.text_table import counted

from .spans import PAYLOAD, SKIPPED, Note, Section, SpanWriter, attributes_text, iso_time, join_notes, length_note

_Parts = dict[str, int]
"""The sizes of the parts before or after the compressed bytes; 0: there is no such part."""


def add_payload(
    writer: SpanWriter, codec: int, magic: int, stop: int, cap: int, *, only_start: bool = False
) -> memoryview | None:
    """Writes the spans of a payload up to byte `stop`. Returns its content; None if it has a fault, or if only its
    beginning is checked (`only_start`)."""
    first, payload = len(writer.spans), bytes(writer.data[writer.at : stop])
    content = fault = None
    try:
        if only_start:
            check_stream_start(codec, payload, cap)
        else:
            content = memoryview(decompress(codec, payload, cap, magic))
    except CodecError as error:
        fault = FieldFault(error.reason, detail=error.detail)
    name = CODEC_NAMES[codec]
    head, tail = _FRAMES[codec](payload) if codec in _FRAMES else ({}, {})
    if content is None:
        tail = {}  # where the compressed bytes end is not known
    if not head or sum(head.values()) + sum(tail.values()) > len(payload):
        head, tail = {}, {}
    _add_parts(writer, name, head)
    data_stop = stop - sum(tail.values())
    writer.add_span(data_stop, f"{name}.data", bytes(writer.data[writer.at : data_stop]), "", PAYLOAD)
    writer.add_fault(fault)
    _add_parts(writer, name, tail)
    note = f"{name}: {len(payload)} bytes"
    if content is not None:
        note += f", {len(content)} decompressed"
        note += f" ({len(content) / len(payload):.2f} to 1)" if payload else ""
    span = writer.spans[first]
    writer.spans[first] = span._replace(note=join_notes(note, span.note))
    return content


def _add_parts(writer: SpanWriter, name: str, parts: _Parts) -> None:
    for part, size in parts.items():
        data = bytes(writer.data[writer.at : writer.at + size])
        if size:
            value = int.from_bytes(data, "little") if part.endswith("size") else data.hex(" ")
            writer.add_span(writer.at + size, f"{name}.{part}", value)


def _lz4_head_and_tail(payload: bytes) -> tuple[_Parts, _Parts]:
    if not payload.startswith(b"\x04\x22\x4d\x18") or len(payload) < 5:
        return {}, {}
    flags = payload[4]
    head = {"magic": 4, "descriptor": 2, "content_size": flags & 8, "header_checksum": 1}
    tail = {"end_mark": 4, "content_checksum": flags & 4}
    is_end = payload[-4 - tail["content_checksum"] :][:4] == bytes(4)  # else bytes follow the frame
    return head, tail if is_end else {}


def _zstd_head_and_tail(payload: bytes) -> tuple[_Parts, _Parts]:
    if not payload.startswith(b"\x28\xb5\x2f\xfd") or len(payload) < 5:
        return {}, {}
    flags = payload[4]
    is_single_segment = bool(flags & 0x20)
    head = {
        "magic": 4,
        "descriptor": 1,
        "window": not is_single_segment,
        "dictionary_id": (0, 1, 2, 4)[flags & 3],
        "content_size": (is_single_segment, 2, 4, 8)[flags >> 6],
    }
    return head, {"checksum": flags & 4}


_FRAMES: dict[int, Callable[[bytes], tuple[_Parts, _Parts]]] = {
    1: lambda data: ({"magic": 2, "header": 8} if data.startswith(b"\x1f\x8b") else {}, {"crc32": 4, "size": 4}),
    2: lambda data: ({"magic": 8, "versions": 8} if data.startswith(b"\x82SNAPPY\0") else {}, {}),
    3: _lz4_head_and_tail,
    4: _zstd_head_and_tail,
}


def add_records(writer: SpanWriter, head: V2Header, most: int | None, trusted: bool) -> None:
    """Writes all records up to the end: the first `most` and those with a fault field by field, runs of others as one
    span each. `trusted`: the checksum is right, so control records are what their batch says."""
    data, at, first_skipped = writer.data, writer.at, 0
    sequenced = head.producer_id >= 0 and head.base_sequence >= 0

    def timestamp_note(delta: int, _: object) -> str:
        if head.attributes & layout.LOG_APPEND_TIME:
            return f"ignored: log append time, {iso_time(head.max_timestamp)}"
        stamp = wrapped(head.base_timestamp + delta, 64)
        return f"timestamp {stamp}, {iso_time(stamp)}"

    def offset_note(delta: int, _: object) -> str:
        sequence = f", sequence {increment_sequence(head.base_sequence, delta)}" if sequenced else ""
        return f"offset {wrapped(head.base_offset + delta, 64)}{sequence}"

    notes = _RECORD_NOTES | {"timestamp_delta": timestamp_note, "offset_delta": offset_note}
    is_control = trusted and bool(head.attributes & layout.CONTROL)
    for index in range(head.record_count):
        read = single_fields.record(data, at, len(data)) if at < len(data) else None
        if read and read.stop is not None and not read.fault and most is not None and index >= most:
            at = read.stop
            continue
        _add_skipped(writer, at, first_skipped, index - 1)
        first_skipped = index + 1
        path = f"records[{index}]"
        if read is None:
            writer.add_span(at, path, None, "the bytes end here")
            writer.add_fault(FieldFault("records_missing", head.record_count, index))
            return
        stop = len(data) if read.stop is None else read.stop
        parts, more_notes = _control_parts(read) if is_control else (read, {})
        writer.add_fields(parts, notes | more_notes, stop, path)
        if read.stop is None:
            return
        at = stop
    _add_skipped(writer, at, first_skipped, head.record_count - 1)
    if writer.left and head.record_count:
        writer.add_unread(len(data), "records", "", FieldFault("records_left_over", head.record_count, writer.left))
    elif writer.left:
        writer.add_unread(len(data), "records", f"{writer.left} bytes after a record count of 0: readers ignore them")


def _add_skipped(writer: SpanWriter, stop: int, first: int, last: int) -> None:
    """One span for good records that are not shown, if there are any."""
    if first <= last:
        path = f"records[{first}]" if first == last else f"records[{first}..{last}]"
        writer.add_span(stop, path, None, f"{counted(last - first + 1, 'good record')}, not shown", SKIPPED)


_KINDS = {int(kind): kind.name for kind in control.ControlRecordType if kind >= 0}
_RECORD_NOTES: dict[str, Note] = {
    "attributes": lambda value, _: "unused, but set: ignored" if value else "unused",
    "key_length": length_note,
    "value_length": length_note,
    ".value_length": length_note,  # of a header
    "key.type": lambda kind, _: _KINDS.get(kind, "unknown to Kafka 4.4: ignored"),
    "key.rest": "added by a newer version, or not a control key",
    "value.coordinator_epoch": "epoch of the transaction coordinator",
}


def _control_parts(read: Fields) -> tuple[Fields, dict[str, Note]]:
    """A control record with the parts of its key and value as fields, and what it says as the note of its length."""
    record, text = None, ""
    if not read.fault:
        try:
            record = control.parse(*map(read.values().get, ("key", "value")))
            text = json.dumps(control.as_json(record))
        except KafkaRecordError as error:
            text = f"ODD: {error}"
    sizes = {"key": {"version": 2, "type": 2}, "value": {"version": 2}}
    if isinstance(record, control.EndTxnMarker):
        sizes["value"]["coordinator_epoch"] = 4
    parts: list[ReadField] = []
    for field in read.fields:
        name, end, left, _ = field
        if name not in sizes:
            parts.append(field)
            continue
        if sum(sizes[name].values()) <= len(left):
            for part, size in sizes[name].items():
                left, number = left[size:], int.from_bytes(left[:size], "big", signed=True)
                parts.append((f"{name}.{part}", end - len(left), number, False))
        parts.append((f"{name}.{'rest' if name == 'key' else 'message'}", end, left, False))
    return read._replace(fields=parts), {"length": text}


def add_batch(writer: SpanWriter, length_fault: FieldFault | None, cap: int, most_records: int | None) -> list[Section]:
    """Writes the spans of the batch. `length_fault`: of its length field, which then does not tell where it ends.

    Returns the section of the decompressed payload, if there is one; its faults are added to the writer's.
    """
    stop = len(writer.data)
    read = single_fields.header(writer.data, 0, stop)
    crc_note, crc_fault = checksum_note(writer.data, layout.BATCH_MAGIC, length_fault)
    notes: dict[str, Note] = _BATCH_NOTES | {"crc": crc_note}
    faults = {"batch_length": length_fault, "crc": crc_fault}
    if read.fault:
        too_small = FieldFault("batch_too_small", layout.V2_OVERHEAD, stop)
        writer.add_fields(read._replace(fault=too_small), notes, stop, faults=faults, rest="header")
        return []
    head = V2Header(**read.values())
    if head.record_count < 0:
        faults["record_count"] = FieldFault("record_count_negative", 0, head.record_count)
    elif not head.record_count and writer.left == layout.V2_OVERHEAD:
        notes["record_count"] = "empty: all of its records were compacted away"
    writer.add_fields(read, notes, stop, faults=faults)
    codec = head.attributes & layout.CODEC_MASK
    if head.record_count < 0:
        writer.add_unread(stop, "records")
    elif codec > layout.LATEST_CODEC:
        writer.add_unread(stop, "records", "", FieldFault("unsupported_codec", layout.LATEST_CODEC, codec))
    elif not codec:
        add_records(writer, head, most_records, trusted=crc_fault is None)
    else:
        # As in Kafka, only the stream header is read of a batch without records.
        content = add_payload(writer, codec, layout.BATCH_MAGIC, stop, cap, only_start=not head.record_count)
        if content is not None:
            inner = SpanWriter(content, section=1)
            add_records(inner, head, most_records, trusted=crc_fault is None)
            writer.faults += inner.faults
            return [Section("decompressed records", content, tuple(inner.spans))]
    return []


def checksum_note(data: memoryview, magic: int, length_fault: FieldFault | None) -> tuple[str, FieldFault | None]:
    """(note, fault) of the checksum of a batch or outer message that fills the data."""
    name, what = ("CRC-32C", "batch") if magic >= layout.BATCH_MAGIC else ("CRC-32", "message")
    if length_fault is not None or len(data) <= layout.CHECKED_FROM[magic]:
        return f"{name}; cannot be checked, as bytes of the {what} are missing", None
    stored, computed = batch_checksums(data, magic)
    note = f"{name} of bytes {layout.CHECKED_FROM[magic]} to {len(data) - 1} of the {what}"
    if stored == computed:
        return f"{note}: matches", None
    return note, FieldFault("crc_mismatch", stored, computed)


def _last_offset_note(delta: int, read: Fields) -> str:
    last = wrapped(read.values()["base_offset"] + delta, 64)
    return f"last offset {last}, the next batch begins at {wrapped(last + 1, 64)} or later"


def _none_note(what: str, otherwise: str = "") -> Note:
    """`what` for -1, which means none."""
    return lambda value, _: what if value == -1 else otherwise


_BATCH_NOTES: dict[str, Note] = {
    "base_offset": "outside of the checksum",
    "batch_length": "bytes of the batch after this field",
    "partition_leader_epoch": _none_note("none", "the leader's epoch when it was appended; outside of the checksum"),
    "magic": "DefaultRecordBatch; outside of the checksum",
    "attributes": lambda value, _: attributes_text(value, layout.BATCH_MAGIC),
    "last_offset_delta": _last_offset_note,
    "base_timestamp": lambda stamp, read: (
        f"{'delete horizon: ' if read.values()['attributes'] & layout.DELETE_HORIZON else ''}{iso_time(stamp)}"
    ),
    "max_timestamp": lambda stamp, _: iso_time(stamp),
    "producer_id": _none_note("no idempotent producer"),
    "producer_epoch": _none_note("none"),
    "base_sequence": _none_note("none"),
}


_MESSAGE_NOTES: dict[str, Note] = {
    "magic": "LegacyRecord",
    "timestamp": lambda stamp, _: iso_time(stamp),
    "key_length": length_note,
    "value_length": length_note,
}
_OUTER_NOTES = _MESSAGE_NOTES | {"offset": "outside of the checksum", "size": "bytes of the message after this field"}
_SPARE = "spare bytes: readers ignore them"


def add_message(writer: SpanWriter, length_fault: FieldFault | None, cap: int, most: int | None) -> list[Section]:
    """Writes the spans of the outer message. Returns the section of its inner messages, for a wrapper."""
    data, stop = writer.data, len(writer.data)
    read = single_fields.message(data, 0, stop)
    values = read.values()
    magic = values["magic"]
    crc_note, crc_fault = checksum_note(data, magic, length_fault)
    faults = {"size": length_fault, "crc": crc_fault}
    attributes = values.get("attributes", 0)
    notes = {"crc": crc_note, "attributes": attributes_text(attributes, magic)}
    codec, latest = attributes & layout.CODEC_MASK, layout.LATEST_CODECS[magic]
    *before, (last, payload_stop, *_) = read.fields
    is_wrapper = codec and last == "value"
    if is_wrapper:
        read = read._replace(fields=before)
    elif 0 < codec <= latest and values.get("value_length", 0) < 0:
        faults["value_length"] = FieldFault("wrapper_value_null", 0, values["value_length"])
    if codec > latest and "value_length" in values:
        read = read._replace(fault=FieldFault("unsupported_codec", latest, codec), of_last=False)
    writer.add_fields(read, _OUTER_NOTES | notes, stop, faults=faults, rest="message")
    content = add_payload(writer, codec, magic, payload_stop, cap) if is_wrapper and not read.fault else None
    writer.add_unread(stop, "spare", _SPARE)
    if content is None:
        return []
    inner = SpanWriter(content, section=1)
    _add_messages(inner, layout.message_header(data), cap, most)
    writer.faults += inner.faults
    return [Section("decompressed messages", content, tuple(inner.spans))]


def _add_messages(writer: SpanWriter, wrapper: MessageHeader, cap: int, most: int | None) -> None:
    """Writes the messages inside a wrapper: the first `most` and those with a fault field by field."""
    data = writer.data
    frames, fault = single_fields.inner_message_ranges(data, cap)
    shift, shift_fault = single_fields.inner_shift(wrapper, data, frames)

    def offset_note(stored: int, _: object) -> str:
        if wrapper.magic != 1:
            return "absolute"
        if not wrapper.offset:
            return "read as absolute, as the wrapper's offset is 0"
        return f"relative: offset {wrapped(stored + shift, 64)}"

    append_time = wrapper.attributes & layout.LOG_APPEND_TIME and wrapper.magic
    notes = _MESSAGE_NOTES | {"offset": offset_note}
    for index, frame in enumerate(frames):
        read = single_fields.message(data, frame.start, frame.stop)
        values = read.values()
        codec = values["attributes"] & layout.CODEC_MASK
        if codec:
            kept = [field for field in read.fields if not field[0].startswith(("key", "value"))]
            read = Fields(kept, frame.stop, FieldFault("inner_compressed", 0, codec), False)
        of_last = shift_fault if index == len(frames) - 1 else None
        path = f"messages[{index}]"
        if most is not None and index >= most and not read.fault and not of_last:
            writer.add_span(frame.stop, path, None, "good, not shown", SKIPPED)
            continue
        start = frame.start + layout.CHECKED_FROM[0]  # that of magic 1 has the same bytes
        computed, crc_note = checksum(data[start : frame.stop], 0), f"CRC-32 of bytes {start} to {frame.stop - 1}"
        if values["crc"] == computed:
            crc_note += ": matches"
        else:  # Kafka's iterators do not check it; consumers with check.crcs and `verify` do
            crc_note += f"\nODD: computed 0x{computed:08x}; readers do not check it, verify does [inner_crc_mismatch]"
        notes["crc"] = crc_note
        notes["attributes"] = attributes_text(values["attributes"], int(values["magic"] != 0))
        notes["timestamp"] = _MESSAGE_NOTES["timestamp"]
        if append_time and values["magic"] == 1:
            notes["timestamp"] = f"ignored: log append time, {iso_time(wrapper.timestamp)}"
        writer.add_fields(read, notes, frame.stop, path, {"offset": of_last})
        writer.add_unread(frame.stop, f"{path}.spare", _SPARE)
    if fault:
        writer.add_unread(len(data), "messages", "", fault)
    writer.add_unread(len(data), "messages", "an incomplete message: readers drop it without an error")
