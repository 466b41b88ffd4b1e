"""The rules of the topic and of the sender, from the options of validate."""

from __future__ import annotations

from typing import NamedTuple

from kafkarec.write.fields import fitting

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
    most_body: int

    @property
    def timestamp_type(self) -> int:
        return 0 if self.create_time else 1


def time_limit(name: str, limit: int | None) -> int:
    """How far, in ms, a create time may be from `now`; None: no limit."""
    return NO_LIMIT if limit is None else fitting(name, limit, 64)


def checked_origin(origin: str) -> str:
    """One of ORIGINS; Kafka's spelling is accepted too."""
    name = origin.lower() if isinstance(origin, str) else origin
    if name not in ORIGINS:
        raise ValueError(f"origin {origin!r}: one of {', '.join(ORIGINS)}")
    return name
