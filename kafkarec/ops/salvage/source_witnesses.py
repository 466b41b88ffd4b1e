"""The witnesses of the log's end beside the sources of a partition: see kafkarec.storage.recorded_ends."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkarec.storage import names, recorded_ends
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import DataFolder, SegmentGap, Witness

from .partition_sources import SalvagePartition, SalvageSource


class SourceWitnesses:
    """Reads the witnesses of each partition, and the checkpoint files of each data folder once."""

    def __init__(self) -> None:
        self._data_folders: dict[str, DataFolder] = {}

    def of(self, partition: SalvagePartition) -> list[Witness]:
        """The witnesses of all sources. The last segment of a source that ends below one of its own is marked as one
        that other batches follow, so that a cut batch or zeros at its end are damage."""
        found: list[Witness] = []
        for source in partition.main_sources:
            if source.unordered:
                continue
            log = _log(partition, source)
            witnesses = recorded_ends.read(log, self._data_folder(log))
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

    def _data_folder(self, log: PartitionFiles) -> DataFolder:
        path = "" if log.folder is None else os.path.dirname(os.path.abspath(log.folder.path))
        if path not in self._data_folders:
            self._data_folders[path] = DataFolder.above(log)
        return self._data_folders[path]


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
