"""`kafkarec.salvage`: copies every good batch of the sources to a new log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from kafkarec._version import __version__
from kafkarec.damage import Damage, Restored
from kafkarec.read.decode_options import checked_threads
from kafkarec.recover.marker_evidence import Decision
from kafkarec.sources import remote
from kafkarec.sources.folders import Folder, LocalFolder
from kafkarec.sources.read_failures import ReadFailure
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.output_rules import Inputs, Refused
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import DELETED, Witness
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import make_folder, sync_folder, write_file

from . import (
    beside_files,
    good_batches,
    kraft_snapshots,
    lost_markers,
    open_transactions,
    rewriting,
    side_file_writer,
)
from .copying import PlannedFolder
from .good_batches import DamageCollector, ReadProgress, no_progress
from .journal import REPORT, RUNS, Journal, State, as_json
from .merge import merge
from .output_folder import check_space
from .partition_sources import SalvagePartition, compare_topic_ids, find_partitions, ids_in_meta_properties
from .partition_writer import PartitionWriter
from .salvage_report import SalvageReport
from .salvaged_partition import BesideFile, SalvagedPartition
from .source_witnesses import SourceWitnesses, end_without_segments, proofs_of_loss, was_never_cleaned

_ROLL_UNORDERED, _NO_ROLL = 1 << 30, 2**31 - 1
_INDEXED, _STARTABLE, _MARKED, _KEPT_END = "indexes", "startable", "markers", "end"
_AT_ONCE = 64  # partitions whose files are synced together


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
    undecided: str = "abort",
    keep_end: bool = False,
    merge_different: bool = False,
    restore: bool = True,
    use: Sequence[str | os.PathLike[str]] = (),
    threads: int = 1,
    progress: ReadProgress | None = None,
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
    undecided: what is done about a transaction whose marker is lost in damage, if nothing proves how it ended: write an
        "abort" or a "commit" marker, leave it "open", or set its batches "aside". A proven end is written in any case
    keep_end: add an empty segment at the highest offset that other files of the sources refer to, if the log ends below
        it, so that a broker does not use offsets again that consumers know
    merge_different: merge sources of one partition also if they have different topic ids in partition.metadata: the
        first one is then the log, and the others fill what it lacks. Otherwise Refused, as they are no replicas
    restore: write batches of which only length, magic, base offset or leader epoch is damaged, with the values that
        the checksum or their neighbours prove; False: they are damage
    use: files that are read in addition, such as a .deleted file whose offsets are after the log's end
    threads: how many threads decode a file, with the same result
    progress: called with (path, position) while the sources are read

    Complete KRaft snapshots of a metadata log are copied; the good batches of others are set aside.

    Nothing is ever written to a source. Files are synced (fsync). A run that was killed, or stopped because the disk
    was full, continues when it is started again. Writes `salvage.json`, the report as JSON.

    Raises Refused (a ValueError) if a source or other files would be at risk, and OSError if the sources cannot be read
    at all or the output cannot be written.
    """
    if undecided not in lost_markers.UNDECIDED_AS:
        raise Refused(f"undecided {undecided!r}: one of {', '.join(lost_markers.UNDECIDED_AS)}")
    checked_threads(threads)
    given = [*(src if isinstance(src, list | tuple) else [src]), *use]
    out = os.path.abspath(os.fspath(out))
    if os.path.lexists(out) and not os.path.isdir(out):
        raise Refused(f"{out} is not a folder")
    Inputs(_paths(given)).demand_apart(out, out)
    found = find_partitions(given, topic, partition)
    named = set(_paths(given))
    for one in found.partitions:
        beside_files.arrange(one, named)
    compare_topic_ids(found.partitions, merge_different)
    found.set_later_segments()
    unnamed = [one.sources[0].path for one in found.partitions if one.topic is None]
    if as_partition and unnamed:
        raise Refused(f"a broker's folder has the topic in its name: give --topic and --partition for {unnamed[0]}")
    report = SalvageReport(out, [str(getattr(one, "path", one)) for one in given], as_partition, dry_run)
    known = named | {os.path.abspath(file.path) for one in found.partitions for file in one.beside}
    known |= {os.path.abspath(filler.segment.path) for one in found.partitions for filler in one.fillers}
    report.source_ids = ids_in_meta_properties(found.partitions)
    report.left_out = [(one.name, one.why) for one in found.left_out if os.path.abspath(one.name) not in known]
    report.unread = [ReadFailure(one.name, one.cause, one.why) for one in found.left_out if one.cause]
    choices = undecided, keep_end, restore
    run = _Run(report, found.partitions, max_decompressed_bytes, *choices, threads, progress or no_progress)
    if dry_run:
        for one in found.partitions:
            run.plan_partition(one)
        _add_unread_files(report)
        return report
    if check_free_space:
        check_space(out, sum(one.size for one in found.partitions) - _bytes_written(out))
    make_folder(out)
    journal = Journal(
        out,
        _identity(found.partitions, as_partition, topic, partition, max_decompressed_bytes, merge_different, *choices),
    )
    try:
        for start in range(0, len(found.partitions), _AT_ONCE):
            waiting = [run.salvage_partition(one, journal) for one in found.partitions[start : start + _AT_ONCE]]
            while waiting:
                waiting = [steps for steps in waiting if _continue(steps, journal)]
                journal.sync()
        _add_unread_files(report)
        write_file(out, REPORT, (json.dumps(report.to_dict(), indent=1) + "\n").encode())
        sync_folder(out)
        journal.finish()
    finally:
        journal.close()
    return report


