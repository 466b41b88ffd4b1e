"""`explain`: reads the offset, the length and the magic, then the fields of that magic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kafkarec.format import layout, single_fields
from kafkarec.format.java_integers import wrapped
from kafkarec.format.single_fields import FieldFault
from kafkarec.read.decode_options import checked_bytes
from kafkarec.support.text_table import counted

from .batch_fields import add_batch, add_message
from .spans import Explanation, Note, Section, Span, SpanWriter, codec_text

_LEAST_SIZE = layout.MESSAGE_OVERHEAD[0]
_ZEROS = re.compile(rb"\0*")
_EMPTY = "zeros"  # the path of their span


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
    view = checked_bytes(data)
    if not 0 <= position <= len(view):
        raise ValueError(f"position {position}: outside the {len(view)} bytes of data")
    view = view[position:]
    size, fault = len(view), None  # how many bytes are explained, and what is wrong with the length
    if size >= layout.LOG_OVERHEAD:
        length = layout.batch_length(view)
        if length < _LEAST_SIZE:
            fault = FieldFault("size_too_small", _LEAST_SIZE, length)
        elif length > layout.MAX_BATCH_LENGTH:
            fault = FieldFault("size_overflow", layout.MAX_BATCH_LENGTH, length)
        elif length + layout.LOG_OVERHEAD > size:
            fault = FieldFault("length_beyond_end", length + layout.LOG_OVERHEAD, size)
        else:
            size = length + layout.LOG_OVERHEAD
    view = view[:size]
    writer, sections = SpanWriter(view), list[Section]()
    zeros = next(_ZEROS.finditer(view)).end()  # at the start
    magic = view[layout.V2_AT.magic] if size >= layout.UP_TO_MAGIC else None
    # Offset, size, checksum and magic of 0: no writer writes that, though it looks like a message of magic 0.
    if not size or zeros >= min(size, layout.UP_TO_MAGIC) >= layout.LOG_OVERHEAD:
        note = "space that was preallocated and never written, or sectors that were lost"
        writer.add_unread(zeros, _EMPTY, note, FieldFault("size_too_small", _LEAST_SIZE, 0) if size else None)
        writer.add_unread(size, "rest", "the rest, which was not overwritten")
    elif magic in layout.BATCH_MAGICS:
        sections = add_batch(writer, fault, max_decompressed_bytes, records)
    elif magic in layout.MAGICS:
        sections = add_message(writer, fault, max_decompressed_bytes, records)
    else:
        read = single_fields.start(view, 0, size)
        if read.fault:
            read = read._replace(fault=FieldFault("length_beyond_end", layout.LOG_OVERHEAD, size))
        signed = read.values().get("magic")
        unknown = None if signed is None else FieldFault("unsupported_magic", layout.LATEST_MAGIC, signed)
        writer.add_fields(read, _NOTES, size, faults={"batch_length": fault, "magic": unknown}, rest="batch")
        writer.add_unread(size, *(("batch", "too few bytes to read its magic") if signed is None else ("rest",)))
    faults = tuple(sorted(writer.faults, key=lambda found: (found.section, found.position)))
    all_sections = Section("batch", view, tuple(writer.spans)), *sections
    return Explanation(position, size, _headline(writer.spans, size), all_sections, faults)


_NOTES: dict[str, Note] = {
    "base_offset": "outside of the checksum",
    "batch_length": "bytes of the batch after this field",
    "crc_or_leader_epoch": "depends on the magic",
}


def _headline(spans: Sequence[Span], explained: int) -> str:
    """A summary of the batch's own spans. explained: how many bytes they are"""
    if not spans:
        return "nothing: the bytes end here"
    size = counted(explained, "byte")
    if spans[0].path == _EMPTY:
        rest = explained - spans[0].length
        return f"{counted(spans[0].length, 'zero byte')} and no batch" + (
            f", then {counted(rest, 'byte')}" if rest else ""
        )
    values = {span.path: span.value for span in spans if "." not in span.path}
    magic = values.get("magic")
    if "last_offset_delta" in values:
        first = values["base_offset"]
        last = wrapped(first + values["last_offset_delta"], 64)
        count = values.get("record_count")
        records = "" if count is None else ", " + counted(count, "record")
        codec = codec_text(int(values["attributes"], 16))
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        return f"batch of magic {magic}, {offsets}{records}, codec {codec}, {size}"
    if "offset" in values and "attributes" in values:
        codec = codec_text(int(values["attributes"], 16))
        kind = "message" if codec == "none" else "wrapper message"
        return f"{kind} of magic {magic}, offset {values['offset']}, codec {codec}, {size}"
    return f"{size}, not a complete batch"
