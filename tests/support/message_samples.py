"""Records of internal topics: the bytes of given fields; random ones from the schema tables, of every type in every
version; and random damage to bytes."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkarec.format.java_integers import unsigned_varint
from kafkarec.format.message_schemas import MessageField, MessageStruct, RecordType
from kafkarec.format.messages import TAGGED, default_of, write_message
from kafkarec.internal_topics.topics import CONSUMER_MESSAGES, TOPICS, Topic

FLAGS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
}
_FRAME_VERSION = 1
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "topic-1", "grün", '\u2028\x7f\x00\x1f"\\\n\t\b\f\r/', "\U0001f600", "x" * 3, "x" * 130)
_DOUBLES = (
    0.0,
    -0.0,
    1.5,
    1e7,
    1e-3,
    1234567.0,
    12345678.0,
    1e300,
    1048576.0,
    float("nan"),
    float("inf"),
    float("-inf"),
)


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
    return b"".join(unsigned_varint(each) for each in (_FRAME_VERSION, kind.id or 0, version)) + body


class Sample(NamedTuple):
    """A record: its type and version, its bytes, the fields they were made from."""

    topic: Topic
    type: RecordType
    version: int
    key: bytes | None
    value: bytes
    key_fields: dict[str, Any] | None
    value_fields: dict[str, Any]


class Maker:
    """Makes random fields of any schema; the same seed makes the same fields."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def scalar(self, type_: str):
        pick = self.random.choice
        if type_ in _BITS:
            high = 1 << (_BITS[type_] - 1)
            return pick([0, 1, -1, high - 1, -high, self.random.randrange(-high, high), self.random.randrange(100)])
        if type_ == "uuid":
            return base64.urlsafe_b64encode(self.random.randbytes(16)).rstrip(b"=").decode()
        if type_ == "bytes":
            return self.random.randbytes(pick([0, 1, 5, 40]))
        return pick(
            {
                "string": _TEXTS,
                "bool": (False, True),
                "uint16": (0, 65535, 9092),
                "float64": (*_DOUBLES, self.random.random() * 1e9),
            }[type_]
        )

    def value(self, field: MessageField, version: int):
        if field.nullable and self.random.random() < 0.25:
            return None
        if field.tag is not None and self.random.random() < 0.3:
            return default_of(field, version)
        if field.is_array:
            return [self.one(field, version) for _ in range(self.random.choice([0, 1, 1, 2, 5]))]
        return self.one(field, version)

    def one(self, field: MessageField, version: int):
        return self.fields(field.struct, version) if field.struct else self.scalar(field.type)

    def fields(self, of: MessageStruct, version: int) -> dict[str, Any]:
        return {field.name: self.value(field, version) for field in of.fields if field.is_in(version)}

    def record(self, topic: Topic, kind: RecordType, version: int) -> Sample:
        value = self.fields(kind.value.struct, version)
        if kind.value.is_flexible(version) and self.random.random() < 0.2:
            value[TAGGED] = [(90, b""), (5000, self.random.randbytes(130))]
        if kind.name == "GroupMetadata":
            self._consumers(value)
        self._make_plausible(value)
        key = self.fields(kind.key.struct, 0) if kind.key else None
        key_bytes = None if key is None else write_key(kind, key)
        return Sample(topic, kind, version, key_bytes, write_value(topic, kind, version, value), key, value)

    def _consumers(self, group: dict[str, Any]):
        """Give the group members of the consumer protocol, some with a wrong version."""
        group["protocolType"] = self.random.choice(["consumer", "consumer", "connect"])
        for member in group["members"]:
            for name in ("subscription", "assignment"):
                message = CONSUMER_MESSAGES[f"ConsumerProtocol{name.capitalize()}"].value
                version = self.random.randrange(4)
                body = write_message(message, version, self.fields(message.struct, version))
                said = self.random.choice([version, version, 9, -1])
                member[name] = said.to_bytes(2, "big", signed=True) + body

    def _make_plausible(self, fields: dict[str, Any]):
        """Change most remote log metadata so that Kafka's classes accept it."""
        if self.random.random() < 0.2:
            return
        for name in ("remoteLogSegmentState", "remotePartitionDeleteState"):
            if name in fields:
                fields[name] = self.random.randrange(3)
        if "endOffset" in fields:
            fields["startOffset"] = abs(fields["startOffset"]) % 1000
            fields["endOffset"] = fields["startOffset"] + 5

    def spoil(self, blob: bytes) -> bytes:
        """Return the bytes cut, lengthened, overwritten or with a wrong varint inserted."""
        out = bytearray(blob)
        way = self.random.random()
        if way < 0.15 and len(out) > 2:
            out[self.random.choice([1, 2])] = self.random.choice([0, 1, 2, 3, 4, 5, 6, 9, 0x7F])
        elif way < 0.4:
            del out[self.random.randrange(len(out) + 1) :]
        elif way < 0.5:
            out += self.random.randbytes(self.random.choice([1, 2, 9]))
        elif way < 0.6:
            at = self.random.randrange(len(out) + 1)
            out[at:at] = b"\xff" * self.random.choice([1, 4, 5]) + bytes([self.random.choice([0, 8, 15, 0x7F])])
        else:
            for _ in range(self.random.choice([1, 1, 2, 4])):
                if out:
                    out[self.random.randrange(len(out))] = self.random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, 0xFE, 0x41])
        return bytes(out)


def kinds() -> Iterator[tuple[Topic, RecordType, int]]:
    """Yield every record type in every version."""
    for topic in TOPICS.values():
        for kind in topic.types.values():
            for version in range(kind.value.first, kind.value.last + 1):
                yield topic, kind, version
