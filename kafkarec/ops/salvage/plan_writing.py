"""Writes a plan and the side files of its log, and reads it back from the disk

write                         NAME.part, fsync, rename, fsync of the folder
verify_and_write_side_files   one walk of each new log: its batches are those of the plan, their checksums are right;
                              the SHA-256 and the side files come from the same reading

The indexes are those that LogSegment.recover() writes. A folder that a broker starts on also gets the producer
snapshots, the leader epochs and the topic id, as far as the source has them. They are built from the new log as read
from the disk, so this also finds copy errors.
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from io import FileIO

from kafkarec.errors import CorruptRecordError, KafkaRecordError
from kafkarec.recover.steps import Step
from kafkarec.sidecars import leader_epochs, partition_metadata, producer_snapshot
from kafkarec.sources.files import FileObject
from kafkarec.sources.folders import LocalFolder
from kafkarec.state import epoch_history
from kafkarec.storage import names
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.log_reading import batch_tables
from kafkarec.storage.rebuild_folder import EachStep, rebuild_side_files, snapshot_name
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import FileGroup, NewFile

from .partition_sources import PartitionSources
from .planned_files import FilePlan, PlannedFolder

_QUORUM_STATE = "quorum-state"  # of the metadata log: the candidate for which this node voted (KIP-595)


def write_side_files(
    log: PartitionFiles, write: Callable[[str, bytes], object], as_partition: bool, compared: EachStep | None
) -> list[str]:
    """Writes the indexes of the new log and, with `as_partition`, the other side files. Returns sentences about
    problems. Raises OSError (EIO) if the new log is damaged.

    write      called with the name and the bytes of each
    compared   called with each step of the reading; None: the log is only planned, and its batches are known to be good
    """
    problems: list[str] = []
    for made in rebuild_side_files(log, check_crcs=compared is not None, each_step=compared):
        if made.damage and compared is not None:
            raise DamagedCopy(log.path, made.damage[0].detail)
        problems += made.problems
        lower = made.lower_epoch
        for name, data in made.files.items():
            if name == leader_epochs.NAME and lower:
                # epochs of batches that contradict each other would prove the wrong ones, here and to `salvage`
                data = log.folder_file(name) or b""
            elif name == leader_epochs.NAME:
                entries = leader_epochs.read(data)
                # one that begins at the log's end has only no records yet
                kept = [one for one in entries if one.start_offset <= made.end_offset]
                if len(kept) < len(entries):
                    above = entries[len(kept)]
                    problems.append(f"{name}: epoch {above.epoch} from offset {above.start_offset} on is left out")
                data = leader_epochs.write(kept)
            if (as_partition and data) or name.endswith(names.INDEX_SUFFIXES):
                write(name, data)
        if lower:  # no checksum covers the epoch, and nothing here proves which of the two is wrong
            offset, epoch, highest = lower
            problems.append(
                f"the batch at offset {offset} has leader epoch {epoch}, after {highest}: one of "
                "them is wrong, and no checksum covers them; kafkarec verify will report it (epoch_goes_back, "
                "epoch_differs; or header_restored, by the leader-epoch-checkpoint)"
            )
    return problems


class DamagedCopy(OSError):
    """A file of the output is not as it was written."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.EIO, f"the copy is damaged ({what}): the output's disk is not reliable", path)


def copy_from_sources(log: PartitionFiles, made: PlannedFolder, partition: PartitionSources) -> list[str]:
    """Plans copies of the files with data that is not in the batches of the new log: the topic id, epochs without
    records, the quorum state, producers before the log's start. Returns sentences about problems."""
    problems: list[str] = []
    readers: dict[str, Callable[[bytes], object]] = {
        partition_metadata.NAME: partition_metadata.read,
        leader_epochs.NAME: partial(_demand_epochs_of, log, len(partition.sources) > 1),
        _QUORUM_STATE: json.loads,
    }
    base = log.segments[0].base_offset or 0
    if base:
        readers[snapshot_name(base)] = producer_snapshot.read
    for name, read in readers.items():
        for source in partition.of_one_topic:
            try:
                data = source.folder_file(name)
                if data is None:
                    continue
                read(data)
            except (KafkaRecordError, OSError, ValueError, RecursionError) as error:
                problems.append(f"{name} of {source.path} is ignored: {error}")
                continue
            made.add(FilePlan(name, data))
            break
        else:
            if name == partition_metadata.NAME:
                problems.append(
                    f"there is no {name}: keep the one in the broker's folder (kafka-topics --describe prints the id)"
                )
    return problems


