"""Kafka's message protocol: bytes to named fields. `serialize.py` writes them.

    bool, int8        1 byte                          int16, uint16     2 bytes, big-endian
    int32, uint32     4 bytes                         int64, float64    8 bytes
    uuid              16 bytes; here the 22 characters that Kafka prints
    string, bytes     int16 / int32 length, -1 null   flexible: unsigned varint of length + 1, 0 null
    array             int32 count, -1 null            flexible: unsigned varint of count + 1, 0 null
    struct            its fields                      nullable: a byte in front, negative for null
    tagged fields     flexible only, at a struct's end: unsigned varint count, then tag, size, bytes each (KIP-482)

Reads what Kafka's generated `read(Readable, version)` reads, and refuses what it refuses. Nothing on the wire makes
the reader recurse (a struct's depth is that of the table) and no count is believed before the bytes are there.
Objects are counted too: Kafka turns two bytes of an unknown tagged field into an object and has fallen over that
(CVE-2026-111115, and CVE-2022-34917 for claimed sizes); here one message makes at most some hundred MB of them.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

from kafkarec.errors import InvalidRecordError, LimitExceededError
from kafkarec.format.control import java_text

from .schema_notation import MessageField, MessageSchema, Struct

TAGGED = "_tagged_fields"  # where a struct's unknown tagged fields are kept: a list of (tag, bytes)

# What one message may become: an element of an array counts 1, a struct 8, an unknown tagged field 4.
MOST_OBJECTS = 1 << 21
_STRUCT_COST, _TAG_COST = 8, 4

_UNDERFLOW: str | None = None  # Java's BufferUnderflowException has no message


class MessageError(InvalidRecordError):
    """Bytes that are no message of their schema. `kafka` is the text of the exception Kafka throws (None: none)."""

    kafka: str | None = None


def refuse(what: str, kafka: str | None, expected: int | None = None, found: int | None = None) -> NoReturn:
    """Raises MessageError; `kafka` is what Kafka's exception says in its place."""
    sides = ""
    if expected is not None and found is not None:
        sides = f" (at {'most' if found > expected else 'least'} {expected}, found {found})"
    error = MessageError(f"{what}{sides}", reason="message_invalid", expected=expected, found=found)
    error.kafka = kafka
    raise error


def _int32(value: int) -> int:
    """Java's int: 32 bits that wrap around."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Cursor:
    """A place in the bytes of one message."""

    __slots__ = ("data", "objects_left", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos
        self.objects_left = MOST_OBJECTS

    @property
    def left(self) -> int:
        return len(self.data) - self.pos

    def number(self, size: int, unpack: Callable[[bytes, int], tuple[Any, ...]], what: str = "a number") -> Any:
        start = self.pos
        if size > len(self.data) - start:
            refuse(f"the message ends inside of {what}", _UNDERFLOW, size, len(self.data) - start)
        self.pos = start + size
        return unpack(self.data, start)[0]

    def int16(self, what: str = "a number") -> int:
        value: int = self.number(2, _INT16, what)
        return value

    def unsigned_varint(self) -> int:
        """A Java int: five bytes at most, the excess bits of the fifth are dropped (ByteUtils.readUnsignedVarint)."""
        value = 0
        data = self.data
        for shift in (0, 7, 14, 21, 28):
            if self.pos >= len(data):
                refuse("the message ends inside of a varint", _UNDERFLOW, 1, 0)
            byte = data[self.pos]
            self.pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _int32(value)
        bits = (value & 0x0FFFFFFF) | ((byte - 256) << 28) & 0xFFFFFFFF
        refuse(
            "an unsigned varint is longer than 5 bytes",
            f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {bits:x}",
        )

    def array(self, size: int, what: str) -> bytes:
        """`size` bytes; as Java, a negative size is an error of its own."""
        if size < 0:
            refuse(f"{what} has a negative size", str(size), 0, size)
        if size > self.left:
            kafka = f"Error reading byte array of {size} byte(s): only {self.left} byte(s) available"
            refuse(f"{what} is longer than the bytes left", kafka, self.left, size)
        start = self.pos
        self.pos = start + size
        return self.data[start : self.pos]

    def charge(self, objects: int) -> None:
        """Counts what is about to be made."""
        self.objects_left -= objects
        if self.objects_left < 0:
            raise LimitExceededError(
                f"one message holds more than {MOST_OBJECTS} elements; it is not read",
                reason="message_too_large",
                expected=MOST_OBJECTS,
            )


Read = Callable[[Cursor], Any]

_INT16 = struct.Struct(">h").unpack_from
FIXED: dict[str, tuple[int, str]] = {
    "bool": (1, ">?"),
    "int8": (1, ">b"),
    "int16": (2, ">h"),
    "uint16": (2, ">H"),
    "int32": (4, ">i"),
    "uint32": (4, ">I"),
    "int64": (8, ">q"),
    "float64": (8, ">d"),
    "uuid": (16, ">16s"),
}


def uuid_text(blob: bytes) -> str:
    """Kafka's Uuid.toString: base64 for URLs, unpadded."""
    return base64.urlsafe_b64encode(blob).rstrip(b"=").decode()


def _fixed_reader(of: str, name: str) -> Read:
    size, form = FIXED[of]
    unpack = struct.Struct(form).unpack_from
    what = f"field {name}"
    if of == "uuid":
        return lambda cursor: uuid_text(cursor.number(size, unpack, what))
    return lambda cursor: cursor.number(size, unpack, what)


def _length_reader(of: str, flexible: bool) -> Callable[[Cursor], int]:
    if flexible:
        return lambda cursor: _int32(cursor.unsigned_varint() - 1)
    size, form = (2, ">h") if of == "string" else (4, ">i")
    unpack = struct.Struct(form).unpack_from
    return lambda cursor: int(cursor.number(size, unpack, "a length"))


