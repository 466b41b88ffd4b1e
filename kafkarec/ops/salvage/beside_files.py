"""Files beside a log that may have what it lacks, and those that say how far it once reached (storage.recorded_ends)

wrong names          segments whose names were exchanged or changed: their batches say where they belong
.swap                replaces the segments that it covers, as when a broker starts (LogLoader); what is damaged in it
                     comes from those. Those between two of them, which a broker deletes, are kept
.deleted, .cleaned   only where offsets are missing at damage or in place of a segment, from the log's start on, never
                     after its end, and never in a compacted log: they would bring back expired, truncated or compacted
                     records
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkarec.format.java_integers import LONG_MAX
from kafkarec.sources import remote
from kafkarec.sources.folders import LocalFolder
from kafkarec.storage import first_bytes, names, recorded_ends
from kafkarec.storage.good_batches import GoodBatches, SourceReader
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.names_by_content import base_offsets_by_content, end_offset, sorted_by_base_offset
from kafkarec.storage.recorded_ends import LogEnd, RecordedEnd, SegmentGap
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.text_table import counted

from .partition_sources import PartitionSources, SalvageSource
from .salvaged_partition import BesideFile, SalvagedPartition

OffsetRange = tuple[int, int]


def arrange_segments(partition: PartitionSources, given: set[str]) -> None:
    """Puts the segments of a partition in their places, and finds its fillers. given: files that the caller names."""
    for source in partition.sources:
        if source.log is None or remote.is_url(source.log.path):
            continue
        by_content = base_offsets_by_content(source.segments)
        in_order = sorted_by_base_offset(source.segments, by_content)
        source.segments = [one.copy(base_offset=by_content.get(one, one.base_offset)) for one in in_order]
        for segment, base in by_content.items():
            if end_offset(segment) is not None:
                why = f"by its batches it is the segment of offset {base}"
                partition.beside.append(BesideFile(segment.path, why, used=True))
        beside = [one.name for one in source.log.left_out if _log_file_state(one.name)]
        unnamed = [name for name in beside if os.path.join(source.path, name) not in given]
        _take_swaps(partition, source, unnamed)
        for left in source.log.left_out:
            path = os.path.join(source.log.path, left.name)
            if left.kind == names.FOREIGN and not left.is_folder and os.path.abspath(path) not in given:
                for file, base in first_bytes.files_with_batches(path):  # a segment that is missing elsewhere?
                    of = (
                        f", with --topic {partition.topic} --partition {partition.partition}" if partition.topic else ""
                    )
                    why = f"it has batches starting at offset {base}: to merge it, salvage it with this partition's "
                    partition.beside.append(BesideFile(file, f"{why}folder{of}"))
        for name in unnamed:
            if _log_file_state(name) in (".deleted", ".cleaned"):
                partition.fillers[_segment_file(source, name)] = False


def find_useful_fillers(
    partition: PartitionSources, probed: SalvagedPartition, cap: int
) -> tuple[list[SalvageSource], list[BesideFile]]:
    """The fillers that have something of what `probed`, a salvage without them, lacks, and what is said of all."""
    sources, beside = [], []
    start, place = log_start(partition), (partition.topic, partition.partition)
    cleaned = not probed.reports_missing or any(one.data_folder.is_cleaned(*place) for one in partition.sources)
    damaged = [(first or 0, LONG_MAX if last is None else last) for first, last in probed.lost]
    lost = [] if cleaned else [*probed.lost, *probed.missing]  # at damage or in place of a segment, up to the end
    known = [(max(low, start), high) for low, high in lost if low is not None and high is not None and high >= start]
    for segment, replaced in partition.fillers.items():
        holes = damaged if replaced else known
        if replaced and not holes:
            continue
        found = _found_batches(segment, holes, cap) if holes else None
        if found is not None:
            sources.append(SalvageSource(segment.path, [segment], holes=holes))
            first, last, count = found
            words = f"offsets {first} to {last} are missing in the log"
            beside.append(BesideFile(segment.path, words, count, used=True))
        elif not replaced:
            content = _found_batches(segment, [(0, LONG_MAX)], cap)
            first, last, _ = content or (0, 0, 0)
            span = f"offsets {first} to {last}"
            if content is None:
                why = "no batch can be read in it"
            elif cleaned:
                why = f"{span}; the log is compacted, so it may have records that were removed"
            elif probed.next_offset is None:
                why = f"{span}; the log has no segment left: they may have been deleted"
            elif first >= probed.next_offset:
                why = f"{span} are after the log's end: a broker may have truncated them"
            elif last < max(start, probed.start_offset or 0):
                why = f"{span} are before the log's start: they were deleted"
            else:
                why = f"{span} are in the log already"
            beside.append(BesideFile(segment.path, why))
    return sources, beside


def batches_in_holes(
    segment: SegmentFile, number: int, holes: Sequence[OffsetRange], cap: int
) -> Iterator[GoodBatches]:
    """Yields the good batches of a filler that are completely in a hole, in ascending order."""
    next_offset = 0
    for good in SourceReader(cap, number=number).read_file(segment):
        if good.base >= next_offset and any(first <= good.base and good.last <= last for first, last in holes):
            next_offset = good.last + 1
            yield good._replace(follows_damage=True)


def _found_batches(segment: SegmentFile, holes: Sequence[OffsetRange], cap: int) -> tuple[int, int, int] | None:
    """The first and last offset of the good batches in these holes, and their number; None: there are none."""
    first, last, batches = None, 0, 0
    for good in batches_in_holes(segment, 0, holes, cap):
        first, last, batches = good.base if first is None else first, good.last, batches + 1
    segment.close()
    return None if first is None else (first, last, batches)


def _log_file_state(name: str) -> str:
    """The state of a .log file: .swap, .deleted, .cleaned; empty: another file."""
    parsed = names.segment(name)
    return parsed.state if parsed and parsed.suffix == ".log" and not parsed.packed_suffix else ""


def _segment_file(source: SalvageSource, name: str) -> SegmentFile:
    assert source.log is not None
    folder = LocalFolder(source.log.path)
    return SegmentFile(folder.join(name), name, folder=folder, topic=source.log.topic, partition=source.log.partition)


def _take_swaps(partition: PartitionSources, source: SalvageSource, unnamed: Sequence[str]) -> None:
    taken = list[tuple[SegmentFile, int, int]]()  # a .swap, its base offset, its end
    valid = names.swaps_to_rename(unnamed)
    for name in unnamed:
        if _log_file_state(name) != ".swap":
            continue
        segment = _segment_file(source, name)
        end = end_offset(segment) if name in valid else None
        if end is None:
            why = "no batch can be read in it" if name in valid else "a broker deletes it, because of the .cleaned file"
            partition.beside.append(BesideFile(segment.path, why))
        else:
            taken.append((segment, segment.base_offset or 0, end))
    if not taken:
        return
    low, high = min(base for _, base, _ in taken), max(end for _, _, end in taken)
    within = [one for one in source.segments if low <= (one.base_offset or 0) < high]
    covered = [one for one in within if any(base <= (one.base_offset or 0) < end for _, base, end in taken)]
    kept = [one for one in source.segments if one not in covered]
    source.segments = sorted_by_base_offset([*kept, *(one for one, _, _ in taken)], {})
    partition.fillers |= dict.fromkeys(covered, True)
    why = (
        f"in place of {counted(len(covered), 'segment')}, as when a broker starts"
        if covered
        else "it is the segment of its offset"
    )
    partition.beside += [BesideFile(one.path, why, used=True) for one, _, _ in taken]
    why = "a broker that starts deletes it, as it is between .swap files, but none of them has its offsets"
    partition.beside += [BesideFile(one.path, why, used=True) for one in within if one not in covered]


def log_start(partition: PartitionSources) -> int:
    """The log start offset, from log-start-offset-checkpoint; 0: not known."""
    return max(one.data_folder.log_start(partition.topic, partition.partition) for one in partition.sources)


def add_lost_start(partition: PartitionSources, report: SalvagedPartition) -> None:
    """Adds the offsets below the first segment that are lost, and in no source: see storage.recorded_ends."""
    base = min((one.base_offset or 0 for source in partition.sources for one in source.segments), default=0)
    for source in partition.main_sources:
        found = recorded_ends.lost_start(log_of_source(partition, source), source.data_folder)
        if found and found[0] < base:
            report.missing.insert(0, (found[0], base - 1))
            report.proofs.insert(0, found[2])
            report.gaps += base - found[0]
            return


def credible_ends(partition: PartitionSources) -> list[RecordedEnd]:
    """The recorded ends of all sources, without wrong ones. A last segment that was not read to its end proves nothing
    about the log's, and so its source has none."""
    ends = ((source.recorded_ends, _log_end(source)) for source in partition.main_sources)
    return [one for recorded, end in ends if end for one in recorded_ends.credible_ends(recorded, end)]


