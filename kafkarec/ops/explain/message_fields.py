"""A message of magic 0 or 1, plain or a wrapper, byte by byte (`kafkarec.format.single_fields`)"""

from __future__ import annotations

from kafkarec.format import layout, single_fields
from kafkarec.format.checksum import checksum
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import MessageHeader
from kafkarec.format.single_fields import FieldFault, Fields

from . import value_descriptions
from .batch_fields import checked
from .compression_frames import decompressed
from .spans import SKIPPED, Note, Section, SpanWriter
from .value_descriptions import iso_time

_NOTES: dict[str, Note] = {
    "magic": "LegacyRecord",
    "timestamp": lambda stamp, _: iso_time(stamp),
    "key_length": value_descriptions.sized,
    "value_length": value_descriptions.sized,
}
_OUTER_NOTES = _NOTES | {"offset": "outside of the checksum", "size": "bytes of the message after this field"}
_SPARE = "spare bytes: readers ignore them"


def walk(writer: SpanWriter, length_fault: FieldFault | None, cap: int, most: int | None) -> list[Section]:
    """Writes the spans of the outer message. Returns the section of its inner messages, for a wrapper."""
    data, stop = writer.data, len(writer.data)
    read = single_fields.message(data, 0, stop)
    values = read.values()
    magic = values["magic"]
    crc_note, crc_fault = checked(data, magic, length_fault)
    faults = {"size": length_fault, "crc": crc_fault}
    attributes = values.get("attributes", 0)
    notes = {"crc": crc_note, "attributes": value_descriptions.attributes(attributes, magic)}
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
    content = decompressed(writer, codec, magic, payload_stop, cap) if is_wrapper and not read.fault else None
    writer.unread(stop, "spare", _SPARE)
    if content is None:
        return []
    inner = SpanWriter(content, section=1)
    _add_messages(inner, layout.message_header(data), cap, most)
    writer.faults += inner.faults
    return [Section("decompressed messages", content, tuple(inner.spans))]


def _add_messages(writer: SpanWriter, wrapper: MessageHeader, cap: int, most: int | None) -> None:
    """Writes the messages inside a wrapper: the first `most` and those with a fault field by field."""
    data = writer.data
    frames, fault = single_fields.inner_messages(data, cap)
    shift, shift_fault = single_fields.inner_shift(wrapper, data, frames)

    def offset(stored: int, _: object) -> str:
        if wrapper.magic != 1:
            return "absolute"
        if not wrapper.offset:
            return "read as absolute, as the wrapper's offset is 0"
        return f"relative: offset {wrapped(stored + shift, 64)}"

    append_time = wrapper.attributes & layout.LOG_APPEND_TIME and wrapper.magic
    notes = _NOTES | {"offset": offset}
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
        notes["crc"] = _inner_crc(data, frame, values["crc"])
        notes["attributes"] = value_descriptions.attributes(values["attributes"], int(values["magic"] != 0))
        notes["timestamp"] = _NOTES["timestamp"]
        if append_time and values["magic"] == 1:
            notes["timestamp"] = f"ignored: log append time, {iso_time(wrapper.timestamp)}"
        writer.add_fields(read, notes, frame.stop, path, {"offset": of_last})
        writer.unread(frame.stop, f"{path}.spare", _SPARE)
    if fault:
        writer.unread(len(data), "messages", "", fault)
    writer.unread(len(data), "messages", "an incomplete message: readers drop it without an error")


def _inner_crc(data: memoryview, frame: range, stored: int) -> str:
    """Kafka's iterators do not check it; consumers with check.crcs and `verify` do."""
    start = frame.start + layout.CHECKED_FROM[0]  # that of magic 1 has the same bytes
    computed, note = checksum(data[start : frame.stop], 0), f"CRC-32 of bytes {start} to {frame.stop - 1}"
    if stored == computed:
        return f"{note}: matches"
    return f"{note}\nODD: computed 0x{computed:08x}; readers do not check it, verify does [inner_crc_mismatch]"
