"""Named fields to the bytes of Kafka's message protocol; `protocol.py` has the table of its bytes.

Writes what Kafka's generated `write(Writable, cache, version)` writes: a tagged field only where it differs from its
default, tags in ascending order, unknown ones among them. For tests, and for whoever makes records.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from kafkarec.write.fields import unsigned_varint

from .protocol import FIXED, TAGGED, default_of
from .schema_notation import MessageField, MessageSchema, Struct


def write_message(schema: MessageSchema, version: int, values: dict[str, Any]) -> bytes:
    """The bytes that Kafka's generated `write` has for these fields. ValueError or KeyError for what does not fit."""
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
        blob = value.encode() if isinstance(value, str) else value
        _write_length(out, field.type, None if blob is None else len(blob), flexible)
        out += blob or b""
    elif field.type == "uuid":
        out += base64.urlsafe_b64decode(value + "==")
    else:
        try:
            out += struct.pack(FIXED[field.type][1], value)
        except struct.error as error:
            raise ValueError(f"{field.name}: {error}") from None


def _write_length(out: bytearray, of: str, length: int | None, flexible: bool) -> None:
    if flexible:
        out += unsigned_varint(0 if length is None else length + 1)
    else:
        out += (-1 if length is None else length).to_bytes(2 if of == "string" else 4, "big", signed=True)
