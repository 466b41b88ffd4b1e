"""Groups the source files by partition, in the order in which they are read.

a data folder, a partition folder     its segments, by base offset: one source per partition
.log files with Kafka's names         those in the same folder together are one source
any other file (an image, #12345)     an unordered source: its batches may be in any order; a separate log, unless the
                                      caller passes topic and partition
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kafkarec._lazy import cached_property
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.sidecars import leader_epochs, meta_properties, partition_metadata
from kafkarec.sources import remote
from kafkarec.sources.folders import Folder, LocalFolder
from kafkarec.sources.read_failures import ReadFailure, is_of_one_file, read_failure
from kafkarec.storage import names, opening, recorded_ends
from kafkarec.storage.finder import Finder
from kafkarec.storage.good_batches import SourceEnd
from kafkarec.storage.log_folders import DataFolderFiles, LeftOut, PartitionFiles, by_base_offset
from kafkarec.storage.names_by_content import aborted_entries, lost_segments
from kafkarec.storage.output_rules import Refused
from kafkarec.storage.recorded_ends import DataFolderState, RecordedEnd
from kafkarec.storage.segment_file import SegmentFile, size_or_zero
from kafkarec.support.command_line import command
from kafkarec.support.text_table import counted

from .salvage_report import LOST_AND_FOUND
from .salvaged_partition import BesideFile

_NOT_READ = SourceEnd(position=None)


@dataclass
class SalvageSource:
    """Segments of one replica, in order.

    unordered   whether it is one file whose batches may be in any order
    snapshots   its KRaft snapshots
    data_folder   the one that `log` is in
    holes       (first, last) offsets that it may fill; None: it is a source for all offsets
    recorded_ends, end   what files say of its end, and where its batches end; see `beside_files`
    rank        0, unless its topic id is not that of the source named first: its batches win only over those of a
                higher rank
    """

    path: str
    segments: list[SegmentFile]
    unordered: bool = False
    log: PartitionFiles | None = None
    snapshots: list[SegmentFile] = field(default_factory=list)
    data_folder: DataFolderState = field(default_factory=lambda: DataFolderState(None))
    holes: list[tuple[int, int]] | None = None
    rank: int = 0
    recorded_ends: tuple[RecordedEnd, ...] = ()
    end: SourceEnd = _NOT_READ

    @cached_property
    def lost_segments(self) -> list[SegmentFile]:
        """What stands for segments that are missing between others, of which there is an index."""
        return [] if self.log is None else lost_segments(self.segments)

    def folder_file(self, name: str) -> bytes | None:
        """A file in its folder, also if its segments were named one by one; None: there is none."""
        if self.log is not None:
            return self.log.folder_file(name)
        folder = None if self.unordered or self.holes is not None else self.segments[0].folder
        return None if folder is None else folder.read(name)


@dataclass
class PartitionSources:
    """The sources of one partition, which is one folder in the output.

    fillers    files for offsets that the log lacks -> whether a .swap has replaced them: they fill what is damaged, not
               what the cleaner removed; see `beside_files`
    beside     what is said of the files beside the log
    problems   sentences for the report
    """

    folder: str
    topic: str | None
    partition: int | None
    sources: list[SalvageSource] = field(default_factory=list)
    fillers: dict[SegmentFile, bool] = field(default_factory=dict)
    beside: list[BesideFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def of_one_topic(self) -> list[SalvageSource]:
        """The sources with the topic id of the one named first, or without one."""
        return [source for source in self.sources if not source.rank]

    @cached_property
    def epoch_entries(self) -> list[leader_epochs.EpochEntry]:
        """The entries of the first leader-epoch-checkpoint that can be read, as a broker takes them."""
        for source in self.of_one_topic:
            with suppress(KafkaRecordError, OSError):
                data = source.folder_file(leader_epochs.NAME)
                if data is not None:
                    return leader_epochs.read_assigned(data)
        return []

    @cached_property
    def aborted(self) -> set[AbortedTransaction]:
        """The entries of the .txnindex files of all sources, also of those whose segment is missing between others."""
        of_sources = (aborted_entries([*one.segments, *one.lost_segments]) for one in self.of_one_topic)
        return set[AbortedTransaction]().union(*of_sources)

    @property
    def main_sources(self) -> list[SalvageSource]:
        """The sources that are not only for holes."""
        return [source for source in self.sources if source.holes is None]

    @property
    def size(self) -> int:
        return sum(
            size_or_zero(segment) for source in self.sources for segment in (*source.segments, *source.snapshots)
        )


def find_partitions(
    given: Iterable[Any], topic: str | None, partition: int | None
) -> tuple[list[PartitionSources], list[LeftOut], list[DataFolderState]]:
    """Opens the sources, which are paths or opened Segments, Logs and LogDirs, and groups them by partition. Returns
    also the files and folders that are not read, whose `name` is the path, and the data folders that were named as a
    whole."""
    by_key: dict[Any, PartitionSources] = {}
    left_out: list[LeftOut] = []
    folders: list[Folder] = []
    sources = list(given)
    for one in sources:
        for opened in _open(one, left_out, alone=len(sources) == 1):
            if isinstance(opened, PartitionFiles | DataFolderFiles):
                left_out += [_left_out_with_path(opened.path, one) for one in opened.left_out]
            if isinstance(opened, DataFolderFiles):
                left_out += _files_besides_partitions(opened.path)
                folders += opened.folders
            for log in opening.logs(opened):
                if isinstance(opened, DataFolderFiles):
                    left_out += [one._replace(name=os.path.join(log.path, one.name)) for one in log.left_out]
                if log.segments_for_reports or log.checkpoints or _had_segments(log):
                    _add_to_source(by_key, log, isinstance(opened, SegmentFile), topic, partition)
    partitions = list(by_key.values())
    unread = next((one for one in left_out if one.kind == names.UNREADABLE), None)
    if not partitions and unread:
        raise OSError(errno.EIO, unread.why, unread.name)
    if not partitions:
        listed = command("verify", [str(getattr(one, "path", one)) for one in sources])
        raise Refused(
            f"there is nothing to salvage: no .log file was found; {listed} lists other files, which salvage reads if "
            "they are named"
        )
    taken = [f"{one.topic}-{one.partition}-" for one in partitions if one.topic is not None]
    # "unnamed-0-1", and so on, are further logs in the same file
    free = (name for name in map("unnamed-{}".format, count()) if not any(one.startswith(f"{name}-") for one in taken))
    for each in partitions:
        each.folder = next(free) if each.topic is None else f"{each.topic}-{each.partition}"
        if names.folder(each.folder) is None:
            raise Refused(f"{each.folder!r} is not a valid name of a partition folder: see --topic and --partition")
    data_folders = recorded_ends.data_folders(folders)
    named = list(data_folders.values())
    for source in (source for one in partitions for source in one.sources):
        if source.log is not None:
            source.data_folder = DataFolderState.of_log(source.log, data_folders)
    return partitions, [one for one in left_out if one.kind != names.COPY], named


def rank_by_topic_id(partitions: Iterable[PartitionSources], merge_different: bool) -> None:
    """Raises Refused if sources of a partition have different topic ids: they are not replicas of one log. With
    `merge_different` ranks them by the ids, and the report says so."""
    different = []
    for partition in partitions:
        named: dict[str, str] = {}  # topic id -> the first source with it
        for source in partition.sources:
            with suppress(KafkaRecordError, OSError):
                data = source.folder_file(partition_metadata.NAME)
                if data is None:
                    continue
                topic_id = partition_metadata.read(data).topic_id
                named.setdefault(topic_id, source.path)
                source.rank = list(named).index(topic_id)
        if len(named) > 1:
            ids = ", ".join(f"{topic_id} in {path}" for topic_id, path in named.items())
            first = next(iter(named.values()))
            different.append(ids)
            partition.problems.append(f"sources of different topics are merged, and batches of {first} win: {ids}")
    if different and not merge_different:
        more = f" (and {counted(len(different) - 1, 'more partition')})" if len(different) > 1 else ""
        raise Refused(
            f"the sources have different topic ids in {partition_metadata.NAME}, so they are different topics of one "
            f"name, not replicas: {different[0]}{more}. Salvage each alone, or take them for one log with "
            "--merge-different: then the path named first is the log, and the others fill what it lacks"
        )


def ids_in_meta_properties(partitions: Iterable[PartitionSources]) -> list[str]:
    """SalvageReport.source_ids"""
    paths = [source.path for one in partitions for source in one.sources if not remote.is_url(source.path)]
    found: dict[str, dict[str, None]] = {}
    for folder in dict.fromkeys(os.path.dirname(path) for path in paths):
        try:
            data = LocalFolder(folder).read(meta_properties.NAME)
        except OSError:
            continue
        for name, value in meta_properties.properties(data or b"").items():
            found.setdefault(name, {})[value] = None
    names_found = (name for name in ("cluster.id", "node.id", "broker.id", "directory.id") if name in found)
    return [f"{name}={next(iter(found[name]))}" for name in names_found if len(found[name]) == 1 or name[0] == "c"]


def unread_side_files(partition: PartitionSources) -> list[ReadFailure]:
    """The side files of the sources that cannot be read. What is written does not need them all; but a disk that fails
    in one of them is named as `verify` names it."""
    failures = []
    for source in partition.main_sources:
        folder = LocalFolder(source.path)
        if not os.path.isdir(folder.path):
            continue
        if source.log is None:
            beside = [names.side_file_name(one.name, suffix) for one in source.segments for suffix in names.SIDECARS]
        else:
            of_log = recorded_ends.files_beside(source.log)
            beside = [*names.TEXT_FILES, *(one.stem + one.suffix for one in of_log if one.suffix in names.SIDECARS)]
        failures += [failure for name in beside if (failure := _read_failure_of(folder, name)) is not None]
    return failures


def _read_failure_of(folder: LocalFolder, name: str) -> ReadFailure | None:
    """Why a file cannot be read; None: it can, or does not exist."""
    try:
        folder.read(name)
    except OSError as error:
        if not is_of_one_file(error):
            raise
        failure = read_failure(error, folder.join(name))
        return failure._replace(why=f"cannot be read: {failure.why}")
    return None


def _had_segments(log: PartitionFiles) -> bool:
    """Whether files say that a partition folder without segments had some, or may have them: .swap, .deleted."""
    if log.topic is None or log.partition is None:
        return False
    renamed = any(one.state and one.suffix == ".log" for file in log.left_out if (one := names.segment(file.name)))
    return renamed or bool(recorded_ends.read(log, recorded_ends.DataFolderState.of_log(log)))


def _files_besides_partitions(folder: str) -> list[LeftOut]:
    """The files of a data folder besides its partitions; they are reported, not copied."""
    try:
        found = sorted(os.listdir(folder))
    except OSError:  # a URL, or several folders together
        return []
    left_out = []
    for name in found:
        path, what = os.path.join(folder, name), names.meaning(name)
        if what.kind == "file" and not os.path.isdir(path):
            unread = _read_failure_of(LocalFolder(folder), name)
            if unread is None:
                left_out.append(LeftOut(path, f"not copied: {what.sentence}", what.kind))
            else:
                left_out.append(LeftOut(path, unread.why, names.UNREADABLE, False, unread.cause))
    return left_out


def _left_out_with_path(folder: str, one: LeftOut) -> LeftOut:
    """A file or folder that is not read, with its path. Files in lost+found may be segments that are missing
    elsewhere."""
    path = os.path.join(folder, one.name)
    if one.name != LOST_AND_FOUND or not os.path.isdir(path):
        return one._replace(name=path)
    try:
        count = len(os.listdir(path))
    except OSError as error:
        return _unreadable(path, error)
    if not count:
        return one._replace(name=path, why="empty: fsck found nothing")
    why = (
        f"contains {counted(count, 'file')} that fsck found without a name; salvage reads them "
        "together with their partition's folder if --topic and --partition are given. What they are: "
        f"{command('verify', [path])}/*"
    )
    return one._replace(name=path, why=why)


def _unreadable(path: str, error: OSError) -> LeftOut:
    failure = read_failure(error, path)
    return LeftOut(path, f"cannot be read: {failure.why}", names.UNREADABLE, os.path.isdir(path), failure.cause)


def _open(one: Any, left_out: list[LeftOut], alone: bool) -> list[SegmentFile | PartitionFiles | DataFolderFiles]:
    """Opens a path. One of several that cannot be opened is left out."""
    if isinstance(one, SegmentFile | PartitionFiles | DataFolderFiles):
        return [one]
    try:
        found = opening.open(one)
        return [*Finder(one).logs()] if opening.is_archive(found) else [found]
    except OSError as error:
        if alone or not is_of_one_file(error):
            raise
        left_out.append(_unreadable(os.fsdecode(one), error))
        return []


def _add_to_source(
    by_key: dict[Any, PartitionSources], log: PartitionFiles, alone: bool, topic: str | None, partition: int | None
) -> None:
    """Adds copies of the log's segments, as they are held open and closed, to a source of their partition."""
    segments = [segment.copy() for segment in log.segments_for_reports]
    named_topic = log.topic if topic is None else topic
    named_partition = log.partition if partition is None else partition
    known = named_topic is not None and named_partition is not None
    place = log.path if remote.is_url(log.path) else os.path.abspath(log.path)
    folder = os.path.dirname(place) if alone else place
    # A .checkpoint begins at offset 0 and ends at the offset in its name.
    unordered = alone and (log.segments[0].base_offset is None or log.segments[0].name.endswith(".checkpoint"))
    own = place if unordered else folder
    target = by_key.setdefault((named_topic, named_partition) if known else own, PartitionSources("", None, None))
    if known:
        target.topic, target.partition = named_topic, named_partition
    for source in target.sources:
        if source.path == own and not unordered:
            source.snapshots = source.snapshots or list(log.checkpoints)
            have = {segment.path for segment in source.segments}
            new = [segment for segment in segments if segment.path not in have]
            bases = {segment.base_offset for segment in source.segments}
            if any(segment.base_offset in bases for segment in new):
                continue  # 0030.log.deleted and 0030.log: another copy, so a separate source
            source.segments += new
            source.segments.sort(key=by_base_offset)
            return
    target.sources.append(SalvageSource(own, segments, unordered, None if alone else log, list(log.checkpoints)))