def _continue(steps: Iterator[None], journal: Journal) -> bool:
    """Continues a partition until it waits for its files to be synced; False: it is finished. One with many or large
    files does not wait for the others."""
    for _ in steps:
        if not journal.files.is_full:
            return True
        journal.sync()
    return False


def _add_unread_files(report: SalvageReport) -> None:
    """Adds the files of all partitions that could not be read."""
    for failure in (failure for one in report.partitions for failure in one.unread):
        if failure.path not in report.unreadable:
            report.unread.append(failure)
            report.left_out.append((failure.path, failure.why))


def _paths(given: Iterable[Any]) -> list[str]:
    paths = []
    for one in given:
        if isinstance(one, PartitionFiles | DataFolderFiles | SegmentFile):
            logs = [one] if not isinstance(one, DataFolderFiles) else list(one)
            paths += [one.path, *(segment.path for log in logs for segment in getattr(log, "segments", ()))]
        else:
            paths.append(os.fsdecode(one))
    return [path if remote.is_url(path) else os.path.abspath(path) for path in paths]


def _bytes_written(out: str) -> int:
    """The bytes that an earlier run has already written."""
    return sum(os.lstat(os.path.join(root, name)).st_size for root, _, files in os.walk(out) for name in files)


def _identity(partitions: list[SalvagePartition], *options: Any) -> dict[str, Any]:
    """The version, source files and options of a run; only a run with equal ones is continued."""
    files = []
    for partition in partitions:
        for source in partition.sources:
            fillers = (filler.segment for filler in partition.fillers)
            for segment in (*source.segments, *source.snapshots, *fillers):
                try:
                    found = os.stat(segment.path)
                    files.append([partition.folder, os.path.realpath(segment.path), found.st_size, found.st_mtime_ns])
                except OSError:
                    files.append([partition.folder, segment.path, segment.size, 0])
    return {"kafkarec": __version__, "sources": files, "options": list(options)}


