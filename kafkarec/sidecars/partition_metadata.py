"""`partition.metadata`: the topic id of a partition folder (Kafka: PartitionMetadataFile, KIP-516).

    version: 0
    topic_id: pmqbwj8JRCSCfzvNTqatEw      16 bytes in URL-safe base64 without padding

It distinguishes a topic from an earlier, deleted one of the same name.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from uuid import UUID

from .parsing import INT32, Lines

NAME = "partition.metadata"
VERSION = 0


class PartitionMetadata(NamedTuple):
    """topic_id as Kafka's tools print it; `.uuid` is the same as a UUID."""

    version: int
    topic_id: str

    @property
    def uuid(self) -> UUID:
        return UUID(bytes=uuid_bytes(self.topic_id) or bytes(16))


_BASE64_UUID = re.compile(r"([\w-]{22})(==)?", re.ASCII)


def uuid_bytes(text: str) -> bytes | None:
    """The 16 bytes of a uuid in a text that Kafka's Uuid.fromString takes; None for any other text."""
    found = _BASE64_UUID.fullmatch(text)
    return base64.urlsafe_b64decode(f"{found[1]}==") if found else None


def topic_id_of(uuid: UUID) -> str:
    """A UUID as Kafka writes it (Uuid.toString)."""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def read(data: bytes, file: str | None = NAME) -> PartitionMetadata:
    """Parses the file's bytes; CorruptRecordError (metadata_invalid) if Kafka's parser fails too."""
    lines = Lines(data, "metadata_invalid", file)
    values = []
    for number, name in enumerate(("version", "topic_id"), 1):
        if len(lines) < number:
            lines.refuse(number, f"the file ends and {name!r} is missing")
        words = lines.words(number, r":\s+")
        if len(words) != 2:  # Kafka does not look at the first one
            lines.refuse(number, f"'{name}: value' is expected")
        values.append(words[1])
    version = lines.integer(1, values[0], "the version", INT32)
    if version < VERSION:  # as in Kafka, later versions are read too, so that a broker can be downgraded
        lines.refuse(1, f"version {version} is below {VERSION}")
    raw = uuid_bytes(values[1])
    if raw is None:
        lines.refuse(2, "the topic id is not 16 bytes in base64")
    if raw == bytes(16):
        lines.refuse(2, "the topic id is all zeros, which Kafka reserves as no topic's id")
    return PartitionMetadata(version, topic_id_of(UUID(bytes=raw)))


def write(topic_id: str | UUID) -> bytes:
    """The file's bytes: two lines, the second without a line end, as Kafka writes them."""
    text = topic_id_of(topic_id) if isinstance(topic_id, UUID) else topic_id
    return f"version: {VERSION}\ntopic_id: {text}".encode()
