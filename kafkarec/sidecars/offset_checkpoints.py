"""The four `*-checkpoint` files of a data folder: one offset per partition (Kafka: OffsetCheckpointFile)

    0             version
    2             number of entries
    orders 0 55   topic partition offset
    orders 1 12

| file | the offset |
|---|---|
| recovery-point-offset-checkpoint | records below are flushed; after a crash, segments from here on are recovered |
| replication-offset-checkpoint | the high watermark: in-sync replicas have all records below |
| log-start-offset-checkpoint | the log start offset as raised by DeleteRecords or tiering; absent: not raised |
| cleaner-offset-checkpoint | the first offset that the log cleaner has not cleaned |
"""

from __future__ import annotations

from typing import NamedTuple

from .parsing import INT32, INT64, read_table

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
    """{(topic, partition): offset} from the file's bytes; for a repeated partition, its last offset.

    CorruptRecordError (checkpoint_invalid) if Kafka's parser fails too.
    """
    lines, rows = read_table(data, 3, "topic, partition and offset", file)
    offsets = {}
    for n, (topic, partition, offset) in rows:
        name = TopicPartition(topic, lines.integer(n, partition, "the partition", INT32))
        offsets[name] = lines.integer(n, offset, "the offset", INT64)
    return offsets
