"""Recorded ends of a log: the files that say how far the log once reached.

A log that is cut at a batch's end, or whose last segment is gone, has no damaged byte. The table below names the files
that know more. A recorded end counts only strictly above the log's end; below it, and for any gap, it proves nothing.

    LOST      only a broker that stopped while it truncated the log has such a file, else records are lost
    LONGER    the log was longer: records are lost, or the broker truncated them, which leaves such files behind
    DELETED   every record up to there was deleted on purpose (DeleteRecords); a broker deletes the segments

Read them before the log: a broker that writes meanwhile would otherwise seem to have lost what it wrote since.

A truncation leaves old entries in the memory-mapped indexes of the active segment, until others replace them, and the
leader epochs are written a little later. Where the high watermark is known and not above the end, such entries do not
count: nothing that was replicated is missing.

Of folders of partitions, and first segments, that are gone, a checkpoint's line alone proves nothing: folders are
copied in part, topics are deleted, and partitions are moved to another log directory of their broker.
`__cluster_metadata` tells these apart.

(Kafka: LogLoader, UnifiedLog.truncateTo, ProducerStateManager, AbstractIndex.truncateToEntries, LeaderEpochFileCache,
LogManager, DirectoryId; KIP-858.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from kafkarec._lazy import cached_property
from kafkarec.errors import KafkaRecordError
from kafkarec.internal_topics.cluster_topics import CLUSTER_METADATA, ClusterTopics
from kafkarec.read.decode_options import request
from kafkarec.sidecars import (
    leader_epochs,
    meta_properties,
    offset_checkpoints,
    offset_index,
    producer_snapshot,
    time_index,
    txn_index,
)
from kafkarec.sidecars.index_entries import size_before_zeros
from kafkarec.sources.folders import Folder, LocalFolder
from kafkarec.support.text_table import counted

from . import log_reading, names
from .log_folders import PartitionFiles
from .log_reading import Selection
from .ranges import RecordRange
from .segment_file import epoch_entries

Key = TypeVar("Key")
LOST, LONGER, DELETED = "lost", "longer", "deleted"
MEANINGS = (LOST, LONGER, DELETED)  # the strongest first


class RecordedEnd(NamedTuple):
    """A file, and the end of the log according to it.

    end        the offset after the last one that the log had
    meaning    LOST, LONGER or DELETED
    position   where in the segment the last batch begins that it names; None: it names none
    outlasts   whether it is in a running broker's files for a while after the log was truncated
    """

    file: str
    end: int
    meaning: str
    position: int | None = None
    outlasts: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {name: field for name, field in self._asdict().items() if name != "outlasts"}


class LogEnd(NamedTuple):
    """The end of a log: the offset after the last batch, or the last segment's name if that is higher.

    position   end position of the last batch in the last segment
    last       the last offset; None: the log has no batches
    """

    offset: int
    position: int
    last: int | None


def _last_indexed(module: Any, data: bytes, base: int) -> tuple[int, int | None] | None:
    index = module.read(data, base)
    last = index[index.rising - 1] if len(index) else None
    return last and (last.offset, getattr(last, "position", None))


# Suffix -> function of the bytes and the base offset: the last offset, and where the batch of that one begins, if the
# file says it; None: there is no entry.
_INDEXES: dict[str, Callable[[bytes, int], tuple[int, int | None] | None]] = {
    offset_index.SUFFIX: partial(_last_indexed, offset_index),
    time_index.SUFFIX: partial(_last_indexed, time_index),
    txn_index.SUFFIX: lambda data, _: max(((one.last_offset, None) for one in txn_index.read(data)), default=None),
}
_LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
_CHECKPOINTS = {
    "recovery-point-offset-checkpoint": LOST,
    HIGH_WATERMARK: LOST,
    "cleaner-offset-checkpoint": LONGER,
    _LOG_START: DELETED,
}


class DataFolderState:
    """The checkpoint files of a broker's data folder, and the topics of its cluster. They count only beside
    meta.properties: a copy of one partition into a folder with other files says nothing.

    others   the data folders that are read with it: a broker has `__cluster_metadata` in one of its log directories
    """

    def __init__(self, folder: Folder | None) -> None:
        self.folder = folder
        self.offsets: dict[str, Mapping[Any, int]] = {}  # name -> (topic, partition) -> offset
        self.meta: meta_properties.MetaProperties | None = None
        self.others: Iterable[DataFolderState] = ()
        # here and below: verify reports what cannot be read
        try:
            data = folder.read(meta_properties.NAME) if folder else None
        except OSError:
            return
        if folder is None or data is None:
            return
        with suppress(KafkaRecordError):
            self.meta = meta_properties.read(data)
        for name in _CHECKPOINTS:
            with suppress(OSError, KafkaRecordError):
                if (data := folder.read(name)) is not None:
                    self.offsets[name] = _checkpoint_offsets(data)

    @classmethod
    def of_log(cls, log: PartitionFiles, known: dict[str, DataFolderState] | None = None) -> DataFolderState:
        """The data folder that a partition folder is in: one of `known`, by their paths, or else of a local one the
        folder above, which becomes known."""
        known = {} if known is None else known
        path = os.path.dirname(os.path.abspath(log.folder.path)) if log.folder else ""
        if path not in known:
            known[path] = cls(LocalFolder(path) if isinstance(log.folder, LocalFolder) else None)
        return known[path]

    @property
    def cluster(self) -> ClusterTopics | None:
        """The topics by `__cluster_metadata` here or in one of the others; None: it is not there, or is damaged."""
        return next((found for one in (self, *self.others) if (found := one._own_cluster)), None)

    @cached_property
    def _own_cluster(self) -> ClusterTopics | None:
        if self.folder is None or self.meta is None:
            return None
        wanted = Selection(request(columns=("value",)))
        try:
            log = PartitionFiles.of(self.folder.below(f"{CLUSTER_METADATA}-0"))
            snapshot = log.checkpoints[-1:]
            begin = snapshot[0].base_offset or 0 if snapshot else 0
            before = log_reading.read([snapshot], wanted)
            later = log_reading.read([log.segments], wanted._replace(record_range=RecordRange(begin)))
        except (OSError, KafkaRecordError):
            return None
        if log.start_offset is None or log.start_offset > begin:
            return None
        return ClusterTopics([*before.column("value"), *later.column("value")])

    def log_start(self, topic: str | None, partition: int | None) -> int:
        """The offset below which the records of a partition count as deleted; 0: not known."""
        return self.offsets.get(_LOG_START, {}).get((topic, partition), 0)

    def is_cleaned(self, topic: str | None, partition: int | None) -> bool | None:
        """Whether the log cleaner has worked on a partition, or certainly will; None: not known."""
        if topic in names.ALWAYS_COMPACTED:
            return True
        offsets = self.offsets.get("cleaner-offset-checkpoint")
        return None if offsets is None or topic is None else (topic, partition) in offsets


def is_compacted(segment_path: str, topic: str | None, partition: int | None) -> bool:
    """Whether a partition is known to be compacted: by its topic or, on a local disk, by cleaner-offset-checkpoint in
    the broker's data folder. segment_path: of one of its segments"""
    above = None if "://" in segment_path else os.path.dirname(os.path.dirname(os.path.abspath(segment_path)))
    return DataFolderState(LocalFolder(above) if above else None).is_cleaned(topic, partition) is True


