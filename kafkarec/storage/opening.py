"""kafkarec.open: turns a path, a URL, a file object or a list of them into a Segment, a Log or a LogDir."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

from kafkarec.internal_topics import transactional_ids
from kafkarec.sources import remote
from kafkarec.sources.files import FileObject
from kafkarec.sources.folders import Folder, LocalFolder, RemoteFolder
from kafkarec.sources.remote import FolderEntry

from . import names
from .log import Log
from .log_dir import LogDir, partitions_of_topic
from .segment import Segment

Opened = Segment | Log | LogDir


def open(  # the name that users call: kafkarec.open
    path: Any,
    *,
    topic: str | None = None,
    partition: int | None = None,
    restore: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> Opened:
    """Opens files and folders of record batches. Reads names and sizes only.

    path: a file (.log, .checkpoint, any blob, also .gz and .zst): a Segment
          a partition folder: a Log; a broker's data folder: a LogDir
          a URL such as s3://bucket/kafka-backup/orders-0: the same, by range reads (pip install 'kafkarec[remote]')
          an open binary file, any object with read and seek, or a sources.files.ByteSource: a Segment
          a list of these: one Log if all are segments of one partition, else a LogDir
    topic, partition: override those in the names of files and folders
    restore: False: reading, verify and salvage restore no header fields (see decode); such batches are damage
    storage_options: passed to fsspec or pyarrow.fs for a URL

    Raises the system's FileNotFoundError, PermissionError and other OSErrors; ValueError for files that have no batches
    according to their names, such as an .index; UnsupportedCompressionError (reason tiered_object) for a store of a
    tiered-storage plugin, which is not read yet.
    """
    opened = _open(path, topic, partition, storage_options)
    for segment in (segment for group in opened.groups() for segment in group):
        segment.restore = restore
        segment.prepared = partial(prepared_transactions, segment)
    return opened


def prepared_transactions(segment: Segment) -> dict[tuple[int, int], bool]:
    """What `__transaction_state` beside the log of a segment says of the log's transactions."""
    if segment.topic is None or segment.partition is None or not os.path.exists(segment.path):
        return {}
    beside = logs_beside(segment.path, transactional_ids.TOPIC)
    return transactional_ids.prepared(beside, segment.topic, segment.partition)


def _open(path: Any, topic: str | None, partition: int | None, storage_options: dict[str, Any] | None) -> Opened:
    if isinstance(path, list | tuple):
        return _several([open(one, storage_options=storage_options) for one in path], topic, partition)
    if hasattr(path, "read_at") or (hasattr(path, "read") and not isinstance(path, os.PathLike)):
        source = path if hasattr(path, "is_damage") else FileObject(path)
        return Segment(
            source.name,
            os.path.basename(source.name),
            source=source,
            topic=topic,
            partition=partition,
            size=source.size,
        )
    text = os.fsdecode(path)
    if remote.is_url(text):
        local = remote.local_path(text)
        if local is None:
            return _remote(text, storage_options or {}, topic, partition)
        text = local
    if os.path.isdir(text):
        return _open_folder(LocalFolder(text), topic, partition)
    _demand_batches(text)
    folder, name = os.path.split(text)
    size = os.stat(text).st_size or None  # 0 for a block device is not its size; raises the system's error early
    return _opened(LocalFolder(folder), name, size, topic, partition)


