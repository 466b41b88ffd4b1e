"""Offsets that no segment has, between two of them, and the last batch of a segment, by which they are seen.

They are logged by the task that reads the segment before them, and by the driver as far as it can know them cheaply;
damage_report lists them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import warn_of_some

from .options import ReadOptions
from .paths import PartitionLog, open_segment
from .planning import LAST_OFFSET, Split, damage_report_call

# The reason of missing offsets: the kind of finding that `kafkarec verify` has for them.
GAP = "segment_gap"
# For gaps the driver reads headers of at most so many bytes, where each file counts as more: of 128 indexed files.
GAP_SEARCH_BYTES, BYTES_PER_FILE = 128 << 20, 1 << 20


def gap_after(split: Split, next_offset: int | None) -> kafkarec.Damage | None:
    """The offsets that the query asks for and that neither this segment has nor the next one, as Damage without bytes;
    None: there are none. next_offset: after the last batch of the split; None: it has none"""
    first = split.first_offset if next_offset is None else next_offset
    if split.next_base_offset is None or first is None:
        return None
    stable = split.uncommitted.last_stable_offset
    first = first if split.start_offset is None else max(first, split.start_offset)
    last = min(each for each in (split.next_base_offset, split.end_offset, stable) if each is not None) - 1
    if first > last:
        return None
    normal = distributed.is_compacted(split.path, split.topic, split.partition)
    why = "the topic is compacted, and so may lack them" if normal else "lost, unless the topic is compacted"
    offsets = f"offset {first} is" if first == last else f"offsets {first} to {last} are"
    end = split.begin if split.end is None else split.end
    detail = f"{offsets} missing before the next segment, {split.next_base_offset:020}.log: {why}"
    return kafkarec.Damage(split.path, end, 0, first, last, end, GAP, detail)


def warn_of_gaps(options: ReadOptions, splits: Iterable[Split]) -> None:
    """On the driver: logs missing offsets, unless the topic is known to be compacted. It looks at the ends of local
    files that are not compressed as a whole: of many at those with the most offsets for their bytes, since a segment
    that is missing makes them more by its own."""
    is_compacted = cache(distributed.is_compacted)
    found, left = dict[str, str](), GAP_SEARCH_BYTES
    suspects = []  # the splits behind which offsets may be missing, with their bytes for each offset up to the next one
    for split in splits:
        if split.file is not None and None not in (split.first_offset, split.next_base_offset):
            offsets = (split.next_base_offset or 0) - (split.first_offset or 0)
            suspects.append((((split.end or 0) - split.begin) / max(1, offsets), split))
    for _, split in sorted(suspects):
        if is_compacted(os.path.join(os.path.dirname(split.path), "log"), split.topic, split.partition):
            continue  # the name of the file does not matter, and so each partition is looked up once
        with (
            suppress(kafkarec.KafkaRecordError, OSError, ValueError),
            open_segment(split.path, options.storageOptions) as opened,
        ):
            begin = max(opened.position_of(LAST_OFFSET), split.begin)
            left -= BYTES_PER_FILE + opened.size - begin
            if left < 0:
                break
            last = last_whole_batch(opened, begin)
            gap = gap_after(split, last and last["next_offset"])
            found |= {split.path: gap.detail} if gap else {}
    call = damage_report_call(options)
    warn_of_some([f"{path}: {found[path]}; {call}" for path in sorted(found)], f"more gaps between segments; {call}")


def last_whole_batch(segment: kafkarec.Segment, begin: int = 0) -> Any:
    """The row of a segment's last batch, read from the last index entry or `begin` on; None: there is no batch.
    ValueError if the segment does not end with a whole batch with a right checksum."""
    tables = list(
        segment.between(max(segment.position_of(LAST_OFFSET), begin), segment.size).scan_pieces(errors="skip")
    )
    last = next((table[-1] for table in reversed(tables) if len(table)), None)
    is_whole = last is None or distributed.has_valid_checksum(segment, last["position"], segment.size)
    if not is_whole or any(table.damage or table.remaining for table in tables):
        raise ValueError(f"{segment.path} does not end with a whole batch: salvage this log first (kafkarec salvage)")
    return last


def missing_offset_text(partition: PartitionLog, offset: int) -> str | None:
    """On the driver: a clause that says that an offset is missing between two segments; None: a segment may have it, or
    the partition is known to be compacted."""
    number = partition.segments_in_range(offset, offset + 1)[-1]
    segment = partition.segments[number]
    if segment.listed_size is None and "://" in segment.path:
        return None  # it is compressed as a whole, and would be fetched
    owner = partition.topic, partition.partition
    after = partition.next_base_offset(number)
    split = Split(segment.path, *owner, first_offset=segment.base_offset, next_base_offset=after)
    gap = None
    with suppress(ValueError), segment.copy(later_segment=True) as part:  # else only a task can tell what is there
        last = last_whole_batch(part)
        gap = gap_after(split, last and last["next_offset"])
    if gap is None or gap.lost_from is None or offset < gap.lost_from:
        return None
    if distributed.is_compacted(segment.path, *owner):
        return None
    return f"which no segment has: {gap.lost_from} to {gap.lost_to} are missing between two of them"