# A checkpoint file has a line for each partition, and it is read again for each partition that needs it.
_checkpoint_offsets = lru_cache(2 * len(_CHECKPOINTS))(offset_checkpoints.read)


def data_folders(folders: Iterable[Folder]) -> dict[str, DataFolderState]:
    """Path -> data folder."""
    found = {os.path.abspath(folder.path): DataFolderState(folder) for folder in folders}
    for one in found.values():
        one.others = found.values()
    return found


def read(log: PartitionFiles, data_folder: DataFolderState) -> tuple[RecordedEnd, ...]:
    """The recorded ends of a log, whether or not they are above its end. None count if the folder has a later segment
    than `log`: the log goes on there. If it has a later one that is `.deleted`, with its indexes, the broker truncated
    the log and has not come to its snapshots and checkpoints yet: only records that were deleted on purpose count.

    .index, .timeindex and .txnindex of earlier segments are not read, as the next segment's name is higher.
    """
    place, checkpoints, folder = (log.topic, log.partition), data_folder.offsets.items(), log.folder
    found = [RecordedEnd(name, known[place], _CHECKPOINTS[name]) for name, known in checkpoints if place in known]
    if folder is None:
        return tuple(found)
    named = [names.segment(one.name) for one in log.segments]
    last = max(filter(None, reversed(named)), key=lambda one: one.base_offset, default=None)  # names may be exchanged
    if named and (last is None or None in named[-1:] or last.suffix != ".log" or last.state):
        return ()  # a file of any name: its place in a log is not known
    with_deleted = files_beside(log, ("", ".deleted"))
    later = {(one.suffix, one.state) for one in with_deleted if last and one.base_offset > last.base_offset}
    if (".log", "") in later:
        return ()
    if (".log", ".deleted") in later and later.isdisjoint((suffix, "") for suffix in _INDEXES):
        return tuple(one for one in found if one.meaning == DELETED)
    beside = [one for one in with_deleted if not one.state]
    segments = {one.base_offset for one in beside if one.suffix == ".log"}
    for one in beside:
        if one.suffix == producer_snapshot.SUFFIX:
            found.append(RecordedEnd(one.stem + one.suffix, one.base_offset, LOST))
        elif one.suffix in _INDEXES and (last is None or one.base_offset >= last.base_offset):
            found += _ends_of_index(one, folder, one.base_offset in segments)
    # An epoch that begins at the log's end is that of a leader that has written nothing yet.
    starts = [entry.start_offset for entry in epoch_entries(folder)[-1:]]
    found += [RecordedEnd(leader_epochs.NAME, start, LONGER, outlasts=True) for start in starts]
    return tuple(found)