def _demand_batches(path: str) -> None:
    """Raises ValueError for index, checkpoint and other files that, by their names, have no batches."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if name in names.FILES and name != "bootstrap.checkpoint":
        raise ValueError(f"{path} holds no records; it is: {names.FILES[name]}")
    for suffix, side_file in names.SIDECARS.items():
        if path.endswith(suffix):
            raise ValueError(f"{path} is {side_file.what} and holds no records; name the .log beside it")


def _remote(url: str, options: dict[str, Any], topic: str | None, partition: int | None) -> Opened:
    _demand_batches(url)
    info = remote.stat(url, options)
    if info.is_dir:
        return _open_folder(RemoteFolder(url, options), topic, partition)
    above, _, name = url.rpartition("/")
    return _opened(RemoteFolder(above, options), name, info.size, topic, partition)


def _opened(folder: Folder, name: str, size: int | None, topic: str | None, partition: int | None) -> Segment:
    """The Segment for a file of a folder."""
    path = folder.join(name)
    owner = names.segment_owner(os.path.abspath(path) if isinstance(folder, LocalFolder) else path)
    return Segment(
        path,
        name,
        folder=folder,
        topic=owner.topic if topic is None else topic,
        partition=owner.partition if partition is None else partition,
        size=None if names.is_packed(name) else size,
    )


def _open_folder(folder: Folder, topic: str | None, partition: int | None) -> Opened:
    """A Log for a partition folder; a LogDir for a data folder or for copies of several partitions in one folder."""
    entries = folder.entries()
    segments = [entry for entry in entries if not entry.is_dir and names.is_segment(entry.name)]
    flat = {(one.topic, one.partition) for entry in segments if (one := names.segment(entry.name)) and one.topic}
    if len(flat) > 1:
        return _flat(folder, entries)
    last = _last(folder.path)
    own = None if names.tiered_topic(last) and partitions_of_topic(entries) else names.folder(last)
    if segments or (own is not None and not any(names.folder(entry.name) for entry in entries if entry.is_dir)):
        named = next(iter(flat)) if flat else (None, None)
        return Log.of(
            folder,
            named[0] if topic is None else topic,
            named[1] if partition is None else partition,
            entries=entries,
        )
    return LogDir.of(folder, entries)


def _last(path: str) -> str:
    return os.path.basename(os.path.abspath(path)) if "://" not in path else path.rstrip("/").rpartition("/")[2]


def _flat(folder: Folder, entries: Sequence[FolderEntry]) -> LogDir:
    """Copies in one folder with topic and partition in their names: orders-7-00000000000000000030.log."""

    def owner(entry: FolderEntry) -> tuple[str, int]:
        parsed = names.segment(entry.name)
        return (parsed.topic or "", parsed.partition or 0) if parsed else ("", 0)

    logs = [
        Log.of(folder, topic, partition, entries=list(group))
        for (topic, partition), group in groupby(sorted(entries, key=owner), key=owner)
        if topic
    ]
    return LogDir(folder.path, logs, (), folder)


def _several(opened: Iterable[Opened], topic: str | None, partition: int | None) -> Opened:
    """Segments of one partition as one Log; everything else as a LogDir."""
    items = list(opened)
    if not items:
        raise ValueError("an empty list of paths")
    by_partition: dict[object, list[Segment]] = {}
    listed: list[Log] = []
    for one in items:
        if isinstance(one, Segment):
            owner: object = (topic or one.topic, partition if partition is not None else one.partition)
            by_partition.setdefault(one.path if owner == (None, None) else owner, []).append(one)
        else:
            listed += logs(one)
    for group in by_partition.values():
        group.sort(key=lambda segment: (segment.base_offset or 0, segment.path))
        for segment in group:
            segment.topic, segment.partition = topic or segment.topic, _first(partition, segment.partition)
        listed.append(Log(group[0].path, group, topic=group[0].topic, partition=group[0].partition))
    return listed[0] if len(listed) == 1 else LogDir(", ".join(sorted(log.path for log in listed)), listed)


def _first(given: int | None, default: int | None) -> int | None:
    return default if given is None else given


def logs_beside(path: str, topic: str) -> list[Log]:
    """The partitions of another topic in the data folder that a path is in, or that it is. None for a URL."""
    if remote.is_url(path):
        return []
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    found: dict[str, Log] = {}
    for parent in (folder, os.path.dirname(os.path.abspath(folder))):
        with suppress(OSError):
            for entry in sorted(os.listdir(parent)):
                named, inside = names.folder(entry), os.path.join(parent, entry)
                if named is not None and named.topic == topic and not named.state and os.path.isdir(inside):
                    with suppress(OSError):
                        found[entry] = Log.of(LocalFolder(inside))
        if found:
            break
    return list(found.values())


def logs(opened: Opened) -> list[Log]:
    """The logs of what was opened; a Segment alone becomes a Log of one segment."""
    if isinstance(opened, LogDir):
        return list(opened)
    if isinstance(opened, Log):
        return [opened]
    return [Log(opened.path, [opened], topic=opened.topic, partition=opened.partition)]
