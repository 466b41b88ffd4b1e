"""`partition.metadata`: the topic id of a partition folder (Kafka: PartitionMetadataFile, KIP-516).

    version: 0
    topic_id: pmqbwj8JRCSCfzvNTqatEw      16 bytes in URL-safe base64 without padding

It distinguishes a topic from an earlier, deleted one of the same name.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kafkarec.format.uuids import uuid_bytes, uuid_text

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
    return PartitionMetadata(version, uuid_text(raw))


def write(topic_id: str | UUID) -> bytes:
    """The file's bytes: two lines, the second without a line end, as Kafka writes them."""
    text = uuid_text(topic_id.bytes) if isinstance(topic_id, UUID) else topic_id
    return f"version: {VERSION}\ntopic_id: {text}".encode()
