"""Writes Kafka's generated messages: named fields to bytes. The format is described in `messages.py`.

The bytes are those of Kafka's generated `write(Writable, cache, version)`: a tagged field only if it differs from its
default, tags in ascending order, unknown ones included.
"""

from __future__ import annotations

import struct
from typing import Any

from .message_schemas import MessageField, MessageSchema, Struct
from .messages import FIXED, LONGEST_STRING, TAGGED, default_of, uuid_bytes
from .varints import unsigned_varint


def write_message(schema: MessageSchema, version: int, values: dict[str, Any]) -> bytes:
    """The bytes of a message. ValueError for a value that does not fit its field, KeyError for a missing field."""
    out = bytearray()
    _write_struct(out, schema.struct, version, schema.is_flexible(version), values)
    return bytes(out)


def _write_struct(out: bytearray, of: Struct, version: int, flexible: bool, values: dict[str, Any]) -> None:
    tagged: list[tuple[int, bytes]] = list(values.get(TAGGED, ()))
    for field in of.fields:
        if not field.is_in(version):
            continue
        if field.tag is None:
            _write_field(out, field, version, flexible, values[field.name])
        elif values.get(field.name, default_of(field, version)) != default_of(field, version):
            blob = bytearray()
            _write_field(blob, field, version, flexible, values[field.name])
            tagged.append((field.tag, bytes(blob)))
    if flexible:
        out += unsigned_varint(len(tagged))
        for tag, body in sorted(tagged, key=lambda each: each[0]):
            out += unsigned_varint(tag) + unsigned_varint(len(body)) + body


def _write_field(out: bytearray, field: MessageField, version: int, flexible: bool, value: Any) -> None:
    if field.is_array:
        _write_length(out, "array", None if value is None else len(value), flexible)
        for element in value or ():
            _write_one(out, field, version, flexible, element)
        return
    if field.struct and field.nullable:
        if value is None:
            out += b"\x00" if field.tag is not None else b"\xff"
            return
        out += b"\x01"
    _write_one(out, field, version, flexible, value)


def _write_one(out: bytearray, field: MessageField, version: int, flexible: bool, value: Any) -> None:
    if field.struct:
        _write_struct(out, field.struct, version, flexible, value)
    elif field.type in ("string", "bytes"):
        blob = _utf8(field.name, value) if isinstance(value, str) else value
        _write_length(out, field.type, None if blob is None else len(blob), flexible)
        out += blob or b""
    elif field.type == "uuid":
        out += uuid_bytes(value)
    else:
        size, form = FIXED[field.type]
        try:
            out += struct.pack(form, value)
        except struct.error:
            raise ValueError(f"the value of {field.name} does not fit the {size * 8} bits of its field") from None


def _utf8(name: str, text: str) -> bytes:
    try:
        blob = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the string {name} has half of a surrogate pair, which is not UTF-8") from None
    if len(blob) > LONGEST_STRING:
        raise ValueError(f"the string {name} has {len(blob)} bytes, {LONGEST_STRING} at most are allowed")
    return blob


def _write_length(out: bytearray, of: str, length: int | None, flexible: bool) -> None:
    if flexible:
        out += unsigned_varint(0 if length is None else length + 1)
    else:
        out += (-1 if length is None else length).to_bytes(2 if of == "string" else 4, "big", signed=True)
