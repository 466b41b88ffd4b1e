"""KRaft snapshots of the metadata log: copied to the new folder if complete, otherwise set aside

00000000000000000146-0000000001.checkpoint
    batch of control records     SnapshotHeader, KRaftVersion, Voters      offset 0 and on
    batches of metadata records
    batch of control records     SnapshotFooter                            nothing after it

A finished snapshot is never appended to, and a controller refuses one that is incomplete or has no footer (KIP-630,
RecordsSnapshotReader); its good batches are set aside. Every snapshot has offsets of its own, so snapshots are never
merged with the segments or with each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkarec.damage import Damage, sentence
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.read import reader
from kafkarec.storage import Segment
from kafkarec.support.durable import make_folder, sync_folder

from . import good_batches
from .copying import Output, Unreadable, digest
from .good_batches import GoodBatch, Notes
from .output import SET_ASIDE
from .partition_sources import SalvagePartition
from .report import OutputFile, SalvagedPartition, SetAside

INCOMPLETE = "snapshot_incomplete"


def of(work: SalvagePartition) -> dict[str, list[tuple[int, Segment]]]:
    """File name -> [(index of the source, file), ...]."""
    found: dict[str, list[tuple[int, Segment]]] = {}
    for number, source in enumerate(work.sources):
        for segment in source.snapshots:
            found.setdefault(segment.name, []).append((number, segment))
    return found


def salvage(out: str | None, copies: list[tuple[int, Segment]], cap: int, part: SalvagedPartition) -> None:
    """Copies the first complete copy of a snapshot, or sets the good batches of all copies aside. `out`: None for a dry
    run."""
    broken: list[tuple[int, Segment, list[GoodBatch]]] = []
    for number, segment in copies:
        with segment:
            damage: list[Damage] = []
            good, end = _read(segment, number, cap, damage)
            part.sources.append(segment.path)
            if not damage and _has_footer(good):
                if _copy(out, segment, good, part):
                    return
                damage.append(_unreadable(segment))
            elif not damage and good:
                part.problems.append(f"{segment.path} ends at byte {end} without a SnapshotFooter: it is not whole")
            elif not damage:
                damage.append(_no_batch(segment))
            part.damage += [one._asdict() for one in damage]
            broken.append((number, segment, good))
    for number, segment, good in broken:
        with segment:
            _set_aside(out, segment, number, good, part)


def _read(segment: Segment, number: int, cap: int, damage: list[Damage]) -> tuple[list[GoodBatch], int]:
    """(good batches, end position of the last one). Bytes after it are added to `damage`."""
    notes = Notes(damage, lambda aside: None, [], {})
    good = list(good_batches.read(segment, number, 0, cap, notes))
    for path, position, length, kind in notes.tail:
        what = "a batch is cut off" if kind == "cut" else "zeros"
        text = f"{path}: {what} at byte {position}, {length} bytes from the end: nobody appends to a snapshot"
        damage.append(Damage(path, position, length, None, None, segment.size, "length_beyond_end", text))
    return good, good[-1].position + good[-1].size if good else 0


def _has_footer(good: list[GoodBatch]) -> bool:
    if not good:
        return False
    last = good[-1]
    try:
        found = reader.decode(last.segment.raw(last.position, last.size), columns=("key", "value"), control=True)
        keys = found.column("key"), found.column("value")
        return any(
            isinstance(control.parse(key, value), control.SnapshotFooterRecord)
            for key, value in list(zip(*keys, strict=True))[-1:]
        )
    except (KafkaRecordError, OSError):
        return False


def _copy(out: str | None, segment: Segment, good: list[GoodBatch], part: SalvagedPartition) -> bool:
    file = OutputFile(
        segment.name, segment.size, "", len(good), sum(row.records or 0 for row in good), good[0].base, good[-1].last
    )
    if out is not None:
        folder = os.path.join(out, part.folder)
        make_folder(folder)
        output = Output(folder, segment.name)
        try:
            output.copy(segment, 0, segment.size)
            output.commit()
        except Unreadable:
            return False
        finally:
            output.drop()
        sync_folder(folder)
        file.sha256 = digest(output.path)
    part.snapshots.append(file)
    return True


def _set_aside(out: str | None, segment: Segment, number: int, good: list[GoodBatch], part: SalvagedPartition) -> None:
    """Copies the good batches of an incomplete snapshot to a file of their own."""
    name = f"{INCOMPLETE}-{number}-{segment.name}"
    saved_as = f"{SET_ASIDE}/{part.folder}/{name}"
    output = None
    if out is not None and good:
        folder = os.path.join(out, SET_ASIDE, part.folder)
        make_folder(folder)
        output = Output(folder, name)
    try:
        for run in _runs(good):
            position, size = run[0].position, sum(row.size for row in run)
            try:
                if output is not None:
                    output.copy(segment, position, size)
            except Unreadable:
                continue
            part.set_aside.append(
                SetAside(segment.path, position, size, run[0].base, run[-1].last, INCOMPLETE, saved_as, len(run))
            )
        if output is not None:
            output.commit()
            sync_folder(output.folder)
    finally:
        if output is not None:
            output.drop()


def _runs(good: list[GoodBatch]) -> Iterator[list[GoodBatch]]:
    """Runs of adjacent batches."""
    run: list[GoodBatch] = []
    for row in good:
        if run and run[-1].position + run[-1].size != row.position:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _no_batch(segment: Segment) -> Damage:
    text = f"{segment.path}: no batch at all, where a snapshot has a header and a footer at least"
    return Damage(segment.path, 0, segment.size, None, None, segment.size, "length_beyond_end", text)


def _unreadable(segment: Segment) -> Damage:
    text = sentence("unreadable", {"position": 0, "file": segment.path})
    return Damage(segment.path, 0, segment.size, None, None, segment.size, "unreadable", text)
