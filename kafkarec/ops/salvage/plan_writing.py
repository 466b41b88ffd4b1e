"""Writes a plan, and reads it back from the disk

write       NAME.part, fsync, rename, fsync of the folder
read_back   one walk of each new log: its batches are those of the plan, their checksums are right; the SHA-256 and
            the side files come from the same reading
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from io import FileIO

from kafkarec.recover.steps import Step
from kafkarec.sources.files import FileObject
from kafkarec.sources.folders import LocalFolder
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import FileGroup

from . import side_file_writer
from .copying import Output
from .planned_files import FilePlan, PlannedFolder

State = tuple[int, str]
"""Size of a file, and its SHA-256 in hexadecimal."""
_PIECE = 1 << 20


def write(plan: PlannedFolder, out: str, stopped: Callable[[], None]) -> None:
    """Writes all files of the plan, durably. Raises Unreadable if a source cannot be read any more, and OSError if the
    output cannot be written. stopped: raises if the run is to end"""
    with FileGroup() as group:
        for path, file in plan.outputs():
            folder, name = os.path.split(os.path.join(out, path))
            group.make_folder(folder)
            if isinstance(file, bytes):
                group.write(folder, name, file)
                continue
            output = Output(folder, name)
            try:
                file.copy_to(output, 0, file.size, stopped)
            except BaseException:
                output.drop()
                raise
            group.add(output)
        group.sync()


def read_back(plan: PlannedFolder, out: str, as_partition: bool) -> dict[str, State]:
    """Reads what was written, compares it with the plan, and writes the side files of the log. Returns the states of
    all files by their paths in the output; the report gets the digests. Raises OSError (EIO) if the disk has other
    bytes."""
    report, path = plan.report, plan.path
    folder, states = _ReadBack(path), dict[str, State]()
    if report.files:
        found, counts = Counter[str](), Counter[str]()

        def compared(segment: SegmentFile, step: Step) -> None:
            found[segment.name] += step.rows.hash_sum()
            counts[segment.name] += len(step)

        with FileGroup() as group:
            side_files: dict[str, bytes] = {}
            with PartitionFiles.of(folder) as log:
                report.problems += side_file_writer.write_side_files(
                    log, side_files.__setitem__, as_partition, compared=compared
                )
            for name, data in side_files.items():
                group.write(path, name, data)
                states[f"{report.folder}/{name}"] = len(data), sha256(data).hexdigest()
            group.sync()
        for file in report.files:
            planned = plan.files[file.name]
            assert isinstance(planned, FilePlan)
            if (planned.hashes, file.batches) != (found[file.name], counts[file.name]):
                raise side_file_writer.DamagedCopy(os.path.join(path, file.name), "other batches than were written")
    for name, planned in plan.outputs():
        if name in states:
            continue
        directory, base = os.path.split(name)
        state = folder.states.get(base) if directory == report.folder else None
        states[name] = state or state_of(os.path.join(out, name))
        if states[name][0] != (len(planned) if isinstance(planned, bytes) else planned.size):
            raise side_file_writer.DamagedCopy(os.path.join(out, name), f"{states[name][0]} bytes")
    for file in (*report.files, *report.snapshots):
        file.sha256 = states[f"{report.folder}/{file.name}"][1]
    return states


class _ReadBack(LocalFolder):
    """A folder whose files are read from the disk, and hashed while they are read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.states: dict[str, State] = {}

    def open(self, name: str, disk: bool = False) -> _Hashed:
        return _Hashed(self.join(name), self.states)


class _Hashed(FileObject):
    """A file as read from the disk, in order: its cached pages are dropped first (POSIX_FADV_DONTNEED).

    states   gets its state when it is closed, if all of it was read
    """

    def __init__(self, path: str, states: dict[str, State]) -> None:
        self._states = states
        self._opened = FileIO(path)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        super().__init__(self._opened, path)
        self._hasher, self._hashed = sha256(), 0

    def read_at(self, position: int, length: int) -> bytes:
        while self._hashed < position and self._hash(self._hashed, min(position - self._hashed, _PIECE)):
            pass
        return self._hash(position, length)

    def _hash(self, position: int, length: int) -> bytes:
        data = super().read_at(position, length)
        if position <= self._hashed < position + len(data):
            self._hasher.update(memoryview(data)[self._hashed - position :])
            self._hashed = position + len(data)
        return data

    def close(self) -> None:
        if not self._opened.closed and self._hashed == self.size:
            self._states[os.path.basename(self.name)] = self._hashed, self._hasher.hexdigest()
        self._opened.close()


def state_of(path: str) -> State:
    """The state of a file on the disk."""
    states: dict[str, State] = {}
    file = _Hashed(path, states)
    with closing(file):
        file.read_at(file.size, 0)
    return states[os.path.basename(path)]