class _Run:
    """One call of `salvage`. cap: max_decompressed_bytes. A method's `journal` is None in a dry run. A probe is a dry
    run without markers and side files; it may compare its steps with those of an earlier run."""

    def __init__(
        self,
        report: SalvageReport,
        partitions: list[SalvagePartition],
        cap: int,
        undecided: str,
        keep_end: bool,
        restore: bool,
        threads: int,
        progress: ReadProgress,
    ) -> None:
        self._threads = threads
        self._is_probe = False
        self._earlier: Journal | None = None  # of a probe
        self._same: set[tuple[str, str]] = set()  # the steps of `earlier` that have the same result again
        self._report, self._cap, self._undecided, self._progress = report, cap, undecided, progress
        self._keep_end, self._restore, self._witnesses = keep_end, restore, SourceWitnesses()
        self._folders = {partition.folder for partition in partitions}
        self._planned: dict[str, PlannedFolder] = {}  # by the names of the folders, in a dry run

    def plan_partition(self, partition: SalvagePartition) -> None:
        """Salvages one partition in a dry run."""
        for _ in self.salvage_partition(partition, None):
            pass

    def salvage_partition(self, partition: SalvagePartition, journal: Journal | None) -> Iterator[None]:
        """Salvages one partition, including its indexes. Yields where it waits until all files of the journal are
        synced: what was copied is read again from the disk, and a step is recorded when its files are there."""
        if journal:
            self._demand_unchanged(partition, journal)
        if partition.topic is None and partition.sources[0].unordered:
            yield from self._salvage_unordered(partition, journal)
            return
        witnesses = self._witnesses.of(partition)
        report = self._add_partition_report(partition)
        report.other_files += partition.beside
        report.problems += partition.problems
        if partition.fillers:
            partition, beside = self._with_fillers(partition)
            report.other_files += beside
        if partition.in_steps:
            for step in range(len(partition.sources[0].segments)):
                yield from self._salvage_step(partition, report, str(step), journal, only=step)
        else:
            yield from self._salvage_step(partition, report, "all", journal)
        for name, copies in kraft_snapshots.snapshots_by_name(partition).items():
            yield from self._salvage_snapshot(report, name, copies, journal)
        yield from self._set_end(partition, report, witnesses, journal)
        yield from self._finish_partition(partition, report, journal)

    def _demand_unchanged(self, partition: SalvagePartition, journal: Journal) -> None:
        """Has steps of an earlier run done again if a file of theirs is not as it was written. If so, and if a source
        has another time of modification, raises Refused unless the sources would still give the same."""
        folders = {partition.folder, *journal.runs(partition.folder)}
        steps = [step for step in journal.done if step[0] in folders and step[1] not in (RUNS, _INDEXED)]
        intact = all(journal.is_as_written(*step) for step in steps)
        if steps and (not intact or partition.folder in journal.touched):
            same = self._probe(partition, self._keep_end, journal)._same
            if not {step for step in steps if step[1] not in (_MARKED, _STARTABLE)} <= same:
                raise Refused(
                    f"the sources of {partition.folder} have changed since the unfinished run in {self._report.out} "
                    "copied from them; choose another folder, what is in that one stays as it is"
                )
        indexed = [(folder, _INDEXED) for folder in folders]
        wrong = [one for one in indexed if one in journal.done and not journal.is_as_written(*one)]
        for step in wrong if intact else (*steps, *indexed):
            journal.forget(step)

    def _probe(self, partition: SalvagePartition, keep_end: bool, earlier: Journal | None) -> _Run:
        """A run that has only read the sources of a partition. earlier: with whose steps it compares its own"""
        probe = _Run(
            replace(self._report, partitions=[]),
            [partition],
            self._cap,
            self._undecided,
            keep_end,
            self._restore,
            self._threads,
            self._progress,
        )
        probe._is_probe, probe._earlier = True, earlier
        probe.plan_partition(partition)
        return probe

    def _with_fillers(self, partition: SalvagePartition) -> tuple[SalvagePartition, list[BesideFile]]:
        """Reads the partition without its fillers to learn what is missing, and adds those that have it."""
        alone = replace(partition, fillers=[], beside=[])
        (probed,) = self._probe(alone, False, None)._report.partitions
        sources, beside = beside_files.filled(partition, probed, self._cap)
        return replace(alone, sources=[*alone.sources, *sources]), beside

    def _set_end(
        self,
        partition: SalvagePartition,
        report: SalvagedPartition,
        witnesses: Sequence[Witness],
        journal: Journal | None,
    ) -> Iterator[None]:
        """Compares the log's end with the witnesses; with `keep_end` adds an empty segment at the highest one. Nothing
        is missing if it was only not read, as it is above a limit."""
        if any(one["reason"] == "limit_exceeded" for one in report.damage):
            witnesses = ()
        report.proofs = proofs_of_loss(partition, report.missing)
        report.never_compacted = (
            report.gaps_end > beside_files.log_start(partition)
            and not report.compacted
            and was_never_cleaned(partition)
        )
        ends = [report.next_offset or 0, end_without_segments(partition, witnesses), *_base_offsets(partition)]
        end = report.set_end(max(ends), witnesses)
        if not end.higher:
            return
        if end.higher[-1].meaning == DELETED:
            report.problems.append(
                f"{end.higher[-1].file} has {end.higher[-1].end} as start offset, above the log's end: a broker that "
                "starts with that file deletes every segment"
            )
        if not self._keep_end or partition.topic is None:
            return
        top = max(one.end for one in end.higher)
        report.ends_in_damage = False  # the missing offsets have an end now
        report.lost.append((report.log_end if report.next_offset is None else report.next_offset, top - 1))
        done = journal.done.get((report.folder, _KEPT_END)) if journal else None
        if done is None:
            step_report = SalvagedPartition(report.folder, start_offset=report.start_offset)
            writer = self._writer(partition, _KEPT_END, step_report, journal)
            try:
                writer.empty_segment(top)
                writer.finish()
            finally:
                writer.drop()
            yield from self._record(step_report, _KEPT_END, journal)
            done = step_report.to_dict()
        report.add(SalvagedPartition.of(done))

    def _salvage_snapshot(
        self, report: SalvagedPartition, name: str, copies: list[tuple[int, SegmentFile]], journal: Journal | None
    ) -> Iterator[None]:
        done = journal.done.get((report.folder, name)) if journal else None
        if done is None:
            step_report = SalvagedPartition(report.folder, ends_in_damage=report.ends_in_damage)
            files = journal.files if journal else self._planned_folder(report.folder)
            kraft_snapshots.salvage_snapshot(files, self._report.out, copies, self._cap, step_report)
            yield from self._record(step_report, name, journal)
            done = step_report.to_dict()
        report.add(SalvagedPartition.of(done))

    def _record(self, step_report: SalvagedPartition, step: str, journal: Journal | None) -> Iterator[None]:
        """Waits for the files of a step, adds what they are on the disk to its report, and the step to the journal.
        Compares a step that is only planned with that of an earlier run."""
        folder, earlier = step_report.folder, self._earlier
        if journal:
            yield
        elif earlier is None or (folder, step) not in earlier.done:
            return
        copied = {f"{folder}/{file.name}": file for file in (*step_report.files, *step_report.snapshots)}
        states = {}
        for path in sorted({*copied, *(one.saved_as for one in step_report.set_aside)}):
            states[path] = journal.state(path) if journal else self._planned_folder(folder).state(path)
        for path, file in copied.items():
            file.sha256 = states[path][1]
        result = step_report.to_dict()
        if journal:
            journal.add(folder, step, result, states)
        elif earlier and (states, as_json(result)) == (earlier.written(folder, step), earlier.done[folder, step]):
            self._same.add((folder, step))

    def _add_partition_report(self, partition: SalvagePartition, folder: str | None = None) -> SalvagedPartition:
        report = SalvagedPartition(folder or partition.folder, partition.topic, partition.partition)
        self._report.partitions.append(report)
        return report

    def _finish_partition(
        self, partition: SalvagePartition, report: SalvagedPartition, journal: Journal | None
    ) -> Iterator[None]:
        if report.ends_in_damage:
            report.lost.append((report.next_offset, None))
        if self._is_probe or not report.files:
            return
        if lost_markers.may_have_lost(partition, report):
            self._restore_markers(partition, report, journal)
        indexed = journal.done.get((report.folder, _INDEXED)) if journal else None
        side_files = indexed or {"copied": [], "problems": []}
        if journal and indexed is None:
            side_file_writer.remove_unrecorded(os.path.join(self._report.out, report.folder))
        states: dict[str, State] = {}
        write = partial(self._write_side_file, report.folder, states, journal)
        if self._report.as_partition:
            if indexed is None:
                with self._new_log(report, journal) as log:
                    side_files["copied"] = side_file_writer.copy_from_sources(log, write, partition)
                if journal:
                    yield
            report.problems += side_files["copied"]
            self._remove_plain_batches(report, journal)
        if indexed is None:
            with self._new_log(report, journal) as log:
                side_files["problems"] = side_file_writer.write_side_files(
                    log, write, self._report.as_partition, journal is None
                )
            if journal:
                yield
                journal.add(report.folder, _INDEXED, side_files, states)
        report.problems += side_files["problems"]
        self._planned.pop(report.folder, None)

    def _restore_markers(self, partition: SalvagePartition, report: SalvagedPartition, journal: Journal | None) -> None:
        """Decides the transactions whose markers are lost, writes markers, sets batches aside."""
        done = journal.done.get((report.folder, _MARKED)) if journal else None
        if done is None:
            with self._new_log(report, journal) as log:
                markers = lost_markers.placed(lost_markers.decide(log, partition, report), self._undecided)
                removed = lost_markers.removed_batches(log, markers)
                inserted = lost_markers.inserted_batches(log, markers)
            done = {
                "markers": [list(one) for one in markers],
                "inserted": [list(one) for one in inserted],
                "removed": [list(one) for one in removed],
            }
        report.markers = [Decision(*one) for one in done["markers"]]
        self._change(report, _MARKED, done, lost_markers.REASON, journal)

    def _change(
        self, report: SalvagedPartition, step: str, done: dict[str, Any], reason: str, journal: Journal | None
    ) -> list[rewriting.RemovedBatch]:
        """Removes batches from the new log and inserts others, as `done` says, which is recorded first."""
        folder = self._new_folder(report, journal)
        removed = [rewriting.RemovedBatch(*one) for one in done["removed"]]
        changes: list[rewriting.RemovedBatch | rewriting.InsertedBatch] = [
            rewriting.InsertedBatch(*one) for one in done["inserted"]
        ]
        changes += removed
        changes.sort(key=lambda one: (one.name, one.position))
        if journal and (report.folder, step) not in journal.done:
            files = rewriting.copy_set_aside(folder, removed, reason)
            states = {name: journal.state(name) or [] for name in files}
            journal.add(report.folder, step, done, states, rewriting.states_after(folder, changes))
        if changes and journal:
            journal.sync()
        rewriting.rewrite(folder, report, changes, reason)
        return removed

    def _new_folder(self, report: SalvagedPartition, journal: Journal | None) -> Folder:
        """The folder of the new log; in a dry run as it would be."""
        if journal is None:
            return self._planned_folder(report.folder)
        return LocalFolder(os.path.join(self._report.out, report.folder))

    def _planned_folder(self, name: str) -> PlannedFolder:
        return self._planned.setdefault(name, PlannedFolder(os.path.join(self._report.out, name)))

    def _new_log(self, report: SalvagedPartition, journal: Journal | None) -> PartitionFiles:
        return PartitionFiles.of(self._new_folder(report, journal))

    def _write_side_file(
        self, folder: str, states: dict[str, State], journal: Journal | None, name: str, data: bytes
    ) -> None:
        if journal is None:
            self._planned_folder(folder).write(name, data)
        else:
            journal.files.write(os.path.join(self._report.out, folder), name, data)
            states[f"{folder}/{name}"] = [len(data), sha256(data).hexdigest()]

    def _remove_plain_batches(self, report: SalvagedPartition, journal: Journal | None) -> None:
        """Removes batches that a broker would fail on."""
        done = journal.done.get((report.folder, _STARTABLE)) if journal else None
        if done is None:
            with self._new_log(report, journal) as log:
                found = open_transactions.find_plain_batches(log)
            done = {"removed": [list(one) for one in found], "inserted": []}
        removed = self._change(report, _STARTABLE, done, open_transactions.REASON, journal)
        report.problems += open_transactions.sentences(removed)

    def _salvage_step(
        self,
        partition: SalvagePartition,
        report: SalvagedPartition,
        step: str,
        journal: Journal | None,
        only: int | None = None,
    ) -> Iterator[None]:
        """One segment, or all sources of a partition: writes the files, then adds the step to the journal."""
        done = journal.done.get((report.folder, step)) if journal else None
        if done is not None:
            report.add(SalvagedPartition.of(done))
            return
        step_report = SalvagedPartition(report.folder, start_offset=report.start_offset, next_offset=report.next_offset)
        damage: list[Damage] = []
        ended_in_damage: dict[int, int | None] = {0: report.next_offset} if report.ends_in_damage else {}
        writer = self._writer(partition, step, step_report, journal)
        restored: list[Restored] | None = [] if self._restore else None
        collector = self._collector(writer, damage, ended_in_damage, restored)
        try:
            segments = partition.sources[0].segments
            if only is None:
                streams = good_batches.batch_streams(partition.main_sources, self._cap, collector)
                for number, source in enumerate(partition.sources):
                    if source.holes is not None:
                        streams.append(beside_files.rows_in(source.segments[0], number, source.holes, self._cap))
                step_report.sources = [one.path for source in partition.sources for one in source.segments]
            else:
                streams = [
                    good_batches.ordered_batches(segments, 0, report.next_offset or 0, self._cap, collector, only)
                ]
                step_report.sources = [segments[only].path]
            start = report.next_offset if report.next_offset is not None else _start_by_names(partition)
            ranks = [source.rank for source in partition.sources]
            for merged in merge(streams, start, stale=self._report.as_partition, ranks=ranks):
                writer.add(merged)
            if only == len(segments) - 1 and not (damage or step_report.batches or step_report.unread):
                _keep_empty_last_segment(segments[only], writer, step_report)
            writer.finish()
        finally:
            writer.drop()
            for source in partition.sources:
                for segment in source.segments:
                    segment.close()
        step_report.damage = [one.as_dict() for one in damage] + step_report.damage
        step_report.restored = [one.as_dict() for one in restored or ()]
        end = step_report.next_offset or 0
        step_report.ends_in_damage = any(place is None or place >= end for place in ended_in_damage.values())
        yield from self._record(step_report, step, journal)
        report.add(step_report)

    def _writer(
        self, partition: SalvagePartition, step: str, step_report: SalvagedPartition, journal: Journal | None
    ) -> PartitionWriter:
        unordered = all(source.unordered for source in partition.sources)
        return PartitionWriter(
            None if journal is None else journal.files,
            self._report.out,
            step_report.folder,
            step,
            _base_offsets(partition),
            _ROLL_UNORDERED if unordered else _NO_ROLL,
            step_report,
            self._planned_folder(step_report.folder),
        )

    def _collector(
        self,
        writer: PartitionWriter,
        damage: list[Damage],
        ended_in_damage: dict[int, int | None],
        restored: list[Restored] | None,
    ) -> DamageCollector:
        """Collects in these lists, and in the report of the writer's step."""
        report = writer.report
        return DamageCollector(
            damage,
            writer.set_aside,
            report.tails,
            ended_in_damage,
            report.unread,
            restored,
            self._progress,
            self._threads,
        )

    def _salvage_unordered(self, partition: SalvagePartition, journal: Journal | None) -> Iterator[None]:
        """Salvages a file without a known name as one log, or as several if its offsets decrease. It then has pieces of
        several partitions, or of one partition in the wrong order; only the user can know which."""
        segment = partition.sources[0].segments[0]
        earlier = journal or self._earlier
        folders = earlier.runs(partition.folder) if earlier else []
        if journal and folders and (partition.folder, "all") in journal.done:
            reports = [self._add_partition_report(partition, folder) for folder in folders]
            for report in reports:
                report.add(SalvagedPartition.of(journal.done[report.folder, "all"]))
                yield from self._finish_partition(partition, report, journal)
            return
        report = self._add_partition_report(partition)
        step_report = SalvagedPartition(report.folder, sources=[segment.path])
        damage: list[Damage] = []
        ended_in_damage: dict[int, int | None] = {}
        writer = self._writer(partition, "all", step_report, journal)
        writers = [writer]
        restored: list[Restored] | None = [] if self._restore else None
        collector = self._collector(writer, damage, ended_in_damage, restored)
        try:
            runs = good_batches.ascending_runs(segment, 0, self._cap, collector)
            step_report.damage = [one.as_dict() for one in damage]
            step_report.restored = [one.as_dict() for one in restored or ()]
            for number, run in enumerate(runs):
                if number:
                    folder = folders[number] if number < len(folders) else self._free_folder(journal)
                    step_report = SalvagedPartition(folder, sources=[segment.path])
                    writer = self._writer(partition, "all", step_report, journal)
                    writers.append(writer)
                for merged in merge([iter(run)], None):
                    writer.add(merged)
                writer.finish()
            if len(runs) > 1:
                _report_decreasing_offsets(writers[0].report, len(runs))
            writers[-1].report.ends_in_damage = bool(ended_in_damage)
            writers[0].finish()
        finally:
            for one in writers:
                one.drop()
            segment.close()
        reports = [report, *(self._add_partition_report(partition, one.report.folder) for one in writers[1:])]
        for one in writers:
            yield from self._record(one.report, "all", journal)
        if journal is not None:
            journal.add(partition.folder, RUNS, {"folders": [one.report.folder for one in writers]}, {})
        for one, target in zip(writers, reports, strict=True):
            target.add(one.report)
            yield from self._finish_partition(partition, target, journal)

    def _free_folder(self, journal: Journal | None) -> str:
        if journal:
            self._folders |= {folder for one in list(self._folders) for folder in journal.runs(one)}
        number = 0
        while f"unnamed-{number}" in self._folders:
            number += 1
        self._folders.add(f"unnamed-{number}")
        return f"unnamed-{number}"


