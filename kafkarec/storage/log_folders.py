"""Partition folders, and folders of partition folders: a broker's data folder (log.dirs) or any other.

A partition folder has segments in order of their base offsets, and other files:

    00000000000000000000.log  00000000000000000030.log ...   segments; the last one is the active segment
    leader-epoch-checkpoint  partition.metadata              see kafkarec.sidecars
    *.deleted  *.cleaned  *.swap                             not yet removed, completed, renamed by the broker

A data folder:

    orders-0/  orders-1/ ...                     one log each
    orders-7.<hex>-delete  -future  -stray       partitions that the broker is removing, is moving here, should not have
    meta.properties  four *-checkpoint files     see kafkarec.sidecars
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from kafkarec.sources import read_failures
from kafkarec.sources.files import FolderEntry
from kafkarec.sources.folders import Folder, RemoteFolder, full_path, map_requests
from kafkarec.sources.read_failures import is_gone, read_failure
from kafkarec.support.text_table import counted

from . import names, tiered
from .segment_file import InFolder, SegmentFile
from .segment_summary import next_offset

# Kinds of files that belong in a partition folder: not listed in `left_out`.
_KINDS_IN_PARTITION = {"file", *(each.kind for each in names.SIDECARS.values()), "checkpoint"}


class LeftOut(NamedTuple):
    """A file or folder that is not read.

    why    the reason, one sentence
    kind   one word: that of `names.meaning`, "unreadable" for what could not be read, "removed" for a folder that was
           removed after its parent was listed, or "copy" for a compressed copy of a segment that is read
    cause  of what could not be read: a key of `read_failures.REMEDIES`
    """

    name: str
    why: str
    kind: str
    is_folder: bool = False
    cause: str = ""


class FolderFiles(InFolder, ABC):
    """What a folder holds that is opened together."""

    path: str
    left_out: tuple[LeftOut, ...]

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Its parts, each with a method `close`."""

    def folder_file(self, name: str) -> bytes | None:
        """A whole file of the folder, such as "leader-epoch-checkpoint"; None: there is none."""
        return None if self._folder is None else self._folder.read(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        for part in self:
            part.close()


class PartitionFiles(FolderFiles):
    """All segments of a partition, without the methods that read records; its attributes: see `kafkarec.logs.Log`.

    topic, partition   None: those of the first segment
    """

    def __init__(
        self,
        path: str,
        segments: Sequence[SegmentFile],
        left_out: Sequence[LeftOut] = (),
        *,
        folder: Folder | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        if topic is None and segments:
            topic, partition = segments[0].topic, segments[0].partition
        self.path, self.topic, self.partition = path, topic, partition
        followed, last = segments[:-1], segments[-1:]
        self.segments = (*(one.copy(later_segment=True) for one in followed), *last)
        self.left_out = tuple(left_out)
        self.checkpoints: tuple[SegmentFile, ...] = ()
        self._copies: tuple[SegmentFile, ...] = ()
        self._folder = folder

    @classmethod
    def of(
        cls,
        folder: Folder,
        topic: str | None = None,
        partition: int | None = None,
        *,
        entries: Sequence[FolderEntry] | None = None,
        make: Callable[..., SegmentFile] = SegmentFile,
    ) -> Self:
        """The log in a folder. topic, partition: override those in the folder's name. make: makes its segments.

        UnsupportedCompressionError (reason tiered_object) for a folder of a plugin's store (KIP-405).
        """
        entries = folder.entries() if entries is None else entries
        tiered.demand_no_store(folder.path, (entry.name for entry in entries if not entry.is_dir))
        named_topic, named_partition = names.folder_owner(full_path(folder.path).rstrip("/").split("/"))
        topic = named_topic if topic is None else topic
        partition = named_partition if partition is None else partition
        segments: list[SegmentFile] = []
        checkpoints: list[SegmentFile] = []
        copies: list[SegmentFile] = []
        left_out = []
        copied = names.packed_copies(entry.name for entry in entries if not entry.is_dir)
        for entry in entries:
            name, is_dir, chosen = entry.name, entry.is_dir, segments
            if names.is_segment(name) and is_dir:
                why, cause = "a folder, not a file", read_failures.NOT_A_FILE
                left_out.append(LeftOut(name, why, names.UNREADABLE, is_dir, cause))
            elif names.is_segment(name):
                if name in copied:
                    chosen, why = copies, f"a compressed copy of {copied[name]}, which is read; left out"
                    left_out.append(LeftOut(name, why, names.COPY))
                elif name.endswith(".checkpoint"):
                    chosen = checkpoints
                size = None if names.is_packed(name) else entry.size
                chosen.append(make(folder.join(name), name, folder=folder, topic=topic, partition=partition, size=size))
            elif (known := names.meaning(name, is_dir)).kind not in _KINDS_IN_PARTITION:
                left_out.append(LeftOut(name, known.sentence, known.kind, is_dir))
        segments.sort(key=by_base_offset)
        log = cls(folder.path, segments, left_out, folder=folder, topic=topic, partition=partition)
        log.checkpoints, log._copies = tuple(checkpoints), tuple(copies)
        return log

    @property
    def folder(self) -> Folder | None:
        """The folder that the log is in, also if its segments were named one by one; None: not known."""
        return self._folder or (self.segments[-1].folder if self.segments else None)

    @property
    def is_folder(self) -> bool:
        """Whether it was opened as a folder; False: segments that were named one by one."""
        return self._folder is not None

    @property
    def segments_for_reports(self) -> tuple[SegmentFile, ...]:
        """The segments, compressed copies of them, and one that cannot be opened for each folder with the name of one.
        For reports and repairs: readers and brokers ignore such files and folders."""
        folders = [one.name for one in self.left_out if one.cause and names.is_segment(one.name)]
        if self._folder is None or not (folders or self._copies):
            return self.segments
        added = [SegmentFile(self._folder.join(name), name, folder=self._folder, size=0) for name in folders]
        return tuple(sorted((*self.segments, *self._copies, *added), key=by_base_offset))

    @property
    def keys(self) -> dict[str, str | None]:
        """Those that all segments have, with the same value."""
        first, *others = [segment.keys for segment in self.segments] or [{}]
        return {name: value for name, value in first.items() if all(each.get(name, 0) == value for each in others)}

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def start_offset(self) -> int | None:
        """The base offset in the first segment's name. DeleteRecords may have set a higher log start offset."""
        return self.segments[0].base_offset if self.segments else None

    @property
    def next_offset(self) -> int | None:
        """The log end offset: the offset after the last batch. Reads the end of the last non-empty segment, and all of
        its headers if that does not tell."""
        ends = map(next_offset, reversed(self.segments))
        return next((end for end in ends if end is not None), self.start_offset)

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[SegmentFile]:
        return iter(self.segments)

    def __repr__(self) -> str:
        count = counted(len(self.segments), "segment")
        left = f", {len(self.left_out)} files left out" if self.left_out else ""
        return f"<{type(self).__name__} {self.path}: {count}, {self.size} bytes, from offset {self.start_offset}{left}>"


def by_base_offset(segment: SegmentFile) -> tuple[int, str]:
    """The key that sorts the segments of a log."""
    return segment.base_offset or 0, segment.name


class DataFolderFiles(FolderFiles):
    """The logs of a data folder, by topic and partition; iterating yields them.

    .left_out   folders and files that are not logs, each with the reason
    .folders    the folders that were opened as a whole: partitions that a data folder among them lacks are reported
    """

    log_type: ClassVar[type[PartitionFiles]] = PartitionFiles

    def __init__(
        self,
        path: str,
        logs: Sequence[PartitionFiles],
        left_out: Sequence[LeftOut] = (),
        folder: Folder | None = None,
        folders: Sequence[Folder] = (),
    ) -> None:
        self.path = path
        self.left_out = tuple(left_out)
        self._folder = folder
        self.folders = (folder,) if folder else tuple(folders)
        self.logs = tuple(sorted(logs, key=lambda log: (log.topic or "", log.partition or 0, log.path)))

    @classmethod
    def of(cls, folder: Folder, entries: Sequence[FolderEntry], make: Callable[..., SegmentFile] = SegmentFile) -> Self:
        """UnsupportedCompressionError (reason tiered_object) if a plugin's store (KIP-405) is in the folder."""
        waiting, logs, left_out = [], [], []
        above, is_remote = folder_name(folder), isinstance(folder, RemoteFolder)
        for entry in entries:
            if entry.is_dir and names.is_log_folder(entry.name, above):
                waiting.append(folder.below(entry.name))
            elif (known := names.meaning(entry.name, entry.is_dir)).kind != "file":
                left_out.append(LeftOut(entry.name, known.sentence, known.kind, entry.is_dir))
        while waiting:
            listed = zip(waiting, map_requests(_entries_or_left_out, waiting, is_remote), strict=True)
            waiting = []
            for one, inside in listed:
                name = folder_name(one)
                is_topic = names.tiered_topic(name) is not None
                if isinstance(inside, LeftOut):
                    left_out.append(inside)
                elif is_topic and (numbered := tiered_partition_folders(inside)):
                    waiting += map(one.below, numbered)
                elif not is_topic or names.folder(name):
                    logs.append(cls.log_type.of(one, entries=inside, make=make))
        return cls(folder.path, logs, left_out, folder)

    @property
    def folder(self) -> Folder | None:
        """The data folder itself; None: the logs of several folders together."""
        return self._folder

    def __iter__(self) -> Iterator[PartitionFiles]:
        return iter(self.logs)

    def __len__(self) -> int:
        return len(self.logs)

    def __contains__(self, key: object) -> bool:
        """Whether it is the (topic, partition) of one of the logs, or one of the logs."""
        return any((log.topic, log.partition) == key or log is key for log in self.logs)

    def __repr__(self) -> str:
        left = f", {len(self.left_out)} names left out" if self.left_out else ""
        return f"<{type(self).__name__} {self.path}: {len(self.logs)} partitions{left}>"


def tiered_partition_folders(entries: Sequence[FolderEntry]) -> list[str]:
    """The folders of a tiered topic's partitions; none for a partition's folder: the name `a-1-<uuid>` may be that of
    topic `a-1`, or of partition 1 of topic `a`."""
    if any(not one.is_dir and names.is_segment(one.name) for one in entries):
        return []
    return [one.name for one in entries if one.is_dir and names.tiered_partition(one.name) is not None]


def folder_name(folder: Folder) -> str:
    """The name of a folder, of "." too."""
    return full_path(folder.path).rstrip("/").rpartition("/")[2]


def _entries_or_left_out(folder: Folder) -> list[FolderEntry] | LeftOut:
    """A folder's entries. LeftOut if a local folder cannot be listed, so that the others are read nevertheless."""
    try:
        return folder.entries()
    except OSError as error:
        if isinstance(folder, RemoteFolder):
            raise
        failure = read_failure(error, folder.path)
        why, kind = f"cannot be listed: {failure.why}", names.UNREADABLE
        if is_gone(error, folder.path):
            why, kind = "no longer there: a broker deleted or moved it", names.REMOVED
        return LeftOut(folder_name(folder), why, kind, is_folder=True, cause=failure.cause)
