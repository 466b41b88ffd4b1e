"""Rewrites segments of a new log: without some of its batches, which are set aside, or with markers in its holes

What is to be changed is recorded in the journal first. A later run recognizes by size and digest a segment that an
earlier one has rewritten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from kafkarec.sources.folders import Folder
from kafkarec.storage.log_reading import tables
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import make_folder, sync_folder

from .copying import Output, PlannedFolder, PlannedOutput, Unreadable, digest
from .journal import State
from .partition_writer import SET_ASIDE
from .salvaged_partition import OutputFile, SalvagedPartition, SetAsideRange

AnyOutput = TypeVar("AnyOutput", Output, PlannedOutput)


class RemovedBatch(NamedTuple):
    """A batch to remove from the segment `name`. first: the first offset of its producer's transaction."""

    name: str
    position: int
    size: int
    base: int
    last: int
    records: int
    producer_id: int
    first: int


class InsertedBatch(NamedTuple):
    """A batch of one record to insert in the segment `name` before the byte `position`. data: in hexadecimal."""

    name: str
    position: int
    data: str


def copy_set_aside(folder: Folder, removed: Sequence[RemovedBatch], reason: str) -> list[str]:
    """Copies the batches to the folder of batches set aside. They are removed from the log afterwards. Returns the
    paths of the new files in the output."""
    if not removed:
        return []
    out, partition = os.path.split(folder.path)
    path = set_aside_file(partition, reason)
    folder_set_aside, name = os.path.split(os.path.join(out, path))
    make_folder(folder_set_aside)
    output = Output(folder_set_aside, name)
    try:
        for segment_name, group in groupby(removed, key=lambda one: one.name):
            with SegmentFile(folder.join(segment_name), segment_name, folder=folder) as segment:
                for one in group:
                    _copy_or_fail(output, segment, one.position, one.size)
        output.commit()
    finally:
        output.drop()
    sync_folder(folder_set_aside)
    return [path]


def states_after(folder: Folder, changes: Sequence[RemovedBatch | InsertedBatch]) -> dict[str, State]:
    """What the segments will be when they are rewritten, by their paths in the output."""
    found = {}
    for name, group in groupby(changes, key=lambda one: one.name):
        new = _changed(PlannedOutput(name), SegmentFile(folder.join(name), name, folder=folder), list(group))
        found[f"{os.path.basename(folder.path)}/{name}"] = [new.size, new.digest()]
    return found


def rewrite(
    folder: Folder,
    report: SalvagedPartition,
    changes: Sequence[RemovedBatch | InsertedBatch],
    reason: str = "",
) -> None:
    """Rewrites the segments of the new log with the changes, which are in the order of their positions, and corrects
    the report. Skips segments that are already rewritten. reason: for which batches are removed."""
    files = {file.name: file for file in report.files}
    for name, group in groupby(changes, key=lambda one: one.name):
        in_file, file, path = list(group), files[name], folder.join(name)
        if isinstance(folder, PlannedFolder):
            folder.add(_changed(PlannedOutput(name), SegmentFile(path, name, folder=folder.copy()), in_file))
        else:
            if os.path.getsize(path) == file.size and digest(path) == file.sha256:
                _rewrite(folder, name, in_file)
            file.sha256 = digest(path)
        _update_offsets(file, SegmentFile(path, name, folder=folder))
        for one in in_file:
            batches, records, size = _added(one)
            for counts in (file, report):
                counts.batches += batches
                counts.records += records
                counts.size += size
            if isinstance(one, RemovedBatch):
                saved_as = set_aside_file(report.folder, reason)
                report.set_aside.append(
                    SetAsideRange(path, one.position, one.size, one.base, one.last, reason, saved_as)
                )
    if changes:
        named = [
            int(file.name.partition(".")[0]) for file in report.files
        ]  # an empty segment's name has the log end offset
        begins = [file.first_offset for file in report.files if file.first_offset is not None]
        ends = [file.last_offset + 1 for file in report.files if file.last_offset is not None]
        report.start_offset, report.next_offset = min(begins or named), max(*named, *ends)


def _added(one: RemovedBatch | InsertedBatch) -> tuple[int, int, int]:
    """The number of batches, records and bytes that a change adds."""
    return (-1, -one.records, -one.size) if isinstance(one, RemovedBatch) else (1, 1, len(one.data) // 2)


def set_aside_file(folder: str, reason: str) -> str:
    """The file of removed batches: its path in the output."""
    return f"{SET_ASIDE}/{folder}/{reason}-0-all.log"


def _rewrite(folder: Folder, name: str, changes: Sequence[RemovedBatch | InsertedBatch]) -> None:
    output = Output(folder.path, name)
    try:
        _changed(output, SegmentFile(folder.join(name), name, folder=folder), changes).commit()
    finally:
        output.drop()
    sync_folder(folder.path)


def _changed(output: AnyOutput, segment: SegmentFile, changes: Sequence[RemovedBatch | InsertedBatch]) -> AnyOutput:
    """Copies the segment with the changes to `output`."""
    with segment:
        at = 0
        for one in changes:
            _copy_or_fail(output, segment, at, one.position - at)
            at = one.position
            if isinstance(one, InsertedBatch):
                output.append(bytes.fromhex(one.data))
            else:
                at += one.size
        _copy_or_fail(output, segment, at, segment.size - at)
    return output


def _copy_or_fail(output: Output | PlannedOutput, segment: SegmentFile, position: int, size: int) -> None:
    try:
        if size:
            output.copy(segment, position, size)
    except Unreadable:
        text = "the copy cannot be read again; the disk is not reliable"
        raise OSError(errno.EIO, text, segment.path) from None


def _update_offsets(file: OutputFile, segment: SegmentFile) -> None:
    """Updates the first and last offset of a rewritten segment in the report."""
    firsts: list[Any] = []
    last = None
    for table in tables([segment]):
        if len(table):
            firsts = firsts or table.column("base_offset")[:1]
            last = table.column("last_offset")[-1]
    file.last_offset = last
    if last is None:
        file.first_offset = None
    elif firsts[0] is not None:  # a wrapper message has none: the first batch is then the same as before
        file.first_offset = firsts[0]