def mark_incomplete_ends(partition: PartitionSources) -> bool:
    """Marks the last segment of a source that ends below one of its own recorded ends as one that other batches
    follow, as a cut batch or zeros at its end are damage then. Returns whether there is such a tail, which must be read
    again."""
    any_tail = False
    for source in partition.main_sources:
        end = _log_end(source)
        if end and source.end.has_tail and recorded_ends.ends_above(source.recorded_ends, end):
            source.segments[-1].close()
            source.segments[-1] = source.segments[-1].copy(later_segment=True)
            any_tail = True
    return any_tail


def _log_end(source: SalvageSource) -> LogEnd | None:
    """Where the log of a source ends; None: that is not known."""
    end = source.end
    if not source.segments:
        return LogEnd(0, 0, None)
    if source.unordered or end.position is None:
        return None
    return LogEnd(max(end.next_offset or 0, source.segments[-1].base_offset or 0), end.position, None)


def proofs_of_loss(partition: PartitionSources, missing: Sequence[OffsetRange]) -> dict[OffsetRange, str]:
    """Sentences why offsets that are missing between segments are lost, not removed by a cleaner."""
    sentences: dict[OffsetRange, str] = {}
    for source in partition.main_sources:
        if source.unordered or not missing:
            continue
        gaps = {}
        for first, last in missing:
            before = [one for one in source.segments if one.base_offset is not None and one.base_offset <= first]
            if before:
                gaps[first, last] = SegmentGap(first, last, before[-1].base_offset or 0, before[-1].size)
        for gap, sentence in recorded_ends.proven_losses(log_of_source(partition, source), gaps).items():
            sentences.setdefault(gap, sentence)
    return sentences


def log_of_source(partition: PartitionSources, source: SalvageSource) -> PartitionFiles:
    """The log that the segments of a source are."""
    folder = None if source.log is None else source.log.folder
    return PartitionFiles(
        source.path, source.segments, folder=folder, topic=partition.topic, partition=partition.partition
    )
