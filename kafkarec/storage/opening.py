"""Turns a path, a URL, a file object or a list of them into a segment, a log or a data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kafkarec.format.java_integers import INT_MAX, number_or_none
from kafkarec.read.decode_options import request
from kafkarec.sources import remote
from kafkarec.sources.files import FileObject, FolderEntry
from kafkarec.sources.folders import Folder, LocalFolder, RemoteFolder, full_path
from kafkarec.support.command_line import as_operand, command, quoted
from kafkarec.tables.records import RecordColumns

from . import log_reading, names
from .log_folders import DataFolderFiles, FolderFiles, LeftOut, PartitionFiles, folder_name, tiered_partition_folders
from .segment_file import SegmentFile

Opened = SegmentFile | PartitionFiles | DataFolderFiles
_NO_OWNER = (None, None)


class Opener:
    """Opens logs as the types of a data folder, its logs and their segments.

    restore: see kafkarec.open
    """

    def __init__(
        self,
        folder_type: type[DataFolderFiles] = DataFolderFiles,
        segment_type: type[SegmentFile] = SegmentFile,
        restore: bool = True,
    ) -> None:
        self.folder_type, self.log_type = folder_type, folder_type.log_type
        self.make = partial(segment_type, restore=restore, prepared=prepared_transactions)

    def open(
        self,
        path: Any,
        *,
        topic: str | None = None,
        partition: int | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> Opened:
        """See kafkarec.open."""
        if not isinstance(topic, str | None):
            raise ValueError(f"topic {topic!r}: a name (str) or None")
        number = number_or_none("partition", partition, f"0 to {INT_MAX}, or None", 0, INT_MAX)
        if isinstance(path, list | tuple):
            several = [
                one if isinstance(one, Opened) else self.open(one, storage_options=storage_options) for one in path
            ]
            return self._combined(several, topic, number)
        if hasattr(path, "read_at") or (hasattr(path, "read") and not isinstance(path, os.PathLike)):
            source = path if hasattr(path, "is_damage") else FileObject(path)
            return self.make(
                source.name,
                os.path.basename(source.name),
                source=source,
                topic=topic,
                partition=number,
                size=source.size,
            )
        text = os.fsdecode(path)
        local = remote.local_path(text)
        folder: Folder
        size: int | None
        if local is None:
            _demand_batches(text)
            options = storage_options or {}
            info = remote.stat(text, options)
            if info.is_dir:
                return self._open_folder(RemoteFolder(text, options), topic, number)
            above, _, name = text.rpartition("/")
            folder, size = RemoteFolder(above, options), info.size
        else:
            if os.path.isdir(local):
                return self._open_folder(LocalFolder(local), topic, number)
            _demand_batches(local)
            above, name = os.path.split(local)
            # 0 for a block device is not its size; raises the system's error early
            folder, size = LocalFolder(above), os.stat(local).st_size or None
        place = folder.join(name)
        named = names.topic_partition_of_path(full_path(place))
        return self.make(
            place,
            name,
            folder=folder,
            topic=named[0] if topic is None else topic,
            partition=named[1] if number is None else number,
            size=None if names.is_packed(name) else size,
        )

    def _open_folder(self, folder: Folder, topic: str | None, partition: int | None) -> Opened:
        """A log for a partition folder; a data folder also for copies of several partitions in one folder, with topic
        and partition in their names: orders-7-00000000000000000030.log."""
        entries = folder.entries()
        by_owner: dict[tuple[str | None, int | None], list[FolderEntry]] = {}  # files by the partition in their names
        copied = set()  # the partitions of segments
        for entry in entries:
            parsed = names.segment(entry.name)
            owner = (parsed.topic, parsed.partition) if parsed else _NO_OWNER
            by_owner.setdefault(owner, []).append(entry)
            if not entry.is_dir and names.is_segment(entry.name):
                copied.add(owner)
        has_segments = bool(copied)
        copied.discard(_NO_OWNER)
        if len(copied) > 1:
            left_out = []
            for entry in by_owner.pop(_NO_OWNER, ()):
                if (kind := names.meaning(entry.name, entry.is_dir).kind) != "file":
                    why = "a folder" if entry.is_dir else "its name has no topic and partition"
                    why += ", beside copies of several partitions; left out, name it to read it"
                    left_out.append(LeftOut(entry.name, why, kind, entry.is_dir))
            logs = [
                self.log_type.of(folder, *owner, entries=files, make=self.make) for owner, files in by_owner.items()
            ]
            return self.folder_type(folder.path, logs, left_out, folder)
        name = folder_name(folder)
        own = None if names.tiered_topic(name) and tiered_partition_folders(entries) else names.folder(name)
        if has_segments or (own is not None and not any(names.folder(entry.name) for entry in entries if entry.is_dir)):
            named = next(iter(copied), _NO_OWNER)
            return self.log_type.of(
                folder,
                named[0] if topic is None else topic,
                named[1] if partition is None else partition,
                entries=entries,
                make=self.make,
            )
        return self.folder_type.of(folder, entries, self.make)

    def logs(self, opened: Opened) -> list[PartitionFiles]:
        """The logs of what was opened; a segment alone becomes a log of one segment."""
        if isinstance(opened, DataFolderFiles):
            return list(opened)
        if isinstance(opened, PartitionFiles):
            return [opened]
        return [self.log_type(opened.path, [opened])]

    def _combined(self, opened: Sequence[Opened], topic: str | None, partition: int | None) -> Opened:
        """Segments of one partition as one log; everything else as a data folder."""
        if not opened:
            raise ValueError("an empty list of paths")
        by_partition: dict[object, list[SegmentFile]] = {}
        listed: list[PartitionFiles] = []
        for one in opened:
            demand_no_archive(one)
            if isinstance(one, SegmentFile):
                named = one.copy(topic=topic or one.topic, partition=one.partition if partition is None else partition)
                owner = named.topic, named.partition
                by_partition.setdefault(one.path if owner == (None, None) else owner, []).append(named)
            else:
                listed += self.logs(one)
        for group in by_partition.values():
            group.sort(key=lambda segment: (segment.base_offset or 0, segment.path))
            listed.append(self.log_type(group[0].path, group))
        folders = [folder for one in opened if isinstance(one, DataFolderFiles) for folder in one.folders]
        if len(listed) == 1 and not folders:
            return listed[0]
        return self.folder_type(", ".join(sorted(log.path for log in listed)), listed, folders=folders)


def is_archive(opened: Opened) -> bool:
    """Whether a folder has folders key=value, and no segments outside of them."""
    found = logs(opened)
    folders: list[FolderFiles] = [*found, opened] if isinstance(opened, DataFolderFiles) else [*found]
    below = (each.name for folder in folders for each in folder.left_out if each.is_folder)
    return not any(log.segments for log in found) and any("=" in name for name in below)


def demand_no_archive(opened: Opened) -> None:
    """ValueError for an archive; empty partitions beside such a folder are a data folder."""
    if is_archive(opened) and not (isinstance(opened, DataFolderFiles) and logs(opened)):
        raise ValueError(f"{opened.path} has no segments, but folders key=value: kafkarec.find reads what is in them")


def prepared_transactions(segment: SegmentFile) -> dict[tuple[int, int], bool]:
    """What `__transaction_state` beside the log of a segment says of the log's transactions."""
    if segment.topic is None or segment.partition is None or not os.path.exists(segment.path):
        return {}
    from kafkarec.internal_topics import transactional_ids  # not at the top: an eighth of a first `ls`

    return transactional_ids.prepared_outcomes(transaction_state_beside(segment.path), segment.topic, segment.partition)


