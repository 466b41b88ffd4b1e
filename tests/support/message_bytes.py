"""The bytes of records of internal topics, of the fields of their messages."""

from __future__ import annotations

from typing import Any

from kafkarec.format.message_writer import write_message
from kafkarec.format.varints import unsigned_varint
from kafkarec.internal_topics.topics import RecordType, Topic

FRAME_VERSION = 1


def write_key(kind: RecordType, fields: dict[str, Any]) -> bytes:
    """The bytes of the key of a coordinator's record."""
    if kind.key is None or kind.id is None:
        raise ValueError(f"{kind.name} has no key")
    return kind.id.to_bytes(2, "big") + write_message(kind.key, kind.key.last, fields)


def write_value(topic: Topic, kind: RecordType, version: int, fields: dict[str, Any]) -> bytes:
    """The bytes of a record's value: the version or the frame, depending on the topic, and the message."""
    if not kind.value.has_version(version):
        raise ValueError(f"{kind.name} has the versions {kind.value.first} to {kind.value.last}, not {version}")
    body = write_message(kind.value, version, fields)
    if topic.has_keys:
        return version.to_bytes(2, "big") + body
    return b"".join(unsigned_varint(each) for each in (FRAME_VERSION, kind.id or 0, version)) + body
