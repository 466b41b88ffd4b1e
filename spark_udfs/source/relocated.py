"""In a task: the file that was planned, or where its records are now.

    the same file               as it was planned
    another one of its name     the log cleaner has rewritten it     its offsets, wherever in the folder they lie now
    none of its name            rewritten with its neighbour's       the same
                                or given up by retention             data loss

A running broker moves nothing else. An offset keeps its place in the order, so records are found again by their
offsets; what the cleaner has taken out is not read, as it is not by a consumer.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from .listing import DataLoss, Listing, logger
from .options import Options
from .paths import PartitionPaths, open_segment, shown
from .planning import Split, file_of

if TYPE_CHECKING:
    import kafkarec

# A file may move once more while its records are looked for.
_TRIES = 5


class Moved(OSError):
    """Another file lies there now."""


def opened(options: Options, split: Split) -> Generator[tuple[Split, kafkarec.Segment]]:
    """The open part of the file that is to be read; where it has moved, parts of others and what is wanted of them.
    DataLoss where its offsets are gone, unless failOnDataLoss is false."""
    waiting, tries = [split], 0
    while waiting:
        one = waiting.pop(0)
        try:
            found = part(options, one)
        except (Moved, FileNotFoundError) as error:
            tries += 1
            if tries > _TRIES:
                raise
            waiting[:0] = _now(options, one, error)
            continue
        try:
            yield one, found
        finally:
            found.close()


def part(options: Options, split: Split) -> kafkarec.Segment:
    """The bytes of one split, open; Moved or FileNotFoundError where the file is not the one that was planned. One that
    was cut is read as far as it goes where failOnDataLoss is false."""
    found = open_segment(split.path, options, split.topic, split.partition)
    size, end = (0, 0) if split.end is None else (found.size, split.end)
    if split.begin or split.end is not None:
        stop = min(end, size) if split.end is not None else found.size
        found = found.between(min(split.begin, stop), stop)
        found.followed = split.followed
    found.__enter__()
    try:
        _demand_the_same(found, split)
        if end > size:
            told = f"{shown(split.path)} has {size} bytes, and had {end} when the query was planned: it was cut"
            _lost(options, split, told)
    except BaseException:
        found.close()
        raise
    return found


def _demand_the_same(opened: kafkarec.Segment, split: Split) -> None:
    """A segment that grows no more has its size. One that grows has its inode: names change, and inodes that are free
    are used again."""
    descriptor, planned = opened.source.descriptor, split.file
    if planned is None or descriptor is None:
        return
    found = os.fstat(descriptor)
    grown = not planned.sealed and found.st_ino == planned.inode
    if found.st_size != planned.size and not grown:
        raise Moved(f"{split.path} is another file than when the query was planned")


def _now(options: Options, split: Split, error: OSError) -> list[Split]:
    """Splits for the same offsets of what lies in the folder now."""
    if os.path.islink(split.path) and not os.path.exists(split.path):
        return _lost(options, split, f"{split.path} is a link to {os.readlink(split.path)}, which is not there")
    if split.file is None or split.first_offset is None:
        return _lost(options, split, str(error))
    ends = [each for each in (split.until_offset, split.end_offset) if each is not None]
    start, end = max(split.first_offset, split.start_offset or split.first_offset), min(ends, default=None)
    if end is not None and end <= start:
        return []
    told = f"{error}; offsets {start} to {'the end' if end is None else end - 1} were planned"
    partition = _partition(options, split)
    if partition is None:
        return _lost(options, split, f"{told}, and no segment is left")
    first, last = (partition.segments[at].base_offset or 0 for at in (0, -1))
    if first > start:
        _lost(options, split, f"{told}, and the log begins at offset {first} now")
    elif last <= start or last < (end or 0):  # nobody rewrites the segment that is written to
        active = partition.segments[-1]
        if active.path == split.path and (active.size or 0) >= (split.end or 0):
            return [split._replace(file=None)]  # so it has grown, and inodes mean nothing on this file system
        _lost(options, split, f"{told}, and the log was cut or written anew since")
    logger.info("%s, and are read from where they are now", told)
    return list(_splits(partition, split, start, end))


def _splits(partition: PartitionPaths, split: Split, start: int, end: int | None) -> Iterator[Split]:
    segments = partition.segments
    for number, segment in enumerate(segments):
        later = segments[number + 1].base_offset if number + 1 < len(segments) else None
        base = segment.base_offset or 0
        if segment.size == 0 or (end is not None and base >= end) or (later is not None and later <= start):
            continue
        bounds = [each for each in (end, later) if each is not None]
        yield split._replace(
            path=segment.path, begin=0, end=segment.size, followed=segment.followed, start_offset=start, end_offset=end,
            first_offset=max(start, base), until_offset=min(bounds, default=None), file=file_of(segment),
        )  # fmt: skip


def _partition(options: Options, split: Split) -> PartitionPaths | None:
    where = Options(options)
    where |= {"path": os.path.dirname(split.path), "paths": (), "failOnDataLoss": True}
    try:
        found = Listing(where).look()
    except (ValueError, LookupError, OSError):
        return None
    return next(
        (each for each in found.values() if (each.topic, each.partition) == (split.topic, split.partition)), None
    )


def _lost(options: Options, split: Split, what: str) -> list[Split]:
    name = f"{split.topic}-{split.partition}: " if split.topic is not None else ""
    if options["failOnDataLoss"]:
        raise DataLoss(f"data loss in {name}{what}. failOnDataLoss=false goes on with what there is")
    logger.warning("data loss in %s%s; failOnDataLoss is false", name, what)
    return []
