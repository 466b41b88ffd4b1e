"""Reads and writes Kafka's generated messages: bytes to named fields, and back.

    bool, int8        1 byte                          int16, uint16     2 bytes, big-endian
    int32, uint32     4 bytes                         int64, float64    8 bytes
    uuid              16 bytes; here the 22 characters that Kafka prints
    string, bytes     int16 / int32 length, -1 null   flexible: unsigned varint of length + 1, 0 null
    array             int32 count, -1 null            flexible: unsigned varint of count + 1, 0 null
    struct            its fields                      nullable: after one byte, which is negative for null
    tagged fields     flexible only, at a struct's end: unsigned varint count, then tag, size, bytes each (KIP-482)

Accepts and refuses the same bytes as Kafka's generated `read(Readable, version)`. The depth of recursion is that of
the schema table, whatever the bytes are, and a count is compared with the bytes left before it is used. Objects are
counted: Kafka creates one for two bytes of an unknown tagged field and could run out of memory (CVE-2026-111115; for
declared sizes CVE-2022-34917); here the objects of one message are limited to some hundred MB.

The bytes that are written are those of Kafka's generated `write(Writable, cache, version)`: a tagged field only if it
differs from its default, tags in ascending order, unknown ones included.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

from kafkarec.errors import InvalidRecordError, LimitExceededError

from .java_integers import BadVarint, read_unsigned, unsigned_varint, wrapped
from .message_schemas import MessageField, MessageSchema, MessageStruct
from .uuids import uuid_bytes, uuid_text

TAGGED = "_tagged_fields"  # the item with a struct's unknown tagged fields: a list of (tag, bytes)

# The limit of objects of one message: an element of an array counts 1, a struct 8, an unknown tagged field 4.
MAX_OBJECTS = 1 << 21
_STRUCT_COST, _TAG_COST = 8, 4
MAX_TAGS = 10_000  # of one struct, as Kafka 4.4 limits them
LONGEST_STRING = 0x7FFF

_UNDERFLOW: str | None = None  # Java's BufferUnderflowException has no message


class MessageError(InvalidRecordError):
    """Bytes that are no message of their schema.

    kafka: str | None     the message of the exception in Kafka; None: it has none
    what: str             the error text without the numbers
    """

    kafka: str | None = None
    what = ""


def refuse(what: str, kafka: str | None, expected: int | None = None, found: int | None = None) -> NoReturn:
    """Raises MessageError; kafka: the message of the exception in Kafka."""
    sides = ""
    if expected is not None and found is not None:
        sides = f" (at {'most' if found > expected else 'least'} {expected}, found {found})"
    error = MessageError(f"{what}{sides}", reason="message_invalid", expected=expected, found=found)
    error.kafka, error.what = kafka, what
    raise error


class Cursor:
    """A read position in the bytes of one message, how many more objects may be created for it, and, while one is read,
    its version and what is made of its structs: see read_message."""

    __slots__ = ("data", "is_flexible", "make", "objects_left", "pos", "version")
    version: int
    is_flexible: bool
    make: Make | None

    def __init__(self, data: bytes, pos: int = 0, objects: int = MAX_OBJECTS) -> None:
        self.data = data
        self.pos = pos
        self.objects_left = objects

    @property
    def left(self) -> int:
        return len(self.data) - self.pos

    def number(self, form: struct.Struct, name: str, kind: str = "field") -> Any:
        """The number of this form that follows. name, kind: what an error message calls it"""
        start = self.pos
        if form.size > len(self.data) - start:
            refuse(f"the message ends inside of {kind} {name}", _UNDERFLOW, form.size, len(self.data) - start)
        self.pos = start + form.size
        return form.unpack_from(self.data, start)[0]

    def int16(self) -> int:
        value: int = self.number(FIXED["int16"], "number", "a")
        return value

    def unsigned_varint(self) -> int:
        """A varint as a Java int, which may be negative: five bytes at most, excess bits of the fifth are dropped
        (ByteUtils.readUnsignedVarint)."""
        try:
            value, self.pos = read_unsigned(self.data, self.pos, len(self.data))
        except BadVarint as bad:
            if bad.cut:
                refuse("the message ends inside of a varint", _UNDERFLOW, 1, 0)
            refuse(
                "an unsigned varint is longer than 5 bytes",
                "Varint is too long, the most significant bit in the 5th byte is set, "
                f"converted value: {bad.bits_read & 0xFFFFFFFF:x}",
            )
        return wrapped(value, 32)

    def next_bytes(self, size: int, what: str) -> bytes:
        """The next `size` bytes; for a negative size, the error is the one that Java raises."""
        if size < 0:
            refuse(f"{what} has a negative size", str(size), 0, size)
        if size > self.left:
            kafka = f"Error reading byte array of {size} byte(s): only {self.left} byte(s) available"
            refuse(f"{what} is longer than the bytes left", kafka, self.left, size)
        start = self.pos
        self.pos = start + size
        return self.data[start : self.pos]

    def charge(self, objects: int) -> None:
        """Counts objects that are about to be created; LimitExceededError above MAX_OBJECTS."""
        self.objects_left -= objects
        if self.objects_left < 0:
            raise LimitExceededError(
                f"one message has more than {MAX_OBJECTS} elements; it is not read",
                reason="message_too_large",
                expected=MAX_OBJECTS,
            )


Read = Callable[[Cursor, MessageField], Any]
Make = Callable[[MessageStruct, dict[str, Any]], Any]

FIXED = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
    "uuid": struct.Struct(">16s"),
}
"""Type of fixed size -> its bytes."""


# Java replaces an encoded surrogate, whole or cut after two bytes, by one U+FFFD; Python replaces each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """Decodes UTF-8 with the replacement characters that Java puts in place of malformed bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")


