"""What each task reads: pieces of segments, cut at batch borders.

    segment of 1 GiB, .index     cut at entries of the index, each checked against the log around it
    no .index, on a disk         cut by a walk over the headers (Segment.splits)
    no .index, behind a URL      one piece, unless splitScan=true

A cut needs good batches on both sides of it, with rising offsets: then nobody goes on behind damage from one piece into
the next, and the pieces' records and damage are those of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from . import isolation
from .options import Options
from .paths import Key, PartitionPaths, SegmentPath
from .selection import Range

# What opening a file is worth in bytes, when small ones are put together; as spark.sql.files.openCostInBytes.
_OPEN_COST = 4 << 20
_NO_END = (1 << 63) - 1
# Base offset, length, partition leader epoch, magic.
_HEAD = Struct(">qiib")


class Hidden(NamedTuple):
    """What read_committed leaves out of a partition: (producer id, first offset, marker's offset); the last stable
    offset."""

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int


class File(NamedTuple):
    """What a local file was when it was planned. sealed: a later segment was there, so it has grown no more."""

    inode: int
    size: int
    sealed: bool


class Split(NamedTuple):
    """Bytes [begin, end) of one segment, and which of their records are wanted.

    end: None: to the file's end. later_segment: bytes or segments of the same log come behind it, so nothing may be missing
    at its end. start_offset, end_offset (exclusive), start_timestamp, end_timestamp (ms): None: no bound.
    first_offset, until_offset (exclusive): all records that lie in these bytes are in between, wherever they are
    when they are read; None: not known. file: None: it is remote.
    """

    path: str
    topic: str | None
    partition: int | None
    begin: int = 0
    end: int | None = None
    later_segment: bool = False
    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    hidden: Hidden | None = None
    first_offset: int | None = None
    until_offset: int | None = None
    file: File | None = None


class Task(InputPartition):
    """`value`: the splits that one task reads."""

    def __init__(self, splits: tuple[Split, ...]) -> None:
        super().__init__(splits)


class _Cut(NamedTuple):
    """position; offset: no record behind it has a lower one, none in front of it that one or a higher one; None: not
    known. proven: by the batches there; otherwise by what a log is."""

    position: int
    offset: int | None
    proven: bool = False


def plan(
    kafkarec: Any, options: Options, partitions: dict[Key, PartitionPaths], ranges: dict[Key, Range]
) -> list[Split]:
    """The splits of all ranges, in order of partition and offset."""
    total = sum(each.size or 0 for partition in partitions.values() for each in partition.segments)
    most = max(1, min(options["maxPartitionBytes"], -(-total // options["minPartitions"])))
    splits: list[Split] = []
    for key, partition in partitions.items():
        hidden = _hidden_of(kafkarec, partition, options, ranges[key][0]) if committed(options) else None
        for segment, later in _within(partition.segments, *ranges[key]):
            file = file_of(segment)
            for begin, stop in _pieces(kafkarec, options, segment, later, most, ranges[key]):
                end = stop.position if segment.size is not None else None
                later_segment = segment.later_segment or end != segment.size
                splits.append(
                    Split(segment.path, partition.topic, partition.partition, begin.position, end, later_segment,
                          *ranges[key], hidden=_of_segment(hidden, segment, partition),
                          first_offset=begin.offset, until_offset=stop.offset, file=file)
                )  # fmt: skip
    return splits


def file_of(segment: SegmentPath) -> File | None:
    """FileNotFoundError where it is gone since it was listed, or is another one: then list again."""
    if segment.size is None or "://" in segment.path:
        return None
    found = os.stat(segment.path)
    if found.st_size < segment.size or (segment.later_segment and found.st_size != segment.size):
        raise FileNotFoundError(f"{segment.path} had {segment.size} bytes when it was listed, and has {found.st_size}")
    return File(found.st_ino, found.st_size, segment.later_segment)


def cut(kafkarec: Any, options: Options, split: Split, base_offset: int | None, most: int) -> Iterator[Split]:
    """One split in pieces of about `most` bytes."""
    segment = SegmentPath(split.path, split.end, base_offset, split.later_segment)
    for begin, stop in _pieces(kafkarec, options, segment, split.until_offset, most, (None, None)):
        if stop.position > split.begin:
            yield split._replace(
                begin=max(begin.position, split.begin), end=stop.position,
                later_segment=split.later_segment or stop.position != split.end,
                first_offset=begin.offset if begin.position > split.begin else split.first_offset,
                until_offset=stop.offset,
            )  # fmt: skip


def tasks(options: Options, splits: list[Split]) -> list[tuple[Split, ...]]:
    """Small neighbours go into one task, up to maxPartitionBytes; at least minPartitions where there are as many."""
    sizes = [_OPEN_COST + ((split.end or split.begin) - split.begin) for split in splits]
    most = min(options["maxPartitionBytes"], -(-sum(sizes) // options["minPartitions"]))
    found: list[list[Split]] = []
    filled = most
    for split, size in zip(splits, sizes, strict=True):
        if filled + size > most:
            found.append([])
            filled = 0
        found[-1].append(split)
        filled += size
    return [tuple(each) for each in found]


def committed(options: Options) -> bool:
    return "read_committed" in (options["isolationLevel"], options["kafka.isolation.level"])


def _hidden_of(kafkarec: Any, partition: PartitionPaths, options: Options, start: int | None) -> Hidden:
    found = isolation.walk(kafkarec, partition, options, start)
    return Hidden(found.aborted, _NO_END if found.stable_offset is None else found.stable_offset)


def _of_segment(hidden: Hidden | None, segment: SegmentPath, partition: PartitionPaths) -> Hidden | None:
    """Only what may concern this segment travels to its tasks: what ends in it or behind it, and begins before the
    next one does."""
    if hidden is None or segment.base_offset is None:
        return hidden
    base = segment.base_offset
    later = (each.base_offset for each in partition.segments if each.base_offset is not None)
    until = min((each for each in later if each > base), default=_NO_END)
    return hidden._replace(aborted=tuple(span for span in hidden.aborted if span[2] >= base and span[1] < until))


def _within(
    segments: tuple[SegmentPath, ...], start: int | None, end: int | None
) -> Iterator[tuple[SegmentPath, int | None]]:
    """The segments that may hold the wanted offsets, by the base offsets of their names; and that of the next one."""
    for number, segment in enumerate(segments):
        later = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if segment.size == 0:
            continue
        if start is not None and later is not None and (segment.base_offset or 0) < later <= start:
            continue
        if end is not None and segment.base_offset is not None and segment.base_offset >= end:
            continue
        yield segment, later


def _pieces(
    kafkarec: Any, options: Options, segment: SegmentPath, later: int | None, most: int, wanted: Range
) -> Iterator[tuple[_Cut, _Cut]]:
    """From where to where each piece goes in which something may be wanted."""
    first, last = _Cut(0, segment.base_offset), _Cut(segment.size or 0, later)
    if segment.size is None or segment.size <= most:
        yield first, last
        return
    start, end = wanted
    opened = kafkarec.open(segment.path, storage_options=options["storageOptions"])
    if opened.size < segment.size:
        raise FileNotFoundError(f"{segment.path} had {segment.size} bytes when it was listed, and has {opened.size}")
    with opened:
        cuts = [first, *_cuts(kafkarec, options, opened, segment, most), last]
    for begin, stop in pairwise(cuts):
        if end is not None and begin.proven and begin.offset is not None and begin.offset >= end:
            continue
        if start is not None and stop.proven and stop.offset is not None and stop.offset <= start:
            continue
        yield begin, stop


def _cuts(kafkarec: Any, options: Options, opened: Any, segment: SegmentPath, most: int) -> list[_Cut]:
    found = _indexed_cuts(kafkarec, opened, segment, most)
    if found is not None:
        return found
    if opened.fetch_counter is not None and not options["splitScan"]:
        return []
    # The file may have grown since it was listed.
    borders = [begin for begin, _ in opened.between(0, segment.size).splits(most) if begin]
    return [_Cut(position, _base_offset(opened.raw(position, _HEAD.size))) for position in borders]


def _base_offset(head: bytes) -> int | None:
    """Of a whole batch; what a wrapper of magic 0 or 1 has there is its last offset."""
    base, _, _, magic = _HEAD.unpack(head)
    return base if magic >= 2 else None


def _indexed_cuts(kafkarec: Any, opened: Any, segment: SegmentPath, most: int) -> list[_Cut] | None:
    """Cuts at entries of the .index; None where there is none, where it does not fit the log, or has too few."""
    from kafkarec.sidecars import offset_index

    data = opened.sidecar(offset_index.SUFFIX)
    if not data or segment.base_offset is None or segment.size is None:
        return None
    try:
        entries = [entry for entry in offset_index.read(data, segment.base_offset) if entry.position < segment.size]
    except kafkarec.KafkaRecordError:
        return None
    cuts = [_Cut(0, None)]
    for before, entry, behind in zip(entries, entries[1:], entries[2:], strict=False):
        if entry.position - cuts[-1].position < most:
            continue
        front = _batches(kafkarec, opened, before.position, entry.position)
        back = _batches(kafkarec, opened, entry.position, behind.position)
        if not front or not back or back[0]["last_offset"] != entry.offset or front[-1]["next_offset"] > entry.offset:
            return None
        cuts.append(_Cut(entry.position, front[-1]["next_offset"], proven=True))
    borders = [cut.position for cut in cuts] + [segment.size]
    return cuts[1:] if all(stop - begin <= 2 * most for begin, stop in pairwise(borders)) else None


def _batches(kafkarec: Any, opened: Any, begin: int, end: int) -> Any:
    """The batches between two positions if they are whole and nothing else lies there; None otherwise."""
    if not begin < end:
        return None
    try:
        found = opened.between(begin, end).read(columns=[], control=True)
    except kafkarec.KafkaRecordError:
        return None
    return None if found.remaining else found.batches
