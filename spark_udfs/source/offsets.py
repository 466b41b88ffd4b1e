"""A stream's offsets: as Spark writes them to its checkpoint and returns them, {"orders": {"0": 123, "1": 7}}.

The offset of a partition is the next one to be read. Spark compares two of these as JSON *text*: with the same numbers
in another order it would endlessly start empty batches. So only `to_json` writes them, always in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .paths import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


def parse(content: Mapping[str, Any]) -> Offsets:
    """Offsets from a checkpoint's JSON; ValueError if another source has written it."""
    try:
        offsets = {(topic, int(number)): offset for topic, each in content.items() for number, offset in each.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(_not_ours(content)) from None
    if not all(type(offset) is int for offset in offsets.values()):
        raise ValueError(_not_ours(content))
    return offsets


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Offsets for a checkpoint, sorted: topics by name, partitions by number."""
    sorted_offsets: OffsetsJson = {}
    for (topic, number), offset in sorted(offsets.items()):
        sorted_offsets.setdefault(topic, {})[str(number)] = offset
    return sorted_offsets


def _not_ours(content: Any) -> str:
    return f'the checkpoint has {content!r}, which is not {{"topic": {{"0": 123}}}}: it was written by another source'