def files_beside(log: PartitionFiles, states: Collection[str] = ("",)) -> list[names.SegmentName]:
    """The log's segments and their side files that are in its folder now. states: see names.SegmentName."""
    if log.folder is None:
        return []
    last = names.segment(log.segments[-1].name) if log.segments else None
    try:
        return names.files_of_log(log.folder.names(), last, states)
    except OSError:
        return []  # reported where the folder is listed for its segments


def was_cleaned_meanwhile(log: PartitionFiles) -> bool | None:
    """Whether the log cleaner has worked on a log by now that its checkpoint did not list; None: not known. The cleaner
    lists a log only when it is done with it. Until then, and for file.delete.delay.ms (60 s) after, a segment that it
    replaced is beside the new one of the same base offset."""
    if DataFolderState.of_log(log).is_cleaned(log.topic, log.partition):
        return True
    beside = [one for one in files_beside(log, ("", ".deleted")) if one.suffix == ".log"]
    segments, replaced = ({one.base_offset for one in beside if one.state == state} for state in ("", ".deleted"))
    return False if segments.isdisjoint(replaced) else None


def _ends_of_index(one: names.SegmentName, folder: Folder, has_segment: bool) -> Iterator[RecordedEnd]:
    name, last = one.stem + one.suffix, None
    with suppress(OSError, KafkaRecordError):
        if (data := folder.read(name)) and size_before_zeros(data):  # only zeros: preallocated
            last = _INDEXES[one.suffix](data, one.base_offset)
    if not has_segment:
        yield RecordedEnd(name, max(one.base_offset, last[0] + 1 if last else 0), LONGER)
    elif last is not None:
        yield RecordedEnd(name, last[0] + 1, LONGER, last[1], outlasts=one.suffix != txn_index.SUFFIX)


def ends_above(recorded: Iterable[RecordedEnd], end: LogEnd) -> tuple[RecordedEnd, ...]:
    """The credible recorded ends strictly above a log's end, the strongest meaning and the highest end first."""
    found = tuple(credible_ends(recorded, end))
    is_replicated = any(one.file == HIGH_WATERMARK and one.end <= end.offset for one in found)
    higher = [one for one in found if one.end > end.offset and not (one.outlasts and is_replicated)]
    return tuple(sorted(higher, key=lambda one: (MEANINGS.index(one.meaning), -one.end, one.file)))


