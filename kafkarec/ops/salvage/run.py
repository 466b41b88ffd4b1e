"""`kafkarec.salvage`: copies every good batch of the sources to a new log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from kafkarec._version import __version__
from kafkarec.damage import Damage
from kafkarec.storage import Log, LogDir, Segment, remote
from kafkarec.storage.output_rules import Inputs, Refused
from kafkarec.support.durable import make_folder, sync_folder, write_file

from . import (
    good_batches,
    kraft_snapshots,
    open_transactions,
    side_files,
)
from .good_batches import Notes
from .journal import REPORT, Journal
from .merge import merge
from .output import PartitionWriter, Progress
from .output_folder import check_space
from .partition_sources import SalvagePartition, find
from .report import SalvagedPartition, SalvageReport

_ROLL_LOOSE, _NO_ROLL = 1 << 30, 2**31 - 1
_INDEXED, _STARTABLE = "indexes", "startable"


def salvage(
    src: Any,
    out: str | os.PathLike[str],
    *,
    as_partition: bool = False,
    dry_run: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    check_free_space: bool = True,
    max_decompressed_bytes: int = 128 << 20,
    progress: Progress | None = None,
) -> SalvageReport:
    """Copies every good batch of `src` to a new log in the folder `out`, byte for byte, and reports the rest.

    src: a path (a file of any name, a partition folder, a data folder), an opened Segment, Log or LogDir, or a list of
        them: several sources of one partition are merged, and conflicting batches are set aside and reported
    out: a folder that is empty or does not exist, and is not within a source; or that of an unfinished run of the same
        salvage, which is then continued
    as_partition: write folders that a broker starts on, with leader epochs, producer snapshots and topic id; batches
        that a broker would truncate (a stale leader epoch) or fail on (plain ones in an open transaction) are set aside
    dry_run: read everything and write nothing
    topic, partition: of files whose names do not have them
    max_decompressed_bytes: limit per compressed payload; a batch above it is set aside
    progress: called with (path, position) during copying

    Complete KRaft snapshots of a metadata log are copied; the good batches of others are set aside.

    Nothing is ever written to a source. Files are synced (fsync), and a run that is killed, or whose disk is full, is
    continued when it is started again. Writes `salvage.json`, the report as JSON.

    Refused (a ValueError) if a source or other files would be at risk; OSError if reading or writing fails as a whole.
    """
    given = list(src) if isinstance(src, list | tuple) else [src]
    out = os.path.abspath(os.fspath(out))
    if os.path.lexists(out) and not os.path.isdir(out):
        raise Refused(f"{out} is not a folder")
    Inputs(_paths(given)).demand_apart(out, out)
    found = find(given, topic, partition)
    unnamed = [one.sources[0].path for one in found.partitions if one.topic is None]
    if as_partition and unnamed:
        raise Refused(f"a broker's folder is named by its topic: say --topic and --partition for {unnamed[0]}")
    report = SalvageReport(out, [str(getattr(one, "path", one)) for one in given], as_partition, dry_run)
    report.left_out = found.left_out
    run = _Run(report, found.partitions, max_decompressed_bytes, progress or _quiet)
    if dry_run:
        for work in found.partitions:
            run.partition(work, None)
        return report
    if check_free_space:
        check_space(out, sum(work.size for work in found.partitions) - _have(out))
    make_folder(out)
    journal = Journal(out, _identity(found.partitions, as_partition, topic, partition, max_decompressed_bytes))
    try:
        for work in found.partitions:
            run.partition(work, journal)
        write_file(out, REPORT, (json.dumps(report.to_dict(), indent=1) + "\n").encode())
        sync_folder(out)
        journal.finish()
    finally:
        journal.close()
    return report


def _quiet(path: str, position: int) -> None:
    return None


def _paths(given: Iterable[Any]) -> list[str]:
    paths = []
    for one in given:
        if isinstance(one, Log | LogDir | Segment):
            logs = [one] if not isinstance(one, LogDir) else list(one)
            paths += [one.path, *(segment.path for log in logs for segment in getattr(log, "segments", ()))]
        else:
            paths.append(os.fsdecode(one))
    return [path if remote.is_url(path) else os.path.abspath(path) for path in paths]


def _have(out: str) -> int:
    """Bytes that an earlier run has already written."""
    return sum(os.lstat(os.path.join(root, name)).st_size for root, _, files in os.walk(out) for name in files)


def _identity(partitions: list[SalvagePartition], *options: Any) -> dict[str, Any]:
    """What must be equal for an unfinished run to be continued: version, source files, options."""
    files = []
    for work in partitions:
        for source in work.sources:
            for segment in (*source.segments, *source.snapshots):
                try:
                    found = os.stat(segment.path)
                    files.append([work.folder, os.path.realpath(segment.path), found.st_size, found.st_mtime_ns])
                except OSError:
                    files.append([work.folder, segment.path, segment.size, 0])
    return {"kafkarec": __version__, "sources": files, "options": list(options)}


class _Run:
    def __init__(self, report: SalvageReport, works: list[SalvagePartition], cap: int, progress: Progress) -> None:
        self._report, self._cap, self._progress = report, cap, progress
        self._folders = {work.folder for work in works}

    def partition(self, work: SalvagePartition, journal: Journal | None) -> None:
        """Salvages one partition, including its indexes."""
        if work.topic is None and work.sources[0].loose:
            self._loose(work, journal)
            return
        whole = self._new(work)
        if work.in_steps:
            for step in range(len(work.sources[0].segments)):
                self._step(work, whole, str(step), journal, only=step)
        else:
            self._step(work, whole, "all", journal)
        for name, copies in kraft_snapshots.of(work).items():
            self._snapshot(whole, name, copies, journal)
        self._finish(work, whole, journal)

    def _snapshot(
        self, whole: SalvagedPartition, name: str, copies: list[tuple[int, Segment]], journal: Journal | None
    ) -> None:
        done = journal.done.get((whole.folder, name)) if journal else None
        if done is None:
            part = SalvagedPartition(whole.folder, ends_in_damage=whole.ends_in_damage)
            kraft_snapshots.salvage(None if journal is None else self._report.out, copies, self._cap, part)
            done = part.to_dict()
            if journal is not None:
                journal.add(whole.folder, name, done)
        whole.add(SalvagedPartition.of(done))

    def _new(self, work: SalvagePartition, folder: str | None = None) -> SalvagedPartition:
        whole = SalvagedPartition(folder or work.folder, work.topic, work.partition)
        self._report.partitions.append(whole)
        return whole

    def _finish(self, work: SalvagePartition, whole: SalvagedPartition, journal: Journal | None) -> None:
        if whole.ends_in_damage:
            whole.lost.append((whole.next_offset, None))
        if journal is None or not whole.files:
            return
        if self._report.as_partition:
            self._make_startable(work, whole, journal)
        done = journal.done.get((whole.folder, _INDEXED))
        if done is None:
            problems = side_files.finish(os.path.join(self._report.out, whole.folder), self._report.as_partition)
            done = {"problems": problems}
            journal.add(whole.folder, _INDEXED, done)
        whole.problems += done["problems"]

    def _make_startable(self, work: SalvagePartition, whole: SalvagedPartition, journal: Journal) -> None:
        """Copies the side files that a broker needs, and removes batches that it would fail on."""
        out = self._report.out
        done = journal.done.get((whole.folder, _STARTABLE))
        if done is None:
            folder = os.path.join(out, whole.folder)
            problems = side_files.from_source(folder, work)
            found = open_transactions.find(folder)
            open_transactions.keep(out, whole.folder, found)
            done = {"problems": problems, "batches": [list(one) for one in found]}
            journal.add(whole.folder, _STARTABLE, done)
        whole.problems += done["problems"]
        open_transactions.remove(out, whole, [open_transactions.Plain(*one) for one in done["batches"]])

    def _step(
        self,
        work: SalvagePartition,
        whole: SalvagedPartition,
        step: str,
        journal: Journal | None,
        only: int | None = None,
    ) -> None:
        """One segment, or all sources of a partition: writes and syncs the files, then adds the step to the journal."""
        done = journal.done.get((whole.folder, step)) if journal else None
        if done is not None:
            whole.add(SalvagedPartition.of(done))
            return
        part = SalvagedPartition(whole.folder, start_offset=whole.start_offset, next_offset=whole.next_offset)
        damage: list[Damage] = []
        ended: dict[int, int | None] = {0: whole.next_offset} if whole.ends_in_damage else {}
        writer = self._writer(work, step, part, journal)
        notes = Notes(damage, writer.set_aside, part.tails, ended)
        try:
            segments = work.sources[0].segments
            if only is None:
                streams = good_batches.streams(work.sources, self._cap, notes)
                part.sources = [one.path for source in work.sources for one in source.segments]
            else:
                streams = [good_batches.ordered(segments, 0, whole.next_offset or 0, self._cap, notes, only)]
                part.sources = [segments[only].path]
            start = whole.next_offset if whole.next_offset is not None else _start(work)
            for choice in merge(streams, start, stale=self._report.as_partition):
                writer.choose(choice)
            if only == len(segments) - 1 and not damage and not part.batches:
                _empty_end(segments[only], writer, part)
            writer.finish()
        finally:
            writer.drop()
            for source in work.sources:
                for segment in source.segments:
                    segment.close()
        part.damage = [one._asdict() for one in damage] + part.damage
        end = part.next_offset or 0
        part.ends_in_damage = any(place is None or place >= end for place in ended.values())
        if journal is not None:
            journal.add(whole.folder, step, part.to_dict())
        whole.add(part)

    def _writer(
        self, work: SalvagePartition, step: str, part: SalvagedPartition, journal: Journal | None
    ) -> PartitionWriter:
        loose = all(source.loose for source in work.sources)
        out = None if journal is None else self._report.out
        roll = _ROLL_LOOSE if loose else _NO_ROLL
        return PartitionWriter(out, part.folder, step, _base_offsets(work), roll, part, self._progress)

    def _loose(self, work: SalvagePartition, journal: Journal | None) -> None:
        """A file without a known name: one log, or several if its offsets decrease; then it has pieces of several
        partitions, or of one in the wrong order, which only the user can know."""
        segment = work.sources[0].segments[0]
        done = journal.done.get((work.folder, "runs")) if journal else None
        if done is not None:
            for folder in done["folders"]:
                whole = self._new(work, folder)
                assert journal is not None
                whole.add(SalvagedPartition.of(journal.done[folder, "all"]))
                self._finish(work, whole, journal)
            return
        whole = self._new(work)
        part = SalvagedPartition(whole.folder, sources=[segment.path])
        damage: list[Damage] = []
        ended: dict[int, int | None] = {}
        writer = self._writer(work, "all", part, journal)
        writers = [writer]
        try:
            runs = good_batches.loose(segment, 0, self._cap, Notes(damage, writer.set_aside, part.tails, ended))
            part.damage = [one._asdict() for one in damage]
            for number, run in enumerate(runs):
                if number:
                    part = SalvagedPartition(self._free_folder(), sources=[segment.path])
                    writer = self._writer(work, "all", part, journal)
                    writers.append(writer)
                for choice in merge([iter(run)], None):
                    writer.choose(choice)
                writer.finish()
            if len(runs) > 1:
                _explain_runs(writers[0].report, len(runs))
            writers[-1].report.ends_in_damage = bool(ended)
            writers[0].finish()
        finally:
            for one in writers:
                one.drop()
            segment.close()
        wholes = [whole, *(self._new(work, one.report.folder) for one in writers[1:])]
        if journal is not None:
            for one in writers:
                journal.add(one.report.folder, "all", one.report.to_dict())
            journal.add(work.folder, "runs", {"folders": [one.report.folder for one in writers]})
        for one, into in zip(writers, wholes, strict=True):
            into.add(one.report)
            self._finish(work, into, journal)

    def _free_folder(self) -> str:
        number = 0
        while f"unnamed-{number}" in self._folders:
            number += 1
        self._folders.add(f"unnamed-{number}")
        return f"unnamed-{number}"


def _explain_runs(part: SalvagedPartition, count: int) -> None:
    part.problems.append(
        f"the offsets fall back {count - 1} times: pieces of several partitions, or of one in the wrong order; each "
        "run is a folder of its own. Where they are one partition, --topic and --partition put them in order"
    )


def _start(work: SalvagePartition) -> int | None:
    """The first offset of the log, by the names of its first segments."""
    bases = [source.segments[0].base_offset for source in work.sources if source.segments and not source.loose]
    known = [base for base in bases if base is not None]
    return min(known) if known and len(known) == len(work.sources) else None


def _base_offsets(work: SalvagePartition) -> list[int]:
    """Base offsets of the first source's segments, and of the other sources' segments before and after those."""
    borders: list[int] = []
    for source in work.sources:
        own = sorted({segment.base_offset for segment in source.segments if segment.base_offset is not None})
        low, high = (borders[0], borders[-1]) if borders else (0, -1)
        borders = sorted({*borders, *(base for base in own if base < low or base > high)})
    return borders


def _empty_end(segment: Segment, writer: PartitionWriter, part: SalvagedPartition) -> None:
    base = segment.base_offset
    if base is not None and base >= (part.next_offset or 0):
        writer.empty_segment(base)
