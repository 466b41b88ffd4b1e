"""Groups of fields: which fields belong together, and the colour of each group in every picture of a batch."""

from __future__ import annotations

import re
from typing import NamedTuple

from kafkarec.format.enums import CODEC_NAMES

from .spans import SKIPPED, UNREAD, Span


class FieldGroup(NamedTuple):
    """`words` for a legend, and the background of its bytes on a light page and on a dark one."""

    words: str
    light: str
    dark: str


GROUPS = {
    "frame": FieldGroup("offset, length, epoch, magic", "#cfe3f7", "#1f4669"),
    "crc": FieldGroup("checksum", "#f8d2dc", "#6b2439"),
    "attributes": FieldGroup("attributes, last offset", "#fde3bd", "#6b4a17"),
    "time": FieldGroup("timestamps", "#d9efd3", "#2a5a26"),
    "producer": FieldGroup("producer", "#e2d8f5", "#4a3a73"),
    "records": FieldGroup("record count", "#f3eba9", "#5f5817"),
    "record": FieldGroup("a record's lengths and differences", "#e4e8ed", "#333a43"),
    "other": FieldGroup("those of the next record", "#cdd4dc", "#48515c"),
    "key": FieldGroup("key", "#bfe8e4", "#14565a"),
    "value": FieldGroup("value", "#ffdccb", "#6e3a22"),
    "header": FieldGroup("headers", "#f0d3f2", "#60316a"),
    "compressed": FieldGroup("compressed", "#ddd8c9", "#4f4a3c"),
    "unread": FieldGroup("cannot be read, or is not used", "#ffffff", "#1d2127"),
    "skipped": FieldGroup("not shown", "#ffffff", "#1d2127"),
}
COLOURS = {name: (group.light, group.dark) for name, group in GROUPS.items()}
_FIELDS = {
    "frame": (
        "base_offset",
        "batch_length",
        "partition_leader_epoch",
        "magic",
        "offset",
        "size",
        "crc_or_leader_epoch",
    ),
    "crc": ("crc",),
    "attributes": ("attributes", "last_offset_delta"),
    "time": ("base_timestamp", "max_timestamp", "timestamp"),
    "producer": ("producer_id", "producer_epoch", "base_sequence"),
    "records": ("record_count",),
    "record": ("key_length", "value_length"),  # of a message
    "key": ("key",),
    "value": ("value",),
    "header": ("headers",),
    "compressed": CODEC_NAMES[1:],
    "unread": ("spare", "records"),
}
_GROUP_OF = {field: group for group, fields in _FIELDS.items() for field in fields}
_INSIDE = re.compile(r"(records|messages)\[(\d+)\]\.(.*)")


def group_of(span: Span) -> str:
    """The group of the span's field, a key of GROUPS."""
    if span.kind in (UNREAD, SKIPPED):
        return "unread" if span.kind == UNREAD else "skipped"
    inside = _INSIDE.fullmatch(span.path)
    field = re.split(r"[.\[]", inside[3] if inside else span.path)[0]
    if inside and inside[1] == "records" and field not in ("key", "value", "headers"):
        return ("record", "other")[int(inside[2]) % 2]
    return _GROUP_OF[field]
