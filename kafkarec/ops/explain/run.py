"""`explain`: reads the offset, the length and the magic, then the fields of that magic."""

from __future__ import annotations

from typing import Any

from kafkarec._core import checksums_of

from . import batch_fields, damage_hints, message_fields, value_words
from .spans import Broken, Explanation, Section, SpanWriter

_PREFIX, _UP_TO_MAGIC, _LEAST_SIZE, _MOST_SIZE = 12, 17, 14, 2**31 - 1 - 12


def explain(
    data: Any, position: int = 0, *, max_decompressed_bytes: int = 128 << 20, records: int | None = None
) -> Explanation:
    """Every byte of the batch at `position` of `data`, as spans without a gap.

    data: any buffer
    position: where a batch begins or is expected
    records: how many records (or inner messages) are shown field by field, None: all. Those with a fault always are

    Never raises for bad bytes: errors are in `.faults`, and reading continues as far as possible. If the length field
    is invalid, all bytes up to the end of `data` are explained: pass `data` up to the next good batch. ValueError for a
    position outside of `data`.
    """
    view = memoryview(data)
    view = view.cast("B") if view.nbytes else memoryview(b"")
    if not 0 <= position <= len(view):
        raise ValueError(f"position {position}: not within the {len(view)} bytes given")
    view = view[position:]
    size, fault = _extent(view)
    view = view[:size]
    writer = SpanWriter(view)
    zeros = _leading_zeros(view)
    # Offset, size, checksum and magic of 0: no writer writes that, though it looks like a message of magic 0.
    if not size or zeros >= min(size, _UP_TO_MAGIC) >= _PREFIX:
        return _zeros(writer, position, zeros)
    sections = _walk(writer, fault, max_decompressed_bytes, records)
    faults = tuple(sorted(writer.faults, key=lambda found: (found.section, found.position)))
    found = Explanation(position, size, "", (Section("batch", view, tuple(writer.spans)), *sections), faults)
    return Explanation(position, size, _headline(found), found.sections, faults, tuple(_hints(found)))


def _extent(view: memoryview) -> tuple[int, Broken | None]:
    """(bytes to explain, the error of the length field)."""
    left = len(view)
    if left < _PREFIX:
        return left, None
    claimed = int.from_bytes(view[8:12], "big", signed=True)
    if claimed < _LEAST_SIZE:
        return left, Broken("size_too_small", _LEAST_SIZE, claimed)
    if claimed > _MOST_SIZE:
        return left, Broken("size_overflow", _MOST_SIZE, claimed)
    if claimed + _PREFIX > left:
        return left, Broken("length_beyond_end", claimed + _PREFIX, left)
    return claimed + _PREFIX, None


def _leading_zeros(view: memoryview) -> int:
    piece = 1 << 16
    for start in range(0, len(view), piece):
        data = bytes(view[start : start + piece])
        if any(data):
            return start + len(data) - len(data.lstrip(b"\0"))
    return len(view)


def _zeros(writer: SpanWriter, position: int, zeros: int) -> Explanation:
    size = writer.left
    if not size:
        return Explanation(position, 0, "nothing: the bytes end here", (Section("batch", writer.data, ()),))
    whole = zeros == size
    note = "sectors that were never written, or lost"
    if whole:
        note = "space that was preallocated and never written, or sectors that were lost"
    writer.unread(zeros, "zeros", note, Broken("size_too_small", _LEAST_SIZE, 0))
    headline = f"{value_words.plural(size, 'zero byte', 'zero bytes')} and no batch"
    if not whole:
        writer.unread(writer.stop, "rest", "what is left of what stood here")
        behind = value_words.plural(size - zeros, "byte", "bytes")
        headline = value_words.plural(zeros, "zero byte", "zero bytes")
        headline += f" where a batch should begin, and {behind} behind"
    section = Section("batch", writer.data, tuple(writer.spans))
    return Explanation(position, size, headline, (section,), tuple(writer.faults))


def _walk(writer: SpanWriter, fault: Broken | None, cap: int, records: int | None) -> list[Section]:
    magic = writer.data[16] if len(writer.data) >= _UP_TO_MAGIC else None
    try:
        base = "offset" if magic in (0, 1) else "base_offset"
        writer.number(base, 8, "outside of the checksum")
        behind = "bytes of the {} behind this field".format("message" if magic in (0, 1) else "batch")
        writer.number("size" if magic in (0, 1) else "batch_length", 4, behind)
    except Broken as broken:
        writer.unread(writer.stop, "batch", "", Broken("length_beyond_end", _PREFIX, len(writer.data), broken.detail))
        return []
    if fault is not None:
        writer.add_fault(fault.reason, fault.expected, fault.found)
    if magic in (0, 1):
        return message_fields.walk(writer, fault is None, cap, records)
    if magic == 2:
        return batch_fields.walk(writer, fault is None, cap, records)
    return _unknown_magic(writer, magic)


def _unknown_magic(writer: SpanWriter, magic: int | None) -> list[Section]:
    if magic is None:
        writer.unread(writer.stop, "batch", "too few bytes to tell its magic")
        return []
    writer.add_span(4, "crc_or_leader_epoch", f"0x{int.from_bytes(writer.data[12:16], 'big'):08x}", "by magic")
    signed = magic - 256 if magic > 127 else magic
    writer.add_span(1, "magic", signed)
    writer.add_fault("unsupported_magic", 2, signed)
    writer.unread(writer.stop, "rest")
    return []


def _headline(found: Explanation) -> str:
    values = {span.path: span.value for span in found.spans if "." not in span.path}
    magic, size = values.get("magic"), value_words.plural(found.size, "byte", "bytes")
    if magic == 2 and "last_offset_delta" in values:
        first = values["base_offset"]
        last = value_words.wrapped(first + values["last_offset_delta"])
        count = values.get("record_count")
        records = "" if count is None else ", " + value_words.plural(count, "record", "records")
        codec = value_words.codec(int(values["attributes"], 16))
        return f"batch of magic 2, offsets {first} to {last}{records}, codec {codec}, {size}"
    if magic in (0, 1) and "attributes" in values:
        codec = value_words.codec(int(values["attributes"], 16))
        kind = "message" if codec == "none" else "wrapper message"
        return f"{kind} of magic {magic}, offset {values['offset']}, codec {codec}, {size}"
    return f"{size} that are no whole batch"


def _hints(found: Explanation) -> list[str]:
    view = found.sections[0].data
    magic = view[16] if len(view) >= _UP_TO_MAGIC else -1
    reasons = {fault.reason: fault for fault in found.faults if fault.section == 0}
    if "crc_mismatch" in reasons:
        field, start = (17, 21) if magic == 2 else (12, 16)
        stored = int.from_bytes(view[field : field + 4], "big")
        computed = checksums_of(view[start:])[0 if magic == 2 else 2]
        return list(damage_hints.of_checksum(view, magic, stored, computed, field, start))
    if reasons.keys() & {"size_too_small", "size_overflow", "length_beyond_end"} and len(view) > _PREFIX:
        return list(damage_hints.of_length(view, int.from_bytes(view[8:12], "big", signed=True), magic))
    return []
