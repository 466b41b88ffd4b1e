"""A stream's offsets: what Spark writes into its checkpoint and gives back, {"orders": {"0": 123, "1": 7}}.

The offset of a partition is the next one to be read. Spark compares two of these as JSON *text*: the same numbers in
another order would be news, and start an empty batch for ever. So there is one order, and nothing else writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .paths import TopicPartition

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


def parse(told: Mapping[str, Any]) -> Offsets:
    """From a checkpoint; ValueError where it is none of this source's."""
    try:
        found = {(topic, int(number)): offset for topic, each in told.items() for number, offset in each.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(_not_ours(told)) from None
    if not all(type(offset) is int for offset in found.values()):
        raise ValueError(_not_ours(told))
    return found


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """In the one order: topics by name, partitions by number."""
    told: OffsetsJson = {}
    for (topic, number), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(number)] = offset
    return told


def _not_ours(told: Any) -> str:
    return f'the checkpoint has {told!r}, which is not {{"topic": {{"0": 123}}}}: it is another source\'s'
