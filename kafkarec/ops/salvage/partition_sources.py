"""Which of the given files belong to one partition, and in which order they are read.

a data folder, a partition folder     its segments, by base offset: one source per partition
a .log with Kafka's name              those of one folder together are one source
any other file (an image, #12345)     loose: its batches may be in any order; a log of its own, unless the caller gives
                                      topic and partition
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkarec import storage
from kafkarec.storage import Log, LogDir, Segment, names
from kafkarec.storage.output_rules import Refused

from .report import LOST_AND_FOUND, UNREAD

# Error numbers of lost data on a disk. Other errors (permission, network) are not damage: they end the run.
MEDIUM = {errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENXIO, errno.ENODATA}


@dataclass
class SalvageSource:
    """Segments of one replica, in order. loose: one file whose batches may be in any order. snapshots: KRaft ones."""

    path: str
    segments: list[Segment]
    loose: bool = False
    log: Log | None = None
    snapshots: list[Segment] = field(default_factory=list)


@dataclass
class SalvagePartition:
    """The sources of one folder of the output."""

    folder: str
    topic: str | None
    partition: int | None
    sources: list[SalvageSource] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(segment.size for source in self.sources for segment in (*source.segments, *source.snapshots))

    @property
    def in_steps(self) -> bool:
        """Whether each segment is a step of its own: there is one source, in order."""
        return len(self.sources) == 1 and not self.sources[0].loose


@dataclass
class Found:
    """The partitions of all sources. left_out: (path, why) of what is not read."""

    partitions: list[SalvagePartition]
    left_out: list[tuple[str, str]]


def find(given: Iterable[Any], topic: str | None = None, partition: int | None = None) -> Found:
    """Opens the sources, which are paths or opened Segments, Logs and LogDirs, and groups them by partition."""
    by_key: dict[Any, SalvagePartition] = {}
    left_out: list[tuple[str, str]] = []
    for one in given:
        for opened in _open(one, left_out):
            if isinstance(opened, Log | LogDir):
                left_out += [
                    (os.path.join(opened.path, name), _why(opened, name, why)) for name, why in opened.left_out
                ]
            if isinstance(opened, LogDir):
                left_out += _small_files(opened.path)
            for log in storage.logs(opened):
                if log is not opened and isinstance(opened, LogDir):
                    left_out += [(os.path.join(log.path, name), why) for name, why in log.left_out]
                if log.segments or log.checkpoints:
                    _add(by_key, log, isinstance(opened, Segment), topic, partition)
    partitions = list(by_key.values())
    unread = next((one for one in left_out if one[1].startswith(UNREAD)), None)
    if not partitions and unread:
        raise OSError(errno.EIO, unread[1], unread[0])
    if not partitions:
        folder = os.path.dirname(left_out[0][0]) if left_out else ""
        such = f", such as {shlex.quote(folder)}/*" if folder else ""
        raise Refused(
            f"there is nothing to salvage: no .log file was found; name files themselves to have them read{such}"
        )
    for source in (source for one in partitions for source in one.sources if not source.loose):
        for segment in source.segments[:-1]:  # a cut at the end is a loss there, also where files are named one by one
            segment.later_segment = True
    _name(partitions)
    return Found(partitions, left_out)


def _small_files(folder: str) -> list[tuple[str, str]]:
    """The files of a data folder besides its partitions; they are reported, not copied."""
    try:
        found = sorted(os.listdir(folder))
    except OSError:  # a URL, or several folders together
        return []
    explained = ((os.path.join(folder, name), names.explain(name)) for name in found)
    return [
        (path, f"not copied: {what.sentence}")
        for path, what in explained
        if what.kind == "file" and os.path.isfile(path)
    ]


def _why(opened: Log | LogDir, name: str, why: str) -> str:
    """Why something is not read. A file in lost+found may be a segment that is missing elsewhere."""
    path = os.path.join(opened.path, name)
    if name != LOST_AND_FOUND or not os.path.isdir(path):
        return why
    try:
        count = len(os.listdir(path))
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    if not count:
        return "empty: fsck found nothing"
    return (
        f"holds {count} {'file' if count == 1 else 'files'} that fsck found without a name: "
        f"kafkarec verify {shlex.quote(path)}/* says what they are; salvage takes them beside their partition's "
        "folder with --topic and --partition"
    )


def _open(one: Any, left_out: list[tuple[str, str]]) -> list[Segment | Log | LogDir]:
    """Opens a path. If a data folder cannot be opened for a disk error, every partition folder in it that can be."""
    if isinstance(one, Segment | Log | LogDir):
        return [one]
    try:
        return [storage.open(one)]
    except OSError as error:
        if error.errno not in MEDIUM or not os.path.isdir(one):
            raise
        below: list[Segment | Log | LogDir] = []
        for name in sorted(os.listdir(one)):
            folder = os.path.join(os.fsdecode(one), name)
            if names.folder(name) is None or not os.path.isdir(folder):
                continue
            try:
                below.append(storage.open(folder))
            except OSError as reason:
                left_out.append((folder, f"cannot be read: {(reason.strerror or str(reason)).lower()}"))
        if not below:
            raise
        return below


def _add(by_key: dict[Any, SalvagePartition], log: Log, alone: bool, topic: str | None, partition: int | None) -> None:
    named_topic = log.topic if topic is None else topic
    named_partition = log.partition if partition is None else partition
    known = named_topic is not None and named_partition is not None
    folder = os.path.dirname(os.path.abspath(log.path)) if alone else os.path.abspath(log.path)
    # A .checkpoint begins at offset 0 and ends at the offset in its name.
    loose = alone and (log.segments[0].base_offset is None or log.segments[0].name.endswith(".checkpoint"))
    own = os.path.abspath(log.path) if loose else folder
    into = by_key.setdefault((named_topic, named_partition) if known else own, SalvagePartition("", None, None))
    if known:
        into.topic, into.partition = named_topic, named_partition
    for source in into.sources:
        if source.path == own and not loose:
            source.snapshots = source.snapshots or list(log.checkpoints)
            have = {segment.path for segment in source.segments}
            new = [segment for segment in log.segments if segment.path not in have]
            bases = {segment.base_offset for segment in source.segments}
            if any(segment.base_offset in bases for segment in new):
                continue  # 0030.log.deleted besides 0030.log: another copy, a source of its own
            source.segments += new
            source.segments.sort(key=lambda segment: (segment.base_offset or 0, segment.name))
            return
    into.sources.append(SalvageSource(own, list(log.segments), loose, None if alone else log, list(log.checkpoints)))


def _name(partitions: list[SalvagePartition]) -> None:
    """Sets the folder names: topic-partition, and unnamed-0, unnamed-1 ... without a topic."""
    taken = {f"{one.topic}-{one.partition}" for one in partitions if one.topic is not None}
    number = 0
    for one in partitions:
        if one.topic is not None:
            one.folder = f"{one.topic}-{one.partition}"
            if names.folder(one.folder) is None:
                raise Refused(f"{one.folder!r} is no name of a partition's folder: see --topic and --partition")
            continue
        while f"unnamed-{number}" in taken:
            number += 1
        one.folder = f"unnamed-{number}"
        taken.add(one.folder)
