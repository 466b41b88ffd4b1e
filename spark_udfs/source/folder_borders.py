"""One log from the folders that hold parts of it: its segments in order of offsets, which may not overlap.

    arch/date=2026-11-01/ev-0/00000000000000000000.log      offsets 0 to 499: known from its last batches
    arch/date=2026-11-02/ev-0/00000000000000000500.log      begins at 500, so this follows; at 400 it would be refused

Where one folder follows another, the last batches of the earlier segment are read, and nothing of the later one. A
compressed segment has its end only when all of it is decompressed: then the task that reads it compares. As between
segments of one folder, offsets that no segment has are no error: retention and the log cleaner leave such gaps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

from .options import SourceOptions
from .paths import FolderPieces, PartitionPaths, SegmentPath, TopicPartition, open_segment, shown

if TYPE_CHECKING:
    import kafkarec

_READ_AT_ONCE = 16


class FolderBorders:
    """Joins folders to logs. Remembers the ends of segments, so that the next listing of a stream reads only new ones.

    options: of the source
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._ends: dict[tuple[str, int | None], int | None] = {}
        self._listed: Mapping[str, kafkarec.Segment] = {}

    def joined(
        self, found: FolderPieces, listed: Mapping[str, kafkarec.Segment] | None = None
    ) -> dict[TopicPartition, PartitionPaths]:
        """The partitions, by topic and number. listed: as in `paths.pieces`. ValueError where two folders have the same
        offsets of a partition, or where folders have different keys."""
        self._listed = listed or {}
        _check_same_keys(found)
        parts: dict[TopicPartition, list[PartitionPaths]] = {}
        for (_, key), piece in found.items():
            parts.setdefault(key, []).append(piece)
        ordered = {key: _in_order(each) for key, each in parts.items() if len(each) > 1}
        self._read_ends([first for segments in ordered.values() for first, _ in _borders(segments)])
        return {
            key: self._one_log(key, ordered[key], parts[key][0]) if key in ordered else parts[key][0]
            for key in sorted(parts)
        }

    def _one_log(self, key: TopicPartition, segments: list[SegmentPath], named: PartitionPaths) -> PartitionPaths:
        unknown: dict[str, tuple[str, int]] = {}
        for first, second in _borders(segments):
            base, end = second.base_offset or 0, self._ends[first.path, first.size]
            if first.base_offset == second.base_offset or (end is not None and end > base):
                raise ValueError(self._overlap(key, first, second))
            if end is None:
                unknown[first.path] = second.path, base
        last = segments[-1]
        return named._replace(
            segments=tuple(
                each._replace(later_segment=each is not last, followed_by=unknown.get(each.path)) for each in segments
            )
        )

    def _read_ends(self, segments: list[SegmentPath]) -> None:
        missing = [each for each in segments if (each.path, each.size) not in self._ends]
        if len(missing) < 2 or "://" not in missing[0].path:
            ends = [self._end(each) for each in missing]
        else:
            with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
                ends = list(pool.map(self._end, missing))
        self._ends.update({(each.path, each.size): end for each, end in zip(missing, ends, strict=True)})

    def _end(self, segment: SegmentPath) -> int | None:
        """The offset after a segment's last batch; None: unknown before it is read, as it is compressed or cannot be
        read, which is the task's to report."""
        import kafkarec
        from kafkarec import distributed

        if segment.size is None:
            return None
        try:
            opened = self._listed.get(segment.path) or open_segment(segment.path, self._options)
            end = distributed.summarize(opened).next_offset
            if end is None:
                last = opened.last_batch()
                end = segment.base_offset if last is None else int(last["next_offset"])
        except FileNotFoundError:
            raise  # removed since it was listed: the caller lists again
        except (kafkarec.KafkaRecordError, OSError):
            return None
        return end

    def _overlap(self, key: TopicPartition, first: SegmentPath, second: SegmentPath) -> str:
        copy = first.size == second.size and first.base_offset == second.base_offset
        return overlap(
            f"{key[0]}-{key[1]}",
            (shown(first.path), self._span(first)),
            (shown(second.path), self._span(second)),
            ("Both have the same size: is one a copy? " if copy else "") + _advice(first, second),
        )

    def _span(self, segment: SegmentPath) -> str:
        end = self._end(segment)
        return f"from {segment.base_offset} on" if end is None else f"{segment.base_offset} to {end - 1}"


def overlap(name: str, first: tuple[str, str], second: tuple[str, str], advice: str) -> str:
    """The message for two files, each with its offsets as text, that have the same offsets of a partition."""
    return (
        f"{name}: {first[0]} has offsets {first[1]}, and {second[0]} has offsets {second[1]}: they overlap, so records "
        f"would be read twice. {advice}"
    )


def _advice(first: SegmentPath, second: SegmentPath) -> str:
    """What to write to read one of two folders."""
    different = [
        (name, value) for (name, value), other in zip(second.keys, first.keys, strict=False) if (name, value) != other
    ]
    if different:
        name, value = different[0]
        condition = f"{name} IS NOT NULL" if value is None else f"{name} <> '{value}'"
        return f'Leave one folder out: .option("where", "{condition}")'
    return f"Load one of the two folders: {shown(os.path.dirname(first.path))} or {shown(os.path.dirname(second.path))}"


def _in_order(parts: Iterable[PartitionPaths]) -> list[SegmentPath]:
    """The segments of all folders by offset; of two with one base offset first the empty one, which a roll has made."""
    segments = [segment for part in parts for segment in part.segments]
    return sorted(segments, key=lambda each: (each.base_offset or 0, each.size != 0, each.path))


def _borders(segments: list[SegmentPath]) -> list[tuple[SegmentPath, SegmentPath]]:
    """The pairs of segments that follow each other and are in two folders; empty ones have no offsets."""
    filled = [each for each in segments if each.size != 0]
    return [(one, two) for one, two in pairwise(filled) if os.path.dirname(one.path) != os.path.dirname(two.path)]


def _check_same_keys(found: Mapping[tuple[str, TopicPartition], PartitionPaths]) -> None:
    first: tuple[str, tuple[str, ...]] | None = None
    for (folder, _), piece in found.items():
        names = tuple(name for name, _ in piece.segments[0].keys)
        if first is None:
            first = folder, names
        elif names != first[1]:
            raise ValueError(
                f"all folders of one load must have the same keys: {shown(first[0])} has {_shown(first[1])}, and "
                f"{shown(folder)} has {_shown(names)}. Load them one by one, or those of one kind by a glob such as "
                f"archive/date=*/ with the option basePath"
            )


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"
