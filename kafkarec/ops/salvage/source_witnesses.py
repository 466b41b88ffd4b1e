"""The witnesses of the log's end beside the sources of a partition: see kafkarec.storage.recorded_ends."""

from __future__ import annotations

from collections.abc import Sequence

from kafkarec.storage import lost_parts, recorded_ends
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import LogEnd, SegmentGap, Witness

from .partition_sources import SalvagePartition, SalvageSource
from .salvaged_partition import SalvagedPartition


def read_witnesses(partition: SalvagePartition) -> None:
    """Reads the witnesses of the sources, before their segments: a broker may be writing both."""
    for source in partition.main_sources:
        if not source.unordered:
            source.witnesses = recorded_ends.read(_log(partition, source), source.data_folder)


def add_lost_start(partition: SalvagePartition, report: SalvagedPartition) -> None:
    """Adds the offsets below the first segment that are lost, and in no source: see storage.lost_parts."""
    base = min((one.base_offset or 0 for source in partition.sources for one in source.segments), default=0)
    for source in partition.main_sources:
        found = lost_parts.lost_start(_log(partition, source), source.data_folder)
        if found and found[0] < base:
            report.missing.insert(0, (found[0], base - 1))
            report.proofs.insert(0, found[2])
            report.gaps += base - found[0]
            return


def credible(partition: SalvagePartition) -> list[Witness]:
    """The witnesses of all sources, without wrong ones. A last segment that was not read to its end proves nothing
    about the log's, and so its source has none."""
    sources = partition.main_sources
    found = [one for source in sources if not source.segments for one in source.witnesses]
    read = ((source.witnesses, end) for source in sources if (end := _log_end(source)))
    return [*found, *(one for witnesses, end in read for one in recorded_ends.credible(witnesses, end))]


def is_followed(partition: SalvagePartition) -> bool:
    """Marks the last segment of a source that ends below one of its own witnesses as one that other batches follow, as
    a cut batch or zeros at its end are damage then. Returns whether there is such a tail: it must be read again."""
    any_tail = False
    for source in partition.main_sources:
        end = _log_end(source)
        if end and source.end.has_tail and recorded_ends.above(source.witnesses, end):
            source.segments[-1].close()
            source.segments[-1] = source.segments[-1].copy(later_segment=True)
            any_tail = True
    return any_tail


def _log_end(source: SalvageSource) -> LogEnd | None:
    """Where the log of a source ends; None: that is not known."""
    end = source.end
    if not source.segments or source.unordered or end.position is None:
        return None
    return LogEnd(max(end.next_offset or 0, source.segments[-1].base_offset or 0), end.position, None)


def end_without_segments(partition: SalvagePartition, witnesses: Sequence[Witness]) -> int:
    """The least end of a log that the sources have no segment of; 0: they have segments."""
    if any(source.segments for source in partition.sources):
        return 0
    logs = [_log(partition, source) for source in partition.main_sources]
    return max((recorded_ends.end_without_segments(log, witnesses).offset for log in logs), default=0)


def was_never_cleaned(partition: SalvagePartition) -> bool:
    """Whether cleaner-offset-checkpoint beside each source says that the log cleaner never worked on the log."""
    folders = [source.data_folder for source in partition.main_sources if source.log is not None]
    known = [folder.cleaned(partition.topic, partition.partition) for folder in folders]
    return bool(known) and not any(one is not False for one in known)


def proofs_of_loss(partition: SalvagePartition, missing: Sequence[tuple[int, int]]) -> list[str]:
    """Sentences why offsets that are missing between segments are lost, not removed by a cleaner."""
    sentences: list[str] = []
    for source in partition.main_sources:
        if source.unordered or not missing:
            continue
        gaps = []
        for first, last in missing:
            before = [one for one in source.segments if one.base_offset is not None and one.base_offset <= first]
            if before:
                gaps.append(SegmentGap(first, last, before[-1].base_offset or 0, before[-1].size))
        sentences += recorded_ends.proofs(_log(partition, source), gaps).values()
    return sentences


def _log(partition: SalvagePartition, source: SalvageSource) -> PartitionFiles:
    folder = None if source.log is None else source.log.folder
    return PartitionFiles(
        source.path, source.segments, folder=folder, topic=partition.topic, partition=partition.partition
    )