def default_of(field: MessageField, version: int) -> Any:
    """The value of a field that is not in the bytes: a new list or struct, else the table's default."""
    if field.is_array:
        return None if field.default is None else []
    if field.struct and field.default is not None:
        return {each.name: default_of(each, version) for each in field.struct.fields if each.is_in(version)}
    return field.default


def read_message(schema: MessageSchema, version: int, cursor: Cursor, make: Make | None = None) -> Any:
    """The fields of the message at `cursor` as a dict in Kafka's order, as Kafka's generated class reads them in any
    version; tagged fields that were not sent have their defaults.

    make: of a struct and the dict of its fields it makes what is read instead. No object is created for unknown tagged
          fields then
    MessageError for bytes that it refuses, LimitExceededError for a message of more than MAX_OBJECTS elements.
    """
    cursor.version, cursor.is_flexible, cursor.make = version, schema.is_flexible(version), make
    return _read_fields(cursor, schema.struct)


# ---- reading


@lru_cache(maxsize=1024)
def _steps(of: MessageStruct, version: int) -> list[tuple[str, Read, MessageField]]:
    """How the fields of a struct are read that a version has."""
    return [
        (field.name, (lambda _, field: default_of(field, version)) if field.tag is not None else _reader(field), field)
        for field in of.fields
        if field.is_in(version)
    ]


def _reader(field: MessageField) -> Read:
    return _read_array if field.is_array else _READERS.get(field.type, _read_struct)


def _read_fields(cursor: Cursor, of: MessageStruct) -> Any:
    if of.last is not None and cursor.version > of.last:
        kafka = f"Can't read version {cursor.version} of {of.name}"
        refuse(f"version {cursor.version} of {of.name} is not known", kafka)
    cursor.charge(_STRUCT_COST)
    fields = {name: read(cursor, field) for name, read, field in _steps(of, cursor.version)}
    if cursor.is_flexible:
        _read_tagged(cursor, of, fields)
    return fields if cursor.make is None else cursor.make(of, fields)


def _read_tagged(cursor: Cursor, of: MessageStruct, fields: dict[str, Any]) -> None:
    count = cursor.unsigned_varint()
    if not 0 <= count <= min(cursor.left, MAX_TAGS):
        kafka = f"Tried to read {count} tagged fields, which exceeds the maximum allowed count of {MAX_TAGS}."
        if count < 0:
            kafka = f"Invalid negative number of tagged fields {count}"
        elif count > cursor.left:
            kafka = f"Tried to read {count} tagged fields, but there are only {cursor.left} bytes remaining."
        refuse("the number of tagged fields is out of range", kafka, max(0, min(cursor.left, MAX_TAGS)), count)
    for _ in range(count):
        tag, size = cursor.unsigned_varint(), cursor.unsigned_varint()
        field = next((field for field in of.fields if field.tag == tag), None)
        if field is None:
            blob = cursor.next_bytes(size, f"tagged field {tag}")
            if cursor.make is None:
                cursor.charge(_TAG_COST)
                fields.setdefault(TAGGED, []).append((tag, blob))
        elif field.is_in(cursor.version):  # as in Kafka, the size before the field is ignored: its own bytes decide
            fields[field.name] = _reader(field)(cursor, field)
        else:
            kafka = f"Tag {tag} is not valid for version {cursor.version}"
            refuse(f"tagged field {tag} does not belong to version {cursor.version} of {of.name}", kafka)


