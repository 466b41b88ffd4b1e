"""On the driver: staged segments that are appended to a log"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .staging import StagedPartition

_PIECE_BYTES = 8 << 20


def append(
    folder: str, parts: Sequence[StagedPartition], segments: Callable[[StagedPartition], Iterable[str]], **options: Any
) -> range:
    """Appends to the log in a local folder; returns the range of the new offsets. Batches get their offsets and the
    log's leader epoch in header fields that the checksum does not cover.

    segments: the paths of a part's segments, in order; options: of kafkarec.SegmentWriter
    """
    import kafkarec

    first, given = parts[0], parts[0].given
    try:
        with kafkarec.SegmentWriter(folder, assign_offsets=not given, check_all=False, **options) as writer:
            end = writer.next_offset
            if not given or first.first_offset >= end:
                for path in (path for part in parts for path in segments(part)):
                    segment = kafkarec.open(path)
                    assert isinstance(segment, kafkarec.Segment)
                    with segment:
                        for begin, stop in segment.splits(_PIECE_BYTES):
                            writer.append(segment.raw(begin, stop - begin))
                return range(first.first_offset if given else end, writer.next_offset)
    except ValueError as error:
        raise ValueError(f"{first.name}: {error}") from error
    raise not_following(first, end)


def not_following(part: StagedPartition, next_offset: int) -> ValueError:
    """The error for a task's records with offsets that the log has already. next_offset: of the log"""
    return ValueError(
        f"{part.name}: offsets {part.first_offset} to {part.next_offset - 1} do not follow: the next offset of the log "
        f'is {next_offset}; without the column offset, df.drop("offset"), records get the next ones'
    )


def leader_epoch(read: Callable[[str], bytes | None]) -> int:
    """The leader epoch of a log's last batches. read(name): the content of a file in its folder; None: there is
    none."""
    from kafkarec.sidecars import leader_epochs

    data = read(leader_epochs.NAME)
    entries = leader_epochs.read(data) if data else ()
    return entries[-1].epoch if entries else 0
