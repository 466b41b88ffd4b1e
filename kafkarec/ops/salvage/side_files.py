"""After copying: the side files of a partition, and a check of the written log

Indexes are those that LogSegment.recover() writes. A folder that a broker starts on also gets the producer snapshots,
the leader epochs and the topic id, as far as the source has them. They are built from the new files as read from the
disk, so copy errors are found here.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable

from kafkarec import storage
from kafkarec.errors import CorruptRecordError, KafkaRecordError
from kafkarec.sidecars import leader_epochs as epoch_file
from kafkarec.sidecars import partition_metadata, producer_snapshot
from kafkarec.state import leader_epochs
from kafkarec.state.rebuild_folder import rebuild_log
from kafkarec.storage import Log
from kafkarec.storage.folders import LocalFolder
from kafkarec.support.durable import sync_folder, write_file

from .partition_sources import SalvagePartition, SalvageSource

_QUORUM_STATE = "quorum-state"  # of the metadata log: for whom this node voted (KIP-595)
_INDEXES = (".index", ".timeindex", ".txnindex")


def finish(folder: str, as_partition: bool) -> list[str]:
    """Writes the indexes and, with `as_partition`, the other side files; returns sentences about problems. OSError
    (EIO) if the new log is damaged."""
    problems: list[str] = []
    opened = storage.open(folder)
    assert isinstance(opened, Log)
    with opened as log:
        for made in rebuild_log(log):
            if made.damage:
                raise OSError(
                    errno.EIO,
                    f"what was copied reads differently now ({made.damage[0].detail}); the disk cannot be trusted",
                    folder,
                )
            problems += made.problems
            for name, data in made.files.items():
                if as_partition or name.endswith(_INDEXES):
                    write_file(folder, name, data)
    sync_folder(folder)
    return problems


def _read_quorum_state(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptRecordError(f"{_QUORUM_STATE} is no JSON", reason="checkpoint_invalid") from None


def _file_beside(source: SalvageSource, name: str) -> bytes | None:
    """A file of the folder of a source whose segments were given one by one."""
    return LocalFolder(source.path).read(name) if os.path.isdir(source.path) else None


def _agrees(folder: str, data: bytes) -> None:
    """Raises CorruptRecordError if a source's leader epochs contradict those of the merged log."""
    log = storage.open(folder)
    seen: list[tuple[int, int]] = []
    for table in log.scan_pieces(errors="skip"):
        for epoch, last in zip(table.column("partition_leader_epoch"), table.column("last_offset"), strict=True):
            if epoch is not None and (not seen or seen[-1][0] != epoch):
                seen.append((epoch, last))
    wrong = leader_epochs.contradiction(epoch_file.read(data), leader_epochs.from_batches(seen))
    if wrong:
        raise CorruptRecordError(wrong, reason="checkpoint_invalid")


def from_source(folder: str, work: SalvagePartition) -> list[str]:
    """Copies what the batches do not have: topic id, epochs without records, producers before the log's start."""
    problems: list[str] = []
    readers: dict[str, Callable[[bytes], object]] = {
        partition_metadata.NAME: partition_metadata.read,
        epoch_file.NAME: epoch_file.read,
        _QUORUM_STATE: _read_quorum_state,
    }
    for name, read in readers.items():
        for source in work.sources:
            try:
                data = source.log.folder_file(name) if source.log else _file_beside(source, name)
                if data is None:
                    continue
                read(data)
                if name == epoch_file.NAME and len(work.sources) > 1:
                    _agrees(folder, data)
            except (KafkaRecordError, OSError) as error:
                problems.append(f"{name} of {source.path} is passed over: {error}")
                continue
            write_file(folder, name, data)
            break
        else:
            if name == partition_metadata.NAME:
                problems.append(
                    f"there is no {name}: keep the one in the broker's folder (kafka-topics --describe tells the id)"
                )
    for source in work.sources:
        if not source.segments:
            continue
        first = source.segments[0]
        try:
            data = first.sidecar(producer_snapshot.SUFFIX)
            if data is not None and first.base_offset:
                producer_snapshot.read(data)
                write_file(folder, f"{first.base_offset:020d}{producer_snapshot.SUFFIX}", data)
                break
        except (KafkaRecordError, OSError) as error:
            problems.append(f"the producer snapshot of {first.path} is passed over: {error}")
    return problems
