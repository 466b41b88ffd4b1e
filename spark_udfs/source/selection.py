"""Which partitions, and which offsets of each: the options of Spark's Kafka source, on names and indexes."""

from __future__ import annotations

from typing import Any

from .options import Options
from .paths import Key, PartitionPaths

Range = tuple[int | None, int | None]
"""Offsets from the first to the second, which is exclusive; None: no bound."""


def chosen(options: Options, partitions: dict[Key, PartitionPaths]) -> dict[Key, PartitionPaths]:
    """The partitions that subscribe, subscribePattern or assign name."""
    raise NotImplementedError


def ranges(kafkarec: Any, options: Options, partitions: dict[Key, PartitionPaths]) -> dict[Key, Range]:
    """The offsets to read of each partition that is chosen."""
    raise NotImplementedError
