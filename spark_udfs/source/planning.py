"""What each task reads: pieces of segments, cut at batch borders."""

from __future__ import annotations

from typing import Any, NamedTuple

from .options import Options
from .paths import Key, PartitionPaths
from .selection import Range


class Hidden(NamedTuple):
    """What read_committed leaves out of a partition: (producer id, first offset, marker's offset); the last stable
    offset."""

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int


class Split(NamedTuple):
    """Bytes [begin, end) of one segment, and which of their records are wanted.

    end: None: to the file's end. followed: bytes or segments of the same log come behind it, so nothing may be missing
    at its end. start_offset, end_offset (exclusive), start_timestamp, end_timestamp (ms): None: no bound.
    """

    path: str
    topic: str | None
    partition: int | None
    begin: int = 0
    end: int | None = None
    followed: bool = False
    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    hidden: Hidden | None = None


def plan(
    kafkarec: Any, options: Options, partitions: dict[Key, PartitionPaths], ranges: dict[Key, Range]
) -> list[Split]:
    """The splits of all ranges, in order of partition and offset."""
    raise NotImplementedError


def tasks(options: Options, splits: list[Split]) -> list[tuple[Split, ...]]:
    """Small neighbours go into one task, up to maxPartitionBytes."""
    raise NotImplementedError