class EndVerdict(NamedTuple):
    """A log's end, and the recorded ends above it, as `ends_above` gives them."""

    end: LogEnd
    higher: tuple[RecordedEnd, ...] = ()

    @property
    def beyond_end(self) -> int:
        """The number of offsets that are missing at least."""
        return self.higher[0].end - self.end.offset if self.higher and self.higher[0].meaning != DELETED else 0

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key, worst first; only with `higher`."""
        return MEANINGS.index(self.higher[0].meaning), -self.beyond_end

    @property
    def headline(self) -> str:
        """A few words about the strongest one of these; empty: there is none."""
        if not self.higher:
            return ""
        first = self.higher[0]
        if first.meaning == DELETED:
            return f"the log ends before its start offset {first.end} ({first.file})"
        where = f"after {self.end.last}" if self.end.last is not None else f"up to {first.end - 1}"
        is_or_are = "is" if self.beyond_end == 1 else "are"
        return (
            f"{'' if first.meaning == LOST else 'the log was longer: '}at least {counted(self.beyond_end, 'offset')} "
            f"{where} {is_or_are} missing, according to {first.file}"
        )


def credible_ends(recorded: Iterable[RecordedEnd], end: LogEnd) -> tuple[RecordedEnd, ...]:
    """The recorded ends without wrong index entries: those above the end that point at bytes before it."""
    return tuple(
        one for one in recorded if one.end <= end.offset or one.position is None or one.position >= end.position
    )


def end_without_segments(log: PartitionFiles, recorded: Sequence[RecordedEnd]) -> LogEnd:
    """The end of a log whose segments are all gone: where the first of their indexes begins, else just below the
    highest recorded end."""
    highest = max((one.end for one in recorded), default=0)
    orphans = names.indexes_without_segment(files_beside(log))
    return LogEnd(min(orphans, default=max(highest - 1, 0)), 0, None)


class SegmentGap(NamedTuple):
    """The offsets `first` to `last` are missing between a segment and the next one.

    base       base offset of the segment before
    position   end position of its last batch
    """

    first: int
    last: int
    base: int
    position: int


def proven_losses(log: PartitionFiles, gaps: Mapping[Key, SegmentGap]) -> dict[Key, str]:
    """The gaps that are a loss, each with a sentence why: an index is there without its segment, or the index of the
    segment before goes on in the gap. A cleaner that leaves gaps leaves neither."""
    found: dict[Key, str] = {}
    orphans = names.indexes_without_segment(files_beside(log)) if gaps else {}
    segments = {segment.base_offset: segment for segment in log.segments}
    for key, gap in gaps.items():
        missing = [name for base, name in orphans.items() if gap.first <= base <= gap.last]
        before = segments.get(gap.base)
        parsed = names.segment(before.name) if before else None
        longer: tuple[RecordedEnd, ...] = ()
        if log.folder and parsed:
            beside = [parsed._replace(suffix=suffix) for suffix in _INDEXES]
            ends = (end for one in beside for end in _ends_of_index(one, log.folder, has_segment=True))
            longer = ends_above(ends, LogEnd(gap.first, gap.position, None))
        if missing:
            found[key] = f"{missing[0]} is there, but not its segment"
        elif longer and before:
            found[key] = f"according to {longer[0].file} {before.name} had offset {longer[0].end - 1}"
    return found


class MissingFolder(NamedTuple):
    """A partition without a folder. is_lost: whether that is proven to be a loss; path: where it would be"""

    is_lost: bool
    path: str
    why: str


def missing_folders(folders: Collection[DataFolderState], logs: Iterable[Any]) -> list[MissingFolder]:
    """The partitions that data folders which were opened as a whole should have, or once had, and that are in none of
    them and not among the logs. They are listed last: a broker makes a folder after the record that assigns it."""
    expected: dict[Any, MissingFolder] = {}
    known = [(one.folder, one) for one in folders if one.folder and (one.meta or one.offsets)]
    for folder, one in known:
        for place, is_lost, why in _missing_folders_of(one):
            if is_lost or place not in expected or not expected[place].is_lost:
                expected[place] = MissingFolder(is_lost, folder.join("{}-{}".format(*place)), why)
    there = {(log.topic, log.partition) for log in logs}
    try:
        entries = [entry.name for folder, _ in known for entry in folder.entries()]
    except OSError:  # a failing disk: it was listed before
        return []
    there |= {named[:2] for entry in entries if (named := names.folder(entry))}
    return sorted(missing for place, missing in expected.items() if place not in there)


def _missing_folders_of(one: DataFolderState) -> Iterator[tuple[Any, bool, str]]:
    """(topic and partition, whether its absence is a loss, why)"""
    for name, offsets in one.offsets.items():
        for place, offset in offsets.items():
            yield place, False, f"no folder here, but {name} has offset {offset}"
    if one.cluster is None or one.meta is None or one.meta.node_id is None:
        return
    own, broker = one.meta.directory_id, one.meta.node_id
    for at, replicas in one.cluster.replicas.items():
        if broker in replicas:
            directory, is_lost = replicas[broker], at in one.offsets.get(HIGH_WATERMARK, ())
            if directory:
                is_lost = directory == own or directory not in one.cluster.directories.get(broker, [directory])
            where = f" in {directory}" if directory else ""
            yield at, is_lost, f"no folder here, but {CLUSTER_METADATA} assigns it to broker {broker}{where}"


def lost_folders_text(lost: Sequence[str]) -> str:
    """A few words about lost folders, by their paths; empty: there are none."""
    shown = ", ".join(map(os.path.basename, lost[:3])) + ", ..." * (len(lost) > 3)
    return f"{counted(len(lost), 'partition')} without a folder: {shown}" if lost else ""


def lost_start(log: PartitionFiles, data_folder: DataFolderState) -> tuple[int, int, str] | None:
    """(first, last, why) of the offsets below the first segment of a log of which nothing deletes a segment, as its
    topic is only compacted, and not tiered; None: there are none, or its segments were named one by one."""
    base = min((one.base_offset for one in files_beside(log, ("", ".swap")) if one.suffix == ".log"), default=0)
    epochs = epoch_entries(log.folder) if base and log.is_folder and data_folder.meta else ()
    first = max((data_folder.log_start(log.topic, log.partition), *(one.start_offset for one in epochs[:1])))
    if not epochs or first >= base or data_folder.cluster is None:
        return None
    settings = data_folder.cluster.settings.get(log.topic or "", {})
    if settings.get("cleanup.policy") != "compact" or settings.get("remote.storage.enable") == "true":
        return None
    return first, base - 1, f"{leader_epochs.NAME} begins at offset {first}, and the topic is only compacted"
