"""Paths, globs, folders and URLs to partitions and their segments: on the driver, from names and sizes alone.

    load("/kafka/data")                 a broker's data folder: every partition below it
    load("/kafka/data/orders-0")        one partition
    load(["/backup/orders-*", "s3://bucket/kafka/orders-1"])
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .options import Options

Key = tuple[str, int]
"""(topic, partition); (path, -1) for a file whose names tell neither."""


class SegmentPath(NamedTuple):
    """size: bytes when it was listed; None: known only when it is unpacked. base_offset: None where no name tells it.
    followed: a later segment of the same partition exists."""

    path: str
    size: int | None
    base_offset: int | None
    followed: bool


class PartitionPaths(NamedTuple):
    """One partition's segments in order. topic, partition: None where names tell neither."""

    topic: str | None
    partition: int | None
    segments: tuple[SegmentPath, ...]


def partitions(kafkarec: Any, options: Options) -> dict[Key, PartitionPaths]:
    """All partitions below `path` and `paths`; AnalysisException PATH_NOT_FOUND for a missing one."""
    raise NotImplementedError
