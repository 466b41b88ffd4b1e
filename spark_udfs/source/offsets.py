"""A stream's offsets: as Spark writes them to its checkpoint and returns them, {"orders": {"0": 123, "1": 7}}.

The offset of a partition is the next one to be read. Options give other numbers for each partition (times) in the same
form. Spark compares two of these as JSON *text*: with the same numbers in another order it would endlessly start empty
batches. So only `to_json` writes them, always in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Offsets = dict[tuple[str, int], int]
OffsetsJson = dict[str, dict[str, int]]


def parse(content: Mapping[str, Any]) -> Offsets:
    """Offsets from a checkpoint's JSON; ValueError if another source has written it."""
    try:
        return numbers(content)
    except ValueError:
        ours = '{"topic": {"0": 123}}'
        raise ValueError(
            f"the checkpoint has {content!r}, which is not {ours}: it was written by another source"
        ) from None


def numbers(content: Any) -> Offsets:
    """A number for each partition, from JSON of this form; ValueError for another one."""
    try:
        found = {(topic, int(number)): each for topic, some in content.items() for number, each in some.items()}
    except (AttributeError, TypeError):
        raise ValueError("no object of objects") from None
    if not all(type(each) is int for each in found.values()):
        raise ValueError("no whole numbers")
    return found


def to_json(offsets: Mapping[tuple[str, int], int]) -> OffsetsJson:
    """Offsets for a checkpoint, sorted: topics by name, partitions by number."""
    sorted_offsets: OffsetsJson = {}
    for (topic, number), offset in sorted(offsets.items()):
        sorted_offsets.setdefault(topic, {})[str(number)] = offset
    return sorted_offsets
