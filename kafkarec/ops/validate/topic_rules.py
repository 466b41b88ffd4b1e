"""What the topic and the sender of a request demand, checked once."""

from __future__ import annotations

import time
from typing import NamedTuple

from kafkarec.codecs import checked_level
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.write.fields import checked_magic, fitting

ORIGINS = ("client", "replication", "coordinator", "raft_leader")
"""Who appends (Kafka: AppendOrigin). A client's batches are held to more than the others'."""

NO_LIMIT = 2**63 - 1


class Rules(NamedTuple):
    """For one request. `magic` and `codec` are those of the batches that are wanted."""

    magic: int
    codec: int
    level: int | None
    create_time: bool
    compacted: bool
    before_ms: int
    after_ms: int
    leader_epoch: int
    from_client: bool
    now: int
    first_offset: int
    limit: int

    @property
    def timestamp_type(self) -> int:
        return 0 if self.create_time else 1


class Wanted(NamedTuple):
    """The same before the request is seen: None is "as it comes"."""

    magic: int | None
    codec: int | None
    level: int | None
    rest: Rules

    def of(self, magic: int, codec: int) -> Rules:
        """The rules for a request of this magic and codec."""
        codec = codec if self.codec is None else self.codec
        return self.rest._replace(
            magic=magic if self.magic is None else self.magic,
            codec=codec,
            level=None if self.level is None else checked_level(codec, self.level),
        )


def wanted(
    *,
    magic: int | None,
    compression: Compression | str | None,
    level: int | None,
    timestamp_type: TimestampType | str,
    timestamp_before_max_ms: int | None,
    timestamp_after_max_ms: int | None,
    compacted: bool,
    partition_leader_epoch: int,
    origin: str,
    now: int | None,
    first_offset: int,
    max_decompressed_bytes: int,
) -> Wanted:
    """ValueError and TypeError name what is wrong with an option."""
    if compression == "producer":
        compression = None
    codec = None if compression is None else int(Compression.of(compression))
    if codec is not None:
        checked_level(codec, level)
    limits = [
        NO_LIMIT if limit is None else fitting(name, limit, 64)
        for name, limit in (
            ("timestamp_before_max_ms", timestamp_before_max_ms),
            ("timestamp_after_max_ms", timestamp_after_max_ms),
        )
    ]
    if not isinstance(max_decompressed_bytes, int) or max_decompressed_bytes < 0:
        raise ValueError(f"max_decompressed_bytes {max_decompressed_bytes!r}: bytes, 0 or more")
    rest = Rules(
        magic=2,
        codec=0,
        level=None,
        create_time=TimestampType.of(timestamp_type) is TimestampType.CREATE_TIME,
        compacted=bool(compacted),
        before_ms=limits[0],
        after_ms=limits[1],
        leader_epoch=fitting("partition_leader_epoch", partition_leader_epoch, 32),
        from_client=checked_origin(origin) == "client",
        now=time.time_ns() // 1_000_000 if now is None else fitting("now", now, 64),
        first_offset=fitting("first_offset", first_offset, 64),
        limit=min(max_decompressed_bytes, 2**62),
    )
    return Wanted(None if magic is None else checked_magic(magic), codec, level, rest)


def checked_origin(origin: str) -> str:
    """One of ORIGINS; Kafka's own spelling is taken too."""
    name = origin.lower() if isinstance(origin, str) else origin
    if name not in ORIGINS:
        raise ValueError(f"origin {origin!r}: one of {', '.join(ORIGINS)}")
    return name
