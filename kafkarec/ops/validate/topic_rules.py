"""The checked options of validate: the rules of the topic and of the sender."""

from __future__ import annotations

import time
from typing import NamedTuple

from kafkarec.codecs import checked_level
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.write.fields import checked_magic, fitting

ORIGINS = ("client", "replication", "coordinator", "raft_leader")
"""Who appends (Kafka: AppendOrigin). There are more checks for a client's batches."""

NO_LIMIT = 2**63 - 1


class Rules(NamedTuple):
    """The rules for one request. `magic` and `codec` are those of the result."""

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


class ValidateOptions(NamedTuple):
    """The options before the request is read: None is replaced by the value of the request."""

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


def checked_options(
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
) -> ValidateOptions:
    """The checked options; ValueError or TypeError for invalid ones."""
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
    return ValidateOptions(None if magic is None else checked_magic(magic), codec, level, rest)


def checked_origin(origin: str) -> str:
    """One of ORIGINS; Kafka's spelling is accepted too."""
    name = origin.lower() if isinstance(origin, str) else origin
    if name not in ORIGINS:
        raise ValueError(f"origin {origin!r}: one of {', '.join(ORIGINS)}")
    return name