def _read_array(cursor: Cursor, field: MessageField) -> list[Any] | None:
    count = _read_length(cursor, "array")
    if count < 0:
        _demand_nullable(field.name, field.nullable)
        return None
    if count > cursor.left:
        refuse(
            f"array {field.name} declares more elements than bytes are left",
            f"Tried to allocate a collection of size {count}, but there are only {cursor.left} bytes remaining.",
            cursor.left,
            count,
        )
    cursor.charge(count)
    read = _READERS.get(field.type, _read_struct)
    return [read(cursor, field) for _ in range(count)]


def _read_struct(cursor: Cursor, field: MessageField) -> Any:
    assert field.struct is not None
    if field.nullable and not field.is_array:
        marker = cursor.number(FIXED["int8"], "struct", "a") if field.tag is None else cursor.unsigned_varint() - 1
        if marker < 0:
            return None
    return _read_fields(cursor, field.struct)


def _read_sized(cursor: Cursor, field: MessageField) -> Any:
    """A string or bytes."""
    # In Kafka's error messages an element of an array is named by the field's name and " element".
    name = f"{field.name} element" if field.is_array else field.name
    length = _read_length(cursor, field.type)
    if length < 0:
        _demand_nullable(name, field.nullable and not field.is_array)
        return None
    if field.type == "bytes":
        return cursor.next_bytes(length, f"field {name}")
    if length > LONGEST_STRING:
        kafka = f"string field {name} had invalid length {length}"
        refuse(f"string {name} is longer than its type allows", kafka, LONGEST_STRING, length)
    return java_text(cursor.next_bytes(length, f"field {name}"))


def _read_length(cursor: Cursor, of: str) -> Any:
    if cursor.is_flexible:
        return wrapped(cursor.unsigned_varint() - 1, 32)
    return cursor.number(FIXED["int16" if of == "string" else "int32"], "length", "a")


def _demand_nullable(name: str, nullable: bool) -> None:
    if not nullable:
        refuse(f"field {name} is null and must not be", f"non-nullable field {name} was serialized as null")


_READERS: dict[str, Read] = {
    **dict.fromkeys(FIXED, lambda cursor, field: cursor.number(FIXED[field.type], field.name)),
    "uuid": lambda cursor, field: uuid_text(cursor.number(FIXED["uuid"], field.name)),
    "string": _read_sized,
    "bytes": _read_sized,
}
"""Type of a field, or of the elements of an array -> what reads it; else it is a struct."""


# ---- writing


def write_message(schema: MessageSchema, version: int, values: dict[str, Any]) -> bytes:
    """The bytes of a message. ValueError for a value that does not fit its field, KeyError for a missing field."""
    out = bytearray()
    _write_struct(out, schema.struct, version, schema.is_flexible(version), values)
    return bytes(out)


def _write_struct(out: bytearray, of: MessageStruct, version: int, flexible: bool, values: dict[str, Any]) -> None:
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
            _write_value(out, field, version, flexible, element)
        return
    if field.struct and field.nullable:
        if value is None:
            out += b"\x00" if field.tag is not None else b"\xff"
            return
        out += b"\x01"
    _write_value(out, field, version, flexible, value)


def _write_value(out: bytearray, field: MessageField, version: int, flexible: bool, value: Any) -> None:
    if field.struct:
        _write_struct(out, field.struct, version, flexible, value)
    elif field.type in ("string", "bytes"):
        blob = value
        if isinstance(value, str):
            try:
                blob = value.encode()
            except UnicodeEncodeError:
                what = "has half of a surrogate pair, which is not UTF-8"
                raise ValueError(f"the string {field.name} {what}") from None
            if len(blob) > LONGEST_STRING:
                what = f"has {len(blob)} bytes, {LONGEST_STRING} at most are allowed"
                raise ValueError(f"the string {field.name} {what}")
        _write_length(out, field.type, None if blob is None else len(blob), flexible)
        out += blob or b""
    else:
        form = FIXED[field.type]
        try:
            out += form.pack(uuid_bytes(value) if field.type == "uuid" else value)
        except struct.error:
            raise ValueError(f"the value of {field.name} does not fit the {form.size * 8} bits of its field") from None


def _write_length(out: bytearray, of: str, length: int | None, flexible: bool) -> None:
    if flexible:
        out += unsigned_varint(0 if length is None else length + 1)
    else:
        out += FIXED["int16" if of == "string" else "int32"].pack(-1 if length is None else length)
