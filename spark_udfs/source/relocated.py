"""In a task: opens the planned file or, if it was replaced, the files that have its records now.

| now there is | because | what is read |
|---|---|---|
| the same file | | the planned bytes |
| another file of that name | the log cleaner has rewritten it | the planned offsets, from any segment of the folder |
| no file of that name | the log cleaner has merged it with another segment | the same |
| no file of that name | retention has deleted it | nothing: data loss |

Offsets never change, so records are found again by their offsets. Records that the cleaner has removed are not read; a
consumer would not read them either.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from . import paths
from .listing import DataLoss, Listing, logger
from .options import SourceOptions
from .paths import PartitionPaths, open_segment, shown
from .planning import Split, file_of

if TYPE_CHECKING:
    import kafkarec

# The log may be rewritten again while its records are looked up.
_TRIES = 5


class FileReplaced(OSError):
    """The file of that name is not the one that was planned."""


def open_parts(options: SourceOptions, split: Split) -> Generator[tuple[Split, kafkarec.Segment]]:
    """Yields the split and the planned bytes of its file; if that file was replaced, splits of the files that have its
    offsets now. DataLoss if the offsets are gone, unless failOnDataLoss is false."""
    waiting, tries = [split], 0
    while waiting:
        one = waiting.pop(0)
        try:
            part = open_part(options, one)
        except (FileReplaced, FileNotFoundError) as error:
            tries += 1
            if tries > _TRIES:
                raise
            waiting[:0] = _current_splits(options, one, error)
            continue
        try:
            yield one, part
        finally:
            part.close()


def open_part(options: SourceOptions, split: Split) -> kafkarec.Segment:
    """Opens the bytes of one split; FileReplaced or FileNotFoundError if the file is not the one that was planned. A
    truncated file is read to its end if failOnDataLoss is false."""
    part = open_segment(split.path, options, split.topic, split.partition)
    size, end = (0, 0) if split.end is None else (part.size, split.end)
    if split.begin or split.end is not None:
        stop = min(end, size) if split.end is not None else part.size
        part = part.between(min(split.begin, stop), stop, has_grown=split.is_log_end and stop < size)
        part = part.copy(later_segment=split.later_segment)
    part.__enter__()
    try:
        _check_unchanged(part, split)
        if end > size:
            reason = f"{shown(split.path)} has {size} bytes, and had {end} when the query was planned: it was truncated"
            _data_loss(options, split, reason)
    except BaseException:
        part.close()
        raise
    return part


def _check_unchanged(part: kafkarec.Segment, split: Split) -> None:
    """FileReplaced if an inactive segment has another size, or an active one another size and inode. The inode alone
    proves nothing: file systems reuse inodes of deleted files."""
    descriptor, planned = part.source.descriptor, split.file
    if planned is None or descriptor is None:
        return
    status = os.fstat(descriptor)
    grown = not planned.inactive and status.st_ino == planned.inode
    if status.st_size != planned.size and not grown:
        raise FileReplaced(f"{split.path} is another file than when the query was planned")


def _current_splits(options: SourceOptions, split: Split, error: OSError) -> list[Split]:
    """Splits of the folder's current segments for the offsets of a split whose file was replaced."""
    if os.path.islink(split.path) and not os.path.exists(split.path):
        return _data_loss(options, split, f"{split.path} is a link to {os.readlink(split.path)}, which does not exist")
    if split.file is None or split.first_offset is None:
        return _data_loss(options, split, str(error))
    ends = [each for each in (split.until_offset, split.end_offset) if each is not None]
    start, end = max(split.first_offset, split.start_offset or split.first_offset), min(ends, default=None)
    if end is not None and end <= start:
        return []
    planned = f"{error}; offsets {start} to {'the end' if end is None else end - 1} were planned"
    partition = _current_partition(options, split)
    if partition is None:
        return _data_loss(options, split, f"{planned}, and no segment is left")
    first, last = (partition.segments[at].base_offset or 0 for at in (0, -1))
    if first > start:
        _data_loss(options, split, f"{planned}, and the log begins at offset {first} now")
    elif last <= start or last < (end or 0):  # the log cleaner never rewrites the active segment
        active = partition.segments[-1]
        if active.path == split.path and (active.size or 0) >= (split.end or 0):
            return [split._replace(file=None)]  # it has grown, on a file system without stable inodes
        _data_loss(options, split, f"{planned}, and the log was truncated or rewritten since")
    logger.info("%s, and are read from the segments that have them now", planned)
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
            path=segment.path,
            begin=0,
            end=segment.size,
            later_segment=segment.later_segment,
            start_offset=start,
            end_offset=end,
            first_offset=max(start, base),
            until_offset=min(bounds, default=None),
            file=file_of(segment),
            next_base_offset=None,
        )


def _current_partition(options: SourceOptions, split: Split) -> PartitionPaths | None:
    where = paths.options_for(os.path.dirname(split.path), options)
    where["failOnDataLoss"] = True
    try:
        partitions = Listing(where).current()
    except (ValueError, LookupError, OSError):
        return None
    return next(
        (each for each in partitions.values() if (each.topic, each.partition) == (split.topic, split.partition)), None
    )


def _data_loss(options: SourceOptions, split: Split, what: str) -> list[Split]:
    name = f"{split.topic}-{split.partition}: " if split.topic is not None else ""
    if options["failOnDataLoss"]:
        raise DataLoss(f"data loss in {name}{what}. failOnDataLoss=false continues with the records that exist")
    logger.warning("data loss in %s%s; failOnDataLoss is false", name, what)
    return []
