"""The internal topics, and how messages are framed in their records.

    coordinators   key    int16 record type | the key message
                   value  int16 version     | the value message         (null: a tombstone)
    the others     value  varint frame version, 1 | varint record type | varint version | the message; the key is null

`__consumer_offsets`, `__transaction_state` and `__share_group_state` are written by coordinators (Kafka's
CoordinatorRecordSerde); `__cluster_metadata` and `__remote_log_metadata` have frames (AbstractApiMessageSerde).
As in Kafka, bytes after the message are ignored in coordinators' records and refused in framed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkarec.format.message_schemas import MessageSchema, RecordType, parse
from kafkarec.format.messages import Cursor, MessageError, read_message, refuse

from .schemas import (
    CONSUMER_PROTOCOL,
    GROUP_COORDINATOR,
    METADATA,
    REMOTE_LOG_METADATA,
    SHARE_COORDINATOR,
    TRANSACTION_COORDINATOR,
)

_FRAME_VERSION = 1
_INT16_MAX = 0x7FFF


class UnknownMessage(MessageError):
    """A record type or version that Kafka 4.4 does not have. It may be that of a later version, not damage."""


def _unknown_error(what: str, kafka: str | None) -> UnknownMessage:
    error = UnknownMessage(f"{what} is not known to Kafka 4.4", reason="message_unknown")
    error.kafka = kafka
    return error


@dataclass(frozen=True)
class Topic:
    """An internal topic: its record types by id, and whether its records have keys (coordinators write them)."""

    name: str
    types: Mapping[int, RecordType]
    has_keys: bool

    def __repr__(self) -> str:
        return f"<Topic {self.name}: {', '.join(each.name for each in self.types.values())}>"

    def type_named(self, name: str) -> RecordType:
        """The record type with this name; ValueError lists the names."""
        for kind in self.types.values():
            if kind.name == name:
                return kind
        names = ", ".join(each.name for each in self.types.values())
        raise ValueError(f"{self.name} has no records {name!r}; there are: {names}")


def _parsed_topic(name: str, table: str, has_keys: bool) -> Topic:
    types = {each.id: each for each in parse(table).values() if each.id is not None}
    return Topic(name, MappingProxyType(types), has_keys)


TOPICS: Mapping[str, Topic] = MappingProxyType(
    {
        topic.name: topic
        for topic in (
            _parsed_topic("__consumer_offsets", GROUP_COORDINATOR, True),
            _parsed_topic("__transaction_state", TRANSACTION_COORDINATOR, True),
            _parsed_topic("__share_group_state", SHARE_COORDINATOR, True),
            _parsed_topic("__cluster_metadata", METADATA, False),
            _parsed_topic("__remote_log_metadata", REMOTE_LOG_METADATA, False),
        )
    }
)
CONSUMER_MESSAGES: Mapping[str, RecordType] = MappingProxyType(parse(CONSUMER_PROTOCOL))


class DecodedMessage(NamedTuple):
    """A decoded key or value: its record type, version and fields."""

    type: RecordType
    version: int
    fields: dict[str, Any]


def _read_int16(cursor: Cursor, name: str) -> int:
    if cursor.left < 2:
        kafka = f"Could not read version from {name}'s buffer."
        refuse(f"the {name} has fewer than two bytes", kafka, 2, cursor.left)
    return cursor.int16()


def _read_message(schema: MessageSchema, version: int, cursor: Cursor, name: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = read_message(schema, version, cursor)
    except MessageError as error:
        inner = "null" if error.kafka is None else error.kafka
        error.kafka = f"Could not read record with version {version} from {name}'s buffer due to: {inner}."
        raise
    return fields


def read_key(topic: Topic, key: bytes) -> DecodedMessage:
    """The key of a coordinator's record. Its version is the record type's id, which Kafka uses as the version."""
    cursor = Cursor(key)
    kind = _read_int16(cursor, "key")
    record_type = topic.types.get(kind)
    if record_type is None or record_type.key is None:
        raise _unknown_error(f"record type {kind} of {topic.name}", None)
    return DecodedMessage(record_type, kind, _read_message(record_type.key, kind, cursor, "key"))


def read_value(kind: RecordType, value: bytes) -> DecodedMessage:
    """The value of a coordinator's record; kind: the record type, from its key."""
    cursor = Cursor(value)
    version = _read_int16(cursor, "value")
    if not kind.value.has_version(version):
        kafka = f"Found an unknown record version {version} for {kind.id} type"
        raise _unknown_error(f"version {version} of {kind.value.name}", kafka)
    return DecodedMessage(kind, version, _read_message(kind.value, version, cursor, "value"))


def _read_varint_as_int16(cursor: Cursor, name: str) -> int:
    try:
        value = cursor.unsigned_varint()
    except MessageError as error:
        error.kafka = f"Error while reading {name}"
        raise
    if value > _INT16_MAX:
        refuse(f"the {name} is too large", f"Value for {name} was too large.", _INT16_MAX, value)
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)  # Java's cast to short


def read_framed(topic: Topic, value: bytes, any_version: bool = False) -> DecodedMessage:
    """The message in a framed value. any_version: the version is not checked, as Kafka does not check it."""
    cursor = Cursor(value)
    frame = _read_varint_as_int16(cursor, "frame version")
    if frame != _FRAME_VERSION:
        refuse(f"frame version {frame} is not {_FRAME_VERSION}", _FRAME_REFUSALS.get(frame, _FRAME_REFUSED % frame))
    kind_id, version = _read_varint_as_int16(cursor, "type"), _read_varint_as_int16(cursor, "version")
    kind = topic.types.get(kind_id)
    if kind is None:
        raise _unknown_error(f"record type {kind_id} of {topic.name}", f"{_UNSUPPORTED}: Unknown metadata id {kind_id}")
    if not any_version and not kind.value.has_version(version):
        raise _unknown_error(f"version {version} of {kind.name}", None)
    try:
        fields = read_message(kind.value, version, cursor)
    except MessageError as error:
        error.kafka = f"Failed to deserialize record with type {kind_id}"
        raise
    if cursor.left:
        kafka = f"Found {cursor.left} byte(s) of garbage after {kind_id}"
        refuse(f"bytes are left after the {kind.name}", kafka, 0, cursor.left)
    return DecodedMessage(kind, version, fields)


_UNSUPPORTED = "org.apache.kafka.common.errors.UnsupportedVersionException"
_FRAME_REFUSED = (
    "Could not deserialize metadata record due to unknown frame version %d(only frame version 1 is supported)"
)
_FRAME_REFUSALS = {
    0: "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of "
    "KRaft in 2.8 to newer versions are not supported."
}
