"""Folders of partitions, and first segments, that are gone: what the files that are left say of them.

A checkpoint's line alone proves nothing: folders are copied in part, topics are deleted, and partitions are moved to
another log directory of their broker. `__cluster_metadata` tells these apart. (Kafka: LogManager, DirectoryId; KIP-858)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafkarec.internal_topics.cluster_topics import CLUSTER_METADATA
from kafkarec.sidecars import leader_epochs
from kafkarec.support.text_table import counted

from . import names
from .partition_folder import PartitionFiles
from .recorded_ends import HIGH_WATERMARK, DataFolderState, epoch_entries, files_beside


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
        for place, is_lost, why in _expected(one):
            if is_lost or place not in expected or not expected[place].is_lost:
                expected[place] = MissingFolder(is_lost, folder.join("{}-{}".format(*place)), why)
    there = {(log.topic, log.partition) for log in logs}
    try:
        entries = [entry.name for folder, _ in known for entry in folder.entries()]
    except OSError:  # a failing disk: it was listed before
        return []
    there |= {named[:2] for entry in entries if (named := names.folder(entry))}
    return sorted(missing for place, missing in expected.items() if place not in there)


def _expected(one: DataFolderState) -> Iterator[tuple[Any, bool, str]]:
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
    epochs = epoch_entries(log.folder) if base and log.folder and log.is_folder and data_folder.meta else ()
    first = max((data_folder.log_start(log.topic, log.partition), *(one.start_offset for one in epochs[:1])))
    if not epochs or first >= base or data_folder.cluster is None:
        return None
    settings = data_folder.cluster.settings.get(log.topic or "", {})
    if settings.get("cleanup.policy") != "compact" or settings.get("remote.storage.enable") == "true":
        return None
    return first, base - 1, f"{leader_epochs.NAME} begins at offset {first}, and the topic is only compacted"
