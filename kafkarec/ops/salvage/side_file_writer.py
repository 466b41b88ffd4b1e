"""Writes the side files of a salvaged partition, and checks the copied log

The indexes are those that LogSegment.recover() writes. A folder that a broker starts on also gets the producer
snapshots, the leader epochs and the topic id, as far as the source has them. They are built from the new log as read
from the disk, so this also finds copy errors.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable

from kafkarec.errors import CorruptRecordError, KafkaRecordError
from kafkarec.sidecars import leader_epochs, partition_metadata, producer_snapshot
from kafkarec.state import epoch_history
from kafkarec.storage.log_reading import tables
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.rebuild_folder import EachStep, rebuild_log, snapshot_name

from .partition_sources import SalvagePartition

_QUORUM_STATE = "quorum-state"  # of the metadata log: the candidate for which this node voted (KIP-595)
_INDEXES = (".index", ".timeindex", ".txnindex")
Write = Callable[[str, bytes], None]  # adds a file to the folder of the new log: its name, its bytes


def write_side_files(log: PartitionFiles, write: Write, as_partition: bool, compared: EachStep | None) -> list[str]:
    """Writes the indexes of the new log and, with `as_partition`, the other side files. Returns sentences about
    problems. Raises OSError (EIO) if the new log is damaged.

    compared   called with each step of the reading; None: the log is only planned, and its batches are known to be good
    """
    problems: list[str] = []
    for made in rebuild_log(log, check_crcs=compared is not None, each_step=compared):
        if made.damage and compared is not None:
            raise DamagedCopy(log.path, made.damage[0].detail)
        problems += made.problems
        for name, data in made.files.items():
            if name == leader_epochs.NAME:
                data = _without_epochs_above(data, made.end_offset, problems)
            if as_partition or name.endswith(_INDEXES):
                write(name, data)
        lower = made.lower_epoch
        if lower:  # no checksum covers the epoch, and nothing here proves which of the two is wrong
            problems.append(
                f"the batch at offset {lower.offset} has leader epoch {lower.epoch}, after {lower.highest}: one of "
                "them is wrong, and no checksum covers them; kafkarec verify will report it (epoch_goes_back, "
                "epoch_differs; or header_restored, by the leader-epoch-checkpoint)"
            )
    return problems


class DamagedCopy(OSError):
    """A file of the output is not as it was written."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.EIO, f"the copy is damaged ({what}): the output's disk is not reliable", path)


def _without_epochs_above(data: bytes, end: int, problems: list[str]) -> bytes:
    """leader-epoch-checkpoint without the epochs that begin above the log's end. One that begins at the end has only
    no records yet."""
    entries = leader_epochs.read(data)
    kept = [one for one in entries if one.start_offset <= end]
    if len(kept) < len(entries):
        above = entries[len(kept)]
        problems.append(f"{leader_epochs.NAME}: epoch {above.epoch} from offset {above.start_offset} on is left out")
    return leader_epochs.write(kept)


def _read_quorum_state(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptRecordError(f"{_QUORUM_STATE} is not JSON", reason="checkpoint_invalid") from None


def _check_epochs(log: PartitionFiles, data: bytes) -> None:
    """Raises CorruptRecordError if a source's leader epochs contradict those of the merged log."""
    seen: list[tuple[int, int]] = []
    for table in tables(log.segments, errors="skip"):
        for epoch, last in zip(table.column("partition_leader_epoch"), table.column("last_offset"), strict=True):
            if epoch is not None and (not seen or seen[-1][0] != epoch):
                seen.append((epoch, last))
    wrong = epoch_history.contradiction(leader_epochs.read(data), epoch_history.from_batches(seen))
    if wrong:
        raise CorruptRecordError(wrong, reason="checkpoint_invalid")


def copy_from_sources(log: PartitionFiles, write: Write, partition: SalvagePartition) -> list[str]:
    """Copies the files with data that is not in the batches of the new log: the topic id, epochs without records, the
    quorum state, producers before the log's start. Returns sentences about problems."""
    problems: list[str] = []
    readers: dict[str, Callable[[bytes], object]] = {
        partition_metadata.NAME: partition_metadata.read,
        leader_epochs.NAME: leader_epochs.read,
        _QUORUM_STATE: _read_quorum_state,
    }
    for name, read in readers.items():
        for source in partition.of_one_topic:
            try:
                data = source.folder_file(name)
                if data is None:
                    continue
                read(data)
                if name == leader_epochs.NAME and len(partition.sources) > 1:
                    _check_epochs(log, data)
            except (KafkaRecordError, OSError) as error:
                problems.append(f"{name} of {source.path} is ignored: {error}")
                continue
            write(name, data)
            break
        else:
            if name == partition_metadata.NAME:
                problems.append(
                    f"there is no {name}: keep the one in the broker's folder (kafka-topics --describe prints the id)"
                )
    for source in partition.of_one_topic:
        if not source.segments:
            continue
        first = source.segments[0]
        try:
            name = snapshot_name(first.base_offset or 0)
            data = source.log.folder_file(name) if source.log else first.sidecar(producer_snapshot.SUFFIX)
            if data is not None and first.base_offset:
                producer_snapshot.read(data)
                write(name, data)
                break
        except (KafkaRecordError, OSError) as error:
            problems.append(f"the producer snapshot of {first.path} is ignored: {error}")
    return problems
