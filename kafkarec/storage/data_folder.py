"""A broker's data folder (log.dirs), or any other folder of partition folders.

orders-0/  orders-1/ ...                     one log each
orders-7.<hex>-delete  -future  -stray       partitions that the broker is removing, is moving here, should not have
meta.properties  four *-checkpoint files     see kafkarec.sidecars
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Self

from kafkarec.sources.files import FolderEntry
from kafkarec.sources.folders import Folder, RemoteFolder, map_requests
from kafkarec.sources.read_failures import is_gone, read_failure

from . import names
from .partition_folder import FolderFiles, LeftOut, PartitionFiles
from .segment_file import SegmentFile


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
        inner, partitions, logs, left_out = [], [], [], []
        is_remote = isinstance(folder, RemoteFolder)
        own_topic = names.tiered_topic(folder.path.rstrip("/").rpartition("/")[2])
        for entry in entries:
            named = names.folder(entry.name) if entry.is_dir else None
            if (named is not None and not named.state) or (entry.is_dir and names.tiered_topic(entry.name)):
                inner.append((entry.name, folder.below(entry.name)))
            elif entry.is_dir and own_topic and names.tiered_partition(entry.name) is not None:
                partitions.append(folder.below(entry.name))
            elif (known := names.explain(entry.name, entry.is_dir)).kind != "file":
                left_out.append(LeftOut(entry.name, known.sentence, known.kind, entry.is_dir))
        for (name, one), inside in zip(inner, map_requests(_listed, [one for _, one in inner], is_remote), strict=True):
            if isinstance(inside, LeftOut):
                left_out.append(inside)
            elif names.tiered_topic(name) and (numbered := partitions_of_topic(inside)):
                partitions += [one.below(number) for number in numbered]
            elif names.folder(name):
                logs.append(cls.log_type.of(one, entries=inside, make=make))
        for partition, inside in zip(partitions, map_requests(_listed, partitions, is_remote), strict=True):
            if isinstance(inside, LeftOut):
                left_out.append(inside)
            else:
                logs.append(cls.log_type.of(partition, entries=inside, make=make))
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
        """Whether `wanted` is the (topic, partition) of one of the logs, or one of the logs."""
        return any((log.topic, log.partition) == key or log is key for log in self.logs)

    def __repr__(self) -> str:
        left = f", {len(self.left_out)} names left out" if self.left_out else ""
        return f"<{type(self).__name__} {self.path}: {len(self.logs)} partitions{left}>"


def partitions_of_topic(entries: Sequence[FolderEntry]) -> list[str]:
    """The folders of a tiered topic's partitions; none for a partition's folder: the name `a-1-<uuid>` may be that of
    topic `a-1`, or of partition 1 of topic `a`."""
    if any(not one.is_dir and names.is_segment(one.name) for one in entries):
        return []
    return [one.name for one in entries if one.is_dir and names.tiered_partition(one.name) is not None]


def _listed(folder: Folder) -> list[FolderEntry] | LeftOut:
    """A folder's entries. LeftOut if a local folder cannot be listed, so that the others are read nevertheless."""
    try:
        return folder.entries()
    except OSError as error:
        if isinstance(folder, RemoteFolder):
            raise
        name = folder.path.rstrip("/").rpartition("/")[2]
        failure = read_failure(error, folder.path)
        if is_gone(error, folder.path):
            why = "no longer there: a broker deleted or moved it"
            return LeftOut(name, why, names.REMOVED, is_folder=True, cause=failure.cause)
        why = f"cannot be listed: {failure.why}"
        return LeftOut(name, why, names.UNREADABLE, is_folder=True, cause=failure.cause)
