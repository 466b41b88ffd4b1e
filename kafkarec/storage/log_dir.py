"""A broker's data folder (log.dirs), or any folder over partition folders.

orders-0/  orders-1/ ...                     one log each
orders-7.<hex>-delete  -future  -stray       what the broker was about to remove, or is moving here
meta.properties  four *-checkpoint files     see kafkarec.sidecars
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import names
from .folders import Folder, FolderEntry, RemoteFolder, side_by_side
from .log import LeftOut, Log
from .segment import Readable, Segment, several_columns


class LogDir(Readable):
    """Partitions by (topic, partition), in order. `[topic, partition]` is a Log; iterating gives all Logs.

    .left_out   folders and files that are no log, each with the reason
    """

    def __init__(
        self, path: str, logs: Sequence[Log], left_out: Sequence[LeftOut] = (), folder: Folder | None = None
    ) -> None:
        self.path = path
        self.left_out = tuple(left_out)
        self._folder = folder
        self._logs = sorted(logs, key=lambda log: (log.topic or "", log.partition or 0, log.path))

    @classmethod
    def of(cls, folder: Folder, entries: Sequence[FolderEntry], *, mapped: bool = False) -> LogDir:
        places, topics, left_out = [], [], []
        own_topic = names.tiered_topic(folder.path.rstrip("/").rpartition("/")[2])
        for entry in entries:
            named = names.folder(entry.name) if entry.is_dir else None
            if named is not None and not named.state:
                places.append(folder.below(entry.name))
            elif entry.is_dir and names.tiered_topic(entry.name):
                topics.append(folder.below(entry.name))
            elif entry.is_dir and own_topic and names.tiered_partition(entry.name) is not None:
                places.append(folder.below(entry.name))
            elif (known := names.explain(entry.name, entry.is_dir)).kind != "file":
                left_out.append(LeftOut(entry.name, known.sentence))
        for topic, inside in zip(topics, side_by_side(folder, _listed, topics), strict=True):
            if isinstance(inside, LeftOut):
                left_out.append(inside)
                continue
            numbered = (one.name for one in inside if one.is_dir and names.tiered_partition(one.name) is not None)
            places += [topic.below(name) for name in numbered]
        logs = []
        for place, inside in zip(places, side_by_side(folder, _listed, places), strict=True):
            if isinstance(inside, LeftOut):
                left_out.append(inside)
            else:
                logs.append(Log.of(place, mapped=mapped, entries=inside))
        return cls(folder.path, logs, left_out, folder)

    def groups(self) -> Iterator[Sequence[Segment]]:
        for log in self._logs:
            yield log.segments

    def transactions(self, **wishes: Any) -> dict[tuple[str | None, int | None], Any]:
        """(topic, partition) -> the transactions of that log."""
        return {(log.topic, log.partition): log.transactions(**wishes) for log in self._logs}

    @property
    def last_stable_offset(self) -> None:
        """A data folder has none: each of its logs has its own."""
        return

    @property
    def _default_columns(self) -> tuple[str, ...] | None:
        return several_columns() if len(self._logs) > 1 else None

    def folder_file(self, name: str) -> bytes | None:
        """A whole file of the folder, such as "meta.properties"; None: there is none."""
        return None if self._folder is None else self._folder.read(name)

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, wanted: object) -> bool:
        """Whether there is a log of this (topic, partition), or this very Log."""
        return any((log.topic, log.partition) == wanted or log is wanted for log in self._logs)

    def __getitem__(self, wanted: tuple[str, int]) -> Log:
        for log in self._logs:
            if (log.topic, log.partition) == wanted:
                return log
        raise KeyError(wanted)

    def __enter__(self) -> LogDir:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def __repr__(self) -> str:
        left = f", {len(self.left_out)} names left out" if self.left_out else ""
        return f"<LogDir {self.path}: {len(self._logs)} partitions{left}>"


def _listed(folder: Folder) -> list[FolderEntry] | LeftOut:
    """What lies in one of many folders. One that the disk or its rights keep from us must not hide the others."""
    try:
        return folder.entries()
    except OSError as error:
        if isinstance(folder, RemoteFolder):
            raise
        name = folder.path.rstrip("/").rpartition("/")[2]
        return LeftOut(name, f"cannot be listed: {(error.strerror or str(error)).lower()}")
