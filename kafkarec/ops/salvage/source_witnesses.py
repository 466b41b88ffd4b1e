"""The witnesses of the log's end beside the sources of a partition: see kafkarec.storage.recorded_ends."""

from __future__ import annotations

from collections.abc import Sequence

from kafkarec.storage import lost_parts, names, recorded_ends
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import DataFolder, SegmentGap, Witness

from .partition_sources import SalvagePartition, SalvageSource
from .salvaged_partition import SalvagedPartition


class SourceWitnesses:
    """Reads the witnesses of each partition, and the files of each data folder once. data_folders: by their paths"""

    def __init__(self, data_folders: dict[str, DataFolder]) -> None:
        self._data_folders = data_folders

    def of(self, partition: SalvagePartition) -> list[Witness]:
        """The witnesses of all sources. The last segment of a source that ends below one of its own is marked as one
        that other batches follow, so that a cut batch or zeros at its end are damage."""
        found: list[Witness] = []
        for source in partition.main_sources:
            if source.unordered:
                continue
            log = _log(partition, source)
            witnesses = recorded_ends.read(log, DataFolder.above(log, self._data_folders))
            if not source.segments:
                found += witnesses
                continue
            end = recorded_ends.scanned_end(log) if witnesses else None
            if end is None:
                continue
            if recorded_ends.above(witnesses, end):
                source.segments[-1] = source.segments[-1].copy(later_segment=True)
            found += recorded_ends.credible(witnesses, end)
        return found

    def add_lost_start(self, partition: SalvagePartition, report: SalvagedPartition) -> None:
        """Adds the offsets below the first segment that are lost, and in no source: see storage.lost_parts."""
        base = min((one.base_offset or 0 for source in partition.sources for one in source.segments), default=0)
        for log in (_log(partition, source) for source in partition.main_sources):
            found = lost_parts.lost_start(log, DataFolder.above(log, self._data_folders))
            if found and found[0] < base:
                report.missing.insert(0, (found[0], base - 1))
                report.proofs.insert(0, found[2])
                report.gaps += base - found[0]
                return


def end_without_segments(partition: SalvagePartition, witnesses: Sequence[Witness]) -> int:
    """The least end of a log that the sources have no segment of; 0: they have segments."""
    if any(source.segments for source in partition.sources):
        return 0
    logs = [_log(partition, source) for source in partition.main_sources]
    return max((recorded_ends.end_without_segments(log, witnesses).offset for log in logs), default=0)


def was_never_cleaned(partition: SalvagePartition) -> bool:
    """Whether cleaner-offset-checkpoint beside each source says that the log cleaner never worked on the log."""
    folders = [DataFolder.above(source.log) for source in partition.main_sources if source.log is not None]
    known = [folder.cleaned(partition.topic, partition.partition) for folder in folders]
    return partition.topic not in names.ALWAYS_COMPACTED and bool(known) and not any(one is not False for one in known)


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
