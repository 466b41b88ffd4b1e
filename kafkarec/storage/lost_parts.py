"""Folders of partitions, and first segments, that are gone: what the files that are left say of them.

A checkpoint's line alone proves nothing: folders are copied in part, topics are deleted, and partitions are moved to
another log directory of their broker. `__cluster_metadata` tells these apart. (Kafka: LogManager, DirectoryId; KIP-858)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kafkarec.internal_topics.cluster_topics import TOPIC
from kafkarec.sidecars import leader_epochs
from kafkarec.support.text_table import counted

from . import names
from .partition_folder import PartitionFiles
from .recorded_ends import HIGH_WATERMARK, DataFolder, epoch_entries, files_beside


class MissingFolder(NamedTuple):
    """A partition without a folder. is_lost: whether that is proven to be a loss; path: where it would be"""

    is_lost: bool
    path: str
    why: str


def missing_folders(folders: Collection[DataFolder], logs: Iterable[Any]) -> list[MissingFolder]:
    """The partitions that data folders which were opened as a whole should have, or once had, and that are in none of
    them and not among the logs. They are listed last: a broker makes a folder after the record that assigns it."""
    expected: dict[Any, MissingFolder] = {}
    for place, missing in (pair for one in folders for pair in _expected(one)):
        expected[place] = max(missing, expected.get(place, missing), key=attrgetter("is_lost"))
    there = {(log.topic, log.partition) for log in logs}
    for folder in (one.folder for one in folders if one.folder and one.meta):
        there |= {named[:2] for entry in folder.entries() if (named := names.folder(entry.name))}
    return sorted(missing for place, missing in expected.items() if place not in there)


def _expected(one: DataFolder) -> Iterator[tuple[Any, MissingFolder]]:
    """(topic and partition, what it means if it is missing)"""
    if one.folder is None or one.meta is None:
        return
    path, broker = one.folder.join("{}-{}"), one.meta.node_id
    for name, offsets in one.offsets.items():
        for place, offset in offsets.items():
            yield place, MissingFolder(False, path.format(*place), f"no folder here, but {name} has offset {offset}")
    if one.cluster is None or broker is None:
        return
    for at, directory in one.cluster.replicas_of(broker).items():
        is_lost, where = at in one.offsets.get(HIGH_WATERMARK, ()), ""
        if directory:
            registered = one.cluster.directories.get(broker, [directory])
            is_lost, where = directory == one.meta.directory_id or directory not in registered, f" in {directory}"
        why = f"no folder here, but {TOPIC} assigns it to broker {broker}{where}"
        yield at, MissingFolder(is_lost, path.format(*at), why)


def lost_folders(lost: Sequence[str]) -> str:
    """A few words about lost folders, by their paths; empty: there are none."""
    shown = ", ".join(map(os.path.basename, lost[:3])) + ", ..." * (len(lost) > 3)
    return f"{counted(len(lost), 'partition')} without a folder: {shown}" if lost else ""


def lost_start(log: PartitionFiles, data_folder: DataFolder) -> tuple[int, int, str] | None:
    """(first, last, why) of the offsets below the first segment of a log of which nothing deletes a segment; None:
    there are none, or its segments were named one by one."""
    bases = [one.base_offset for one in files_beside(log, ("", ".swap")) if one.suffix == ".log"]
    epochs = epoch_entries(log.folder) if log.folder and log.is_folder else ()
    first = max((data_folder.log_start(log.topic, log.partition), *(one.start_offset for one in epochs[:1])))
    if not epochs or first >= min(bases, default=0):
        return None
    if not data_folder.cluster or not data_folder.cluster.is_only_compacted(log.topic):
        return None
    return first, min(bases) - 1, f"{leader_epochs.NAME} begins at offset {first}, and the topic is only compacted"