def _demand_epochs_of(log: PartitionFiles, is_merged: bool, data: bytes) -> None:
    """Raises CorruptRecordError for a leader-epoch-checkpoint, as a broker takes its entries, that batches of the new
    log contradict. No checksum covers the epoch of a batch: that of one alone proves nothing against the file of the
    only source, and the file may be older than the batches."""
    stored = leader_epochs.read_assigned(data)
    runs: list[tuple[int, int, int]] = []  # epoch, last offset of its first batch, number of batches
    for table in batch_tables(log.segments, errors="skip"):
        for epoch, last in table.zip_columns("partition_leader_epoch", "last_offset"):
            if epoch is not None and runs and runs[-1][0] == epoch:
                runs[-1] = epoch, runs[-1][1], runs[-1][2] + 1
            elif epoch is not None:
                runs.append((epoch, last, 1))
    if not is_merged:
        runs = [one for one in runs if one[2] > 1 and stored and one[0] <= stored[-1].epoch]
    wrong = epoch_history.contradiction(stored, epoch_history.from_batches(one[:2] for one in runs))
    if wrong:
        raise CorruptRecordError(wrong, reason="checkpoint_invalid")


FileDigest = tuple[int, str]
"""Size of a file, and its SHA-256 in hexadecimal."""
_PIECE = 1 << 20


def write_plan(plan: PlannedFolder, out: str, stopped: Callable[[], None]) -> None:
    """Writes all files of the plan, durably. Raises Unreadable if a source cannot be read any more, and OSError if the
    output cannot be written. stopped: raises if the run is to end"""
    with FileGroup() as group:
        for path, file in plan.outputs():
            folder, name = os.path.split(os.path.join(out, path))
            group.make_folder(folder)
            output = NewFile(folder, name)
            try:
                for data in file.content():
                    stopped()
                    output.append(data)
            except BaseException:
                output.drop()
                raise
            file.close()  # there may be more files than a process may have open
            group.add(output)
        group.sync()


def verify_and_write_side_files(plan: PlannedFolder, out: str, as_partition: bool) -> dict[str, FileDigest]:
    """Reads what was written, compares it with the plan, and writes the side files of the log. Returns the states of
    all files by their paths in the output; the report gets the digests. Raises OSError (EIO) if the disk has other
    bytes."""
    report, path = plan.report, plan.path
    folder, states = _ReadBackFolder(path), dict[str, FileDigest]()
    if report.files:
        found = Counter[str]()

        def add_hashes(segment: SegmentFile, step: Step) -> None:
            found[segment.name] += step.rows.hash_sum()

        with FileGroup() as group, PartitionFiles.of(folder) as log:

            def write(name: str, data: bytes) -> None:
                group.write(path, name, data)
                states[f"{report.folder}/{name}"] = len(data), sha256(data).hexdigest()

            report.problems += write_side_files(log, write, as_partition, compared=add_hashes)
            if folder.failures:
                raise folder.failures[0]
            group.sync()
        for file in report.files:
            if plan.files[file.name].hash_sum != found[file.name]:
                raise DamagedCopy(os.path.join(path, file.name), "other batches than were written")
    for name, planned in plan.outputs():
        if name in states:
            continue
        directory, base = os.path.split(name)
        state = folder.states.get(base) if directory == report.folder else None
        states[name] = state or digest_of_file(os.path.join(out, name))
        if states[name][0] != planned.size:
            raise DamagedCopy(os.path.join(out, name), f"{states[name][0]} bytes")
    for file in (*report.files, *report.snapshots):
        file.sha256 = states[f"{report.folder}/{file.name}"][1]
    return states


class _ReadBackFolder(LocalFolder):
    """A folder whose files are read from the disk, and hashed while they are read.

    failures   of side files: what reads a log does without those that it cannot read
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.states: dict[str, FileDigest] = {}
        self.failures: list[OSError] = []

    def read(self, name: str) -> bytes | None:
        try:
            return super().read(name)
        except OSError as error:
            self.failures.append(error)
            raise

    def open(self, name: str, disk: bool = False) -> _HashedFile:
        return _HashedFile(self.join(name), self.states)


class _HashedFile(FileObject):
    """A file as read from the disk, in order: its cached pages are dropped first (POSIX_FADV_DONTNEED).

    states   gets its state when it is closed, if all of it was read
    """

    def __init__(self, path: str, states: dict[str, FileDigest]) -> None:
        self._states = states
        self._opened = FileIO(path)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        super().__init__(self._opened, path)
        self._hasher, self._hashed = sha256(), 0

    def read_at(self, position: int, length: int) -> bytes:
        while self._hashed < position and self._read_and_hash(self._hashed, min(position - self._hashed, _PIECE)):
            pass
        return self._read_and_hash(position, length)

    def _read_and_hash(self, position: int, length: int) -> bytes:
        data = super().read_at(position, length)
        if position <= self._hashed < position + len(data):
            self._hasher.update(memoryview(data)[self._hashed - position :])
            self._hashed = position + len(data)
        return data

    def close(self) -> None:
        if not self._opened.closed and self._hashed == self.size:
            self._states[os.path.basename(self.name)] = self._hashed, self._hasher.hexdigest()
        self._opened.close()


def digest_of_file(path: str) -> FileDigest:
    """The state of a file on the disk."""
    states: dict[str, FileDigest] = {}
    file = _HashedFile(path, states)
    with closing(file):
        file.read_at(file.size, 0)
    return states[os.path.basename(path)]
