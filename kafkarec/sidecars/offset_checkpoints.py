"""The four `*-checkpoint` files of a data folder: one offset per partition (Kafka: OffsetCheckpointFile)

    0             version
    2             number of entries
    orders 0 55   topic partition offset
    orders 1 12

| file | the offset |
|---|---|
| recovery-point-offset-checkpoint | flushed up to here: after a crash, segments from here on are recovered |
| replication-offset-checkpoint | the high watermark: in-sync replicas have everything below |
| log-start-offset-checkpoint | DeleteRecords or tiering moved the log's start here; absent: the first segment's base |
| cleaner-offset-checkpoint | the log cleaner went up to here |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .text_files import INT32, INT64, read_table, write_table

NAMES = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class TopicPartition(NamedTuple):
    """A partition's name."""

    topic: str
    partition: int


def read(data: bytes, file: str | None = None) -> dict[TopicPartition, int]:
    """{(topic, partition): offset} from the file's bytes; of a repeated partition the last offset counts.

    CorruptRecordError (checkpoint_invalid) where Kafka's parser fails too.
    """
    lines, rows = read_table(data, 3, "topic, partition and offset", file)
    found = {}
    for n, (topic, partition, offset) in rows:
        name = TopicPartition(topic, lines.integer(n, partition, "the partition", INT32))
        found[name] = lines.integer(n, offset, "the offset", INT64)
    return found


def write(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """The file's bytes, in the mapping's order (the order has no meaning to Kafka)."""
    return write_table(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
