"""The notation of the schema tables (`internal_topics/schemas.py`), its parser, and the classes of schemas.

    1 OffsetCommit                     a record type: its id and name; an id of `-`: none
    key 0                              the key's versions
      group string                     a field and its type
    value 0-4 flexible 4+              versions; from which on lengths are varints and tagged fields follow (KIP-482)
      offset int64
      leaderEpoch int32 3+ =-1         in versions 3 and later; its default, where that is not zero, empty or false
      expireTimestamp int64 1 =-1      in version 1 only
      topicId uuid 4+ @0               a tagged field and its tag
      reason string? =null             a string or null
      members [Member]                 an array; of a struct whose fields follow below its name
      Member:
        memberId string

Types: bool, int8, int16, int32, int64, uint16, uint32, float64, string, bytes, uuid, or a struct of the same message.
The tables have the names, ids, types, versions, tags and defaults of Kafka 4.4's message definitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kafkarec._lazy import cached_property

_ALWAYS = -(1 << 15)  # the first version of a field that its message always had: Kafka's readers check no version then


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field of a message.

    first, last: int       the versions that have it; a `last` of None: all later ones too
    type: str              the type's name; for an array, that of its elements
    struct: MessageStruct | None  the fields of a struct type
    tag: int | None        for a tagged field (KIP-482)
    default: Any           the value if the field is not in the bytes (of a struct: the defaults of its fields)
    """

    name: str
    type: str
    is_array: bool
    struct: MessageStruct | None
    nullable: bool
    first: int
    last: int | None
    tag: int | None
    default: Any

    def is_in(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


@dataclass(frozen=True, slots=True, eq=False)
class MessageStruct:
    """Named fields in the order of the bytes; tagged ones in the order of Kafka's definition.

    last: of a struct inside of a message, the last version in which Kafka reads it. None for the message's own fields:
          their version is checked elsewhere in Kafka, or not at all
    """

    name: str
    fields: tuple[MessageField, ...]
    last: int | None = None


@dataclass(frozen=True)
class MessageSchema:
    """One message: its fields, its first and last version, the first flexible version (None: none is flexible)."""

    struct: MessageStruct
    first: int
    last: int
    flexible_from: int | None

    @property
    def name(self) -> str:
        return self.struct.name

    def has_version(self, version: int) -> bool:
        return self.first <= version <= self.last

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(frozen=True)
class RecordType:
    """A type of records of an internal topic. key: None if Kafka writes no key."""

    id: int | None
    name: str
    key: MessageSchema | None
    value: MessageSchema

    @cached_property
    def constant(self) -> str:
        """The name of Kafka's enum constant: PARTITION_RECORD for PartitionRecord."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).upper()


def parse(table: str) -> dict[str, RecordType]:
    """Record types by name, in the order of the table."""
    record_types: dict[str, RecordType] = {}
    for block in re.split(r"\n(?=[0-9-]+ )", table.strip("\n")):
        head, *parts = re.split(r"\n(?=key |value )", block)
        number, name = head.split()
        *keys, value = (part.split(" ", 1)[1] for part in parts)
        key = _schema(f"{name}Key", keys[0]) if keys else None
        value_schema = _schema(f"{name}Value" if keys else name, value)
        record_types[name] = RecordType(None if number == "-" else int(number), name, key, value_schema)
    return record_types


def _schema(name: str, text: str) -> MessageSchema:
    own, *of_structs = re.split(r"\n  (\w+):\n", text)
    texts = dict(zip(of_structs[::2], of_structs[1::2], strict=True))
    head, *own_lines = own.splitlines()
    versions, *words = head.split()
    first, last = _version_range(versions)
    newest = first if last is None else last
    flexible = int(words[1].rstrip("+")) if words else None
    structs: dict[str, MessageStruct] = {}

    def struct_of(of: str) -> MessageStruct | None:
        if of in texts and of not in structs:
            structs[of] = MessageStruct(of, fields_of(texts[of].splitlines()), newest)
        return structs.get(of)

    def fields_of(lines: list[str]) -> tuple[MessageField, ...]:
        return tuple(_field(line.split(), first, struct_of) for line in lines)

    struct = MessageStruct(name, fields_of(own_lines))
    always = _ALWAYS if flexible == first else flexible
    return MessageSchema(struct, first, newest, always)


def _version_range(text: str) -> tuple[int, int | None]:
    """3+ is (3, None), 1-4 is (1, 4), 2 is (2, 2)."""
    if text.endswith("+"):
        return int(text[:-1]), None
    first, _, last = text.partition("-")
    return int(first), int(last or first)


ZERO_UUID = "A" * 22
_ZERO = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": ZERO_UUID}


def _field(words: list[str], oldest: int, struct_of: Any) -> MessageField:
    name, text, *rest = words
    nullable = text.endswith("?")
    text = text.rstrip("?")
    is_array = text.startswith("[")
    type_name = text.strip("[]")
    first: int = _ALWAYS
    last, tag = None, None
    default: Any = () if is_array else _ZERO.get(type_name, 0)
    for word in rest:
        if word.startswith("@"):
            tag = int(word[1:])
        elif word.startswith("="):
            default = {"null": None, "true": True}.get(word[1:], word[1:])
            default = int(default) if isinstance(default, str) else default
        else:
            first, last = _version_range(word)
            first = _ALWAYS if first == oldest else first
    return MessageField(name, type_name, is_array, struct_of(type_name), nullable, first, last, tag, default)