def _text(blob: bytes) -> str:
    try:
        return blob.decode()
    except UnicodeDecodeError:
        return java_text(blob)


def _null(name: str, nullable: bool) -> None:
    if not nullable:
        refuse(f"field {name} is null and must not be", f"non-nullable field {name} was serialized as null")


def _string_reader(name: str, nullable: bool, flexible: bool) -> Read:
    length_of = _length_reader("string", flexible)

    def read(cursor: Cursor) -> str | None:
        length = length_of(cursor)
        if length < 0:
            _null(name, nullable)
            return None
        if length > 0x7FFF:
            kafka = f"string field {name} had invalid length {length}"
            refuse(f"string {name} is longer than its type allows", kafka, 0x7FFF, length)
        return _text(cursor.array(length, f"field {name}"))

    return read


def _bytes_reader(name: str, nullable: bool, flexible: bool) -> Read:
    length_of = _length_reader("bytes", flexible)

    def read(cursor: Cursor) -> bytes | None:
        length = length_of(cursor)
        if length < 0:
            _null(name, nullable)
            return None
        return cursor.array(length, f"field {name}")

    return read


def _array_reader(name: str, nullable: bool, flexible: bool, element: Read) -> Read:
    length_of = _length_reader("array", flexible)

    def read(cursor: Cursor) -> list[Any] | None:
        count = length_of(cursor)
        if count < 0:
            _null(name, nullable)
            return None
        if count > cursor.left:
            refuse(
                f"array {name} claims more elements than bytes are left",
                f"Tried to allocate a collection of size {count}, but there are only {cursor.left} bytes remaining.",
                cursor.left,
                count,
            )
        cursor.charge(count)
        return [element(cursor) for _ in range(count)]

    return read


def _struct_reader(of: Struct, version: int, flexible: bool, nullable: bool, tagged: bool) -> Read:
    read = plan(of, version, flexible)
    if not nullable:
        return read
    if tagged:
        return lambda cursor: read(cursor) if cursor.unsigned_varint() > 0 else None
    return lambda cursor: read(cursor) if cursor.number(1, _INT8, "a struct") >= 0 else None


_INT8 = struct.Struct(">b").unpack_from


def _reader(field: MessageField, version: int, flexible: bool) -> Read:
    nullable = field.nullable and not field.is_array
    if field.struct:
        read = _struct_reader(field.struct, version, flexible, nullable, field.tag is not None)
    elif field.type == "string":
        read = _string_reader(field.name, nullable, flexible)
    elif field.type == "bytes":
        read = _bytes_reader(field.name, nullable, flexible)
    else:
        read = _fixed_reader(field.type, field.name)
    if field.is_array:
        # Kafka names the element in its messages by the field's name and " element".
        if field.type in ("string", "bytes"):
            make = _string_reader if field.type == "string" else _bytes_reader
            read = make(f"{field.name} element", False, flexible)
        return _array_reader(field.name, field.nullable, flexible, read)
    return read


def default_of(field: MessageField, version: int) -> Any:
    """What a field holds where the bytes do not have it: a new list or struct, else the table's default."""
    if field.is_array:
        return None if field.default is None else []
    if field.struct and field.default is not None:
        return {each.name: default_of(each, version) for each in field.struct.fields if each.is_in(version)}
    return field.default


@lru_cache(maxsize=1024)
def plan(of: Struct, version: int, flexible: bool) -> Read:
    """The reader of a struct in one version: a dict of its fields in Kafka's order, tagged ones with their defaults."""
    present = [field for field in of.fields if field.is_in(version)]
    steps: list[tuple[str, Read]] = []
    for field in present:
        if field.tag is None:
            steps.append((field.name, _reader(field, version, flexible)))
        elif field.struct or field.is_array:
            steps.append((field.name, lambda _, field=field: default_of(field, version)))  # type: ignore[misc]
        else:
            steps.append((field.name, lambda _, value=field.default: value))  # type: ignore[misc]
    tags = {field.tag: (field.name, _reader(field, version, flexible)) for field in present if field.tag is not None}
    from_elsewhere = {field.tag for field in of.fields if field.tag is not None} - set(tags)

    def read(cursor: Cursor) -> dict[str, Any]:
        if of.last is not None and version > of.last:
            refuse(f"version {version} of {of.name} is not known", f"Can't read version {version} of {of.name}")
        cursor.charge(_STRUCT_COST)
        found = {name: step(cursor) for name, step in steps}
        if flexible:
            _read_tagged(cursor, found)
        return found

    def _read_tagged(cursor: Cursor, found: dict[str, Any]) -> None:
        unknown: list[tuple[int, bytes]] = []
        for _ in range(cursor.unsigned_varint()):  # negative in Java: none
            tag, size = cursor.unsigned_varint(), cursor.unsigned_varint()
            if tag in tags:  # as Kafka, the field's own bytes count, not the size in front of them
                name, step = tags[tag]
                found[name] = step(cursor)
            elif tag in from_elsewhere:
                kafka = f"Tag {tag} is not valid for version {version}"
                refuse(f"tagged field {tag} does not belong to version {version} of {of.name}", kafka)
            else:
                cursor.charge(_TAG_COST)
                unknown.append((tag, cursor.array(size, f"tagged field {tag}")))
        if unknown:
            found[TAGGED] = unknown

    return read


def read_message(schema: MessageSchema, version: int, cursor: Cursor) -> dict[str, Any]:
    """The fields of a message from `cursor` on, as Kafka's generated class reads them in any version.

    MessageError for bytes that it refuses, LimitExceededError for a message of absurdly many elements.
    """
    found: dict[str, Any] = plan(schema.struct, version, schema.is_flexible(version))(cursor)
    return found