def _report_decreasing_offsets(step_report: SalvagedPartition, count: int) -> None:
    times = "once" if count == 2 else f"{count - 1} times"
    step_report.problems.append(
        f"offsets go backwards {times}: this file holds parts of several logs, or one log out of order. Each part was "
        "written to its own folder; if they are one partition, --topic and --partition put them in order"
    )


def _start_by_names(partition: SalvagePartition) -> int | None:
    """The first offset of the log, from the names of its first segments; None: not known."""
    sources = partition.main_sources
    bases = [source.segments[0].base_offset for source in sources if source.segments and not source.unordered]
    known = [base for base in bases if base is not None]
    return min(known) if known and len(known) == sum(bool(source.segments) for source in sources) else None


def _base_offsets(partition: SalvagePartition) -> list[int]:
    """The base offsets of the first source's segments, and of the other sources' segments before and after those."""
    base_offsets: list[int] = []
    for source in partition.sources:
        own = sorted({segment.base_offset for segment in source.segments if segment.base_offset is not None})
        low, high = (base_offsets[0], base_offsets[-1]) if base_offsets else (0, -1)
        new = own if source.holes is not None else [base for base in own if base < low or base > high]
        base_offsets = sorted({*base_offsets, *new})
    return base_offsets


def _keep_empty_last_segment(segment: SegmentFile, writer: PartitionWriter, step_report: SalvagedPartition) -> None:
    """Writes the log's last segment if it is empty, unless its base offset is below the log's end."""
    base = segment.base_offset
    if base is not None and base >= (step_report.next_offset or 0):
        writer.empty_segment(base)