def transaction_state_beside(path: str) -> Iterator[RecordColumns]:
    """The records of `__transaction_state` in the data folder that a path is in, or that it is. None for a URL."""
    from kafkarec.internal_topics import transactional_ids

    if remote.is_url(path):
        return
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    found: list[PartitionFiles] = []
    for parent in (folder, os.path.dirname(os.path.abspath(folder))):
        with suppress(OSError):
            for entry in sorted(os.listdir(parent)):
                named, inside = names.folder(entry), os.path.join(parent, entry)
                is_of_topic = named is not None and named.topic == transactional_ids.TOPIC and not named.state
                if is_of_topic and os.path.isdir(inside):
                    with suppress(OSError):
                        found.append(PartitionFiles.of(LocalFolder(inside)))
        if found:
            break
    wanted = request(columns=transactional_ids.COLUMNS, errors="skip")
    for log in found:
        for _, piece in log_reading.pieces([log.segments], log_reading.Selection(wanted)):
            yield piece


def _demand_batches(path: str) -> None:
    """Raises ValueError for index, checkpoint and other files that, by their names, have no batches. It says what the
    file is, and what shows it."""
    name = path.replace("\\", "/").rpartition("/")[2]
    known = name.removesuffix(".tmp")
    if known in names.FILES and name != "bootstrap.checkpoint":
        is_shown = known in names.TEXT_FILES and not remote.is_url(path)
        shown = f"; it is text: less {quoted(as_operand(path))}" if is_shown else ""
        raise ValueError(f"{path} holds no records; it is: {names.FILES[known]}{shown}")
    side_file, parsed = names.side_file_kind(name), names.segment(name)
    if side_file is not None:
        is_dumped = side_file.is_dumped and parsed is not None and not parsed.state
        shown = f", or print it: {command('dump', [path])}" if is_dumped else ""
        raise ValueError(f"{path} is {side_file.what} and holds no records; name its .log file{shown}")


_OPENER = Opener()
open, logs = _OPENER.open, _OPENER.logs
