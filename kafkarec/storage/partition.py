"""A partition folder: its segments in order of their base offsets, and what lies beside them.

00000000000000000000.log  00000000000000000030.log ...   one log; the last segment is the one that is written to
leader-epoch-checkpoint  partition.metadata              see kafkarec.indexes
*.deleted  *.cleaned  *.swap                             what a broker was about to remove, to write, to rename
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from . import names
from .folders import Entry, Folder
from .readable import Readable
from .segment import Segment


class LeftOut(NamedTuple):
    """A name that is not read as a part of its folder, and why, in one sentence."""

    name: str
    why: str


class Log(Readable):
    """A partition: all its segments as one log.

    .segments          in order
    .checkpoints       KRaft snapshots beside them, to be read one by one
    .left_out          files that are no part of the log, each with the reason
    .topic, .partition what the folder's name tells, or the caller
    """

    def __init__(
        self, path: str, segments: Sequence[Segment], left_out: Sequence[LeftOut] = (), *,
        folder: Folder | None = None, topic: str | None = None, partition: int | None = None,
    ) -> None:  # fmt: skip
        self.path, self.topic, self.partition = path, topic, partition
        self.segments = tuple(segments)
        self.left_out = tuple(left_out)
        self.checkpoints: tuple[Segment, ...] = ()
        self._folder = folder
        for segment in self.segments[:-1]:
            segment.later_segment = True

    @classmethod
    def of(
        cls, folder: Folder, topic: str | None = None, partition: int | None = None, *,
        mapped: bool = False, entries: Sequence[Entry] | None = None,
    ) -> Log:  # fmt: skip
        """The log in a folder; what the caller says of topic and partition holds before what its name says."""
        entries = folder.entries() if entries is None else entries
        path = folder.path if "://" in folder.path else os.path.abspath(folder.path)  # of "." too
        parts = [part for part in path.replace("\\", "/").split("/") if part]
        told_topic, told_partition, _ = names.folder_place(parts)
        topic = told_topic if topic is None else topic
        partition = told_partition if partition is None else partition
        segments: list[Segment] = []
        checkpoints: list[Segment] = []
        left_out = []
        for entry in entries:
            if not entry.is_dir and names.is_segment(entry.name):
                (checkpoints if entry.name.endswith(".checkpoint") else segments).append(
                    Segment(
                        folder.join(entry.name), entry.name, folder=folder, topic=topic, partition=partition,
                        size=None if entry.name.endswith(tuple(names.WRAPPERS)) else entry.size, mapped=mapped,
                    )
                )  # fmt: skip
                continue
            known = names.explain(entry.name, entry.is_dir)
            if known.kind not in _BESIDE:
                left_out.append(LeftOut(entry.name, known.sentence))
        segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
        log = cls(folder.path, segments, left_out, folder=folder, topic=topic, partition=partition)
        log.checkpoints = tuple(checkpoints)
        return log

    def groups(self) -> Iterator[Sequence[Segment]]:
        yield self.segments

    def folder_file(self, name: str) -> bytes | None:
        """A whole file of the folder, such as "leader-epoch-checkpoint"; None: there is none."""
        return None if self._folder is None else self._folder.read(name)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def start_offset(self) -> int | None:
        """The first segment's base offset, by its name. DeleteRecords may have moved the log's start behind it."""
        return self.segments[0].base_offset if self.segments else None

    @property
    def next_offset(self) -> int | None:
        """The log end offset: behind the last batch. Reads the headers of the last segment that has any."""
        for segment in reversed(self.segments):
            last = None
            for table in segment.scan_pieces(errors="skip"):
                last = table[-1]["next_offset"] if len(table) else last
            if last is not None:
                return int(last)
        return self.start_offset

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __repr__(self) -> str:
        count = f"{len(self.segments)} segment{'' if len(self.segments) == 1 else 's'}"
        left = f", {len(self.left_out)} files left out" if self.left_out else ""
        return f"<Log {self.path}: {count}, {self.size} bytes, from offset {self.start_offset}{left}>"


# What belongs to a partition folder and is read where it is wanted: nothing to tell the user of.
_BESIDE = {"file", *(kind for kind, _ in names.SIDECARS.values()), "checkpoint"}
