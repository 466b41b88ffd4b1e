"""Plans what is written for one partition: reads the sources, and writes nothing.

    read        the good batches of all sources, merged to one log           good_batches, merge, plan_builder
    fill        again, with other files that have what is missing            beside_files
    snapshots   of the metadata log, copied if they are complete              kraft_snapshots
    end         compared with what other files say of it                      source_witnesses
    markers     of transactions, where damage destroyed them                  lost_markers
    startable   without what a broker fails on, with its small files          open_transactions, side_file_writer

A dry run ends here. What is written is this plan, byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkarec.damage import Damage, Restored
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.recorded_ends import DELETED, EndVerdict, Witness
from kafkarec.storage.segment_file import SegmentFile

from . import (
    beside_files,
    good_batches,
    kraft_snapshots,
    lost_markers,
    open_transactions,
    side_file_writer,
)
from .copying import Spool
from .good_batches import DamageCollector, ReadProgress, no_progress
from .merge import merge
from .partition_sources import SalvagePartition
from .plan_builder import MAX_SEGMENT, PlanBuilder
from .planned_files import PlannedFolder
from .salvaged_partition import BesideFile, SalvagedPartition
from .source_witnesses import SourceWitnesses, end_without_segments, proofs_of_loss, was_never_cleaned

_ROLL_UNORDERED = 1 << 30


@dataclass(frozen=True)
class SalvageOptions:
    """Options of `salvage`, and what is shared by its partitions."""

    out: str
    witnesses: SourceWitnesses
    as_partition: bool = False
    max_decompressed_bytes: int = 128 << 20
    undecided: str = "abort"
    keep_end: bool = False
    restore: bool = True
    threads: int = 1
    progress: ReadProgress = no_progress


@dataclass
class PartitionPlan:
    """One folder of the output: its files, and what the report says of it."""

    report: SalvagedPartition
    folder: PlannedFolder

    def log(self) -> PartitionFiles:
        """The log that it becomes."""
        return PartitionFiles.of(self.folder)


def plan(
    partition: SalvagePartition, options: SalvageOptions, spool: Spool | None, new_folder: Callable[[], str]
) -> list[PartitionPlan]:
    """The folders of a partition: one, or several for a file without a known name that has several logs.

    spool        see Spool
    new_folder   makes a name for one more folder
    """
    if partition.topic is None and partition.sources[0].unordered:
        return _unordered(partition, options, spool, new_folder)
    witnesses = options.witnesses.of(partition)
    beside: list[BesideFile] = []
    made = _read(partition, options, spool)
    if partition.fillers:
        _compare_end(partition, made.report, witnesses)
        missing = made.report
        if missing.ends_in_damage:
            missing = replace(missing, lost=[*missing.lost, (missing.next_offset, None)])
        sources, beside = beside_files.filled(partition, missing, options.max_decompressed_bytes)
        if sources:
            partition = replace(partition, sources=[*partition.sources, *sources])
            made = _read(partition, options, spool)
    made.report.other_files += [*partition.beside, *beside]
    made.report.problems[:0] = partition.problems
    for copies in kraft_snapshots.snapshots_by_name(partition).values():
        kraft_snapshots.plan_snapshot(made.folder, copies, options.max_decompressed_bytes, made.report)
    _set_end(partition, made, _compare_end(partition, made.report, witnesses), options)
    options.witnesses.add_lost_start(partition, made.report)
    _finish(partition, made, options)
    return [made]


def _new(partition: SalvagePartition, options: SalvageOptions, spool: Spool | None, folder: str) -> PartitionPlan:
    report = SalvagedPartition(folder, partition.topic, partition.partition)
    return PartitionPlan(report, PlannedFolder(os.path.join(options.out, folder), spool, report.unread))


class _Reading:
    """The good batches of sources, read into a plan. `collector` is passed to what reads."""

    def __init__(self, made: PartitionPlan, builder: PlanBuilder, options: SalvageOptions) -> None:
        self._report = made.report
        self._damage: list[Damage] = []
        self._restored: list[Restored] | None = [] if options.restore else None
        self.ended_in_damage: dict[int, int | None] = {}
        self.collector = DamageCollector(
            self._damage,
            builder.set_aside,
            made.report.tails,
            self.ended_in_damage,
            made.report.unread,
            self._restored,
            options.progress,
            options.threads,
        )

    def finish(self) -> None:
        """Adds to the report what was collected."""
        self._report.damage[:0] = [one.as_dict() for one in self._damage]
        self._report.restored = [one.as_dict() for one in self._restored or ()]


def _read(partition: SalvagePartition, options: SalvageOptions, spool: Spool | None) -> PartitionPlan:
    """The good batches of all sources, as one log."""
    made = _new(partition, options, spool, partition.folder)
    report, sources, cap = made.report, partition.sources, options.max_decompressed_bytes
    roll = _ROLL_UNORDERED if all(source.unordered for source in sources) else MAX_SEGMENT
    builder = PlanBuilder(report, made.folder, _base_offsets(partition), roll)
    reading = _Reading(made, builder, options)
    streams = good_batches.batch_streams(partition.main_sources, cap, reading.collector)
    for number, source in enumerate(sources):
        if source.holes is not None:
            streams.append(beside_files.rows_in(source.segments[0], number, source.holes, cap))
    report.sources = [one.path for source in sources for one in source.segments]
    ranks = [source.rank for source in sources]
    for merged in merge(streams, _start_by_names(partition), stale=options.as_partition, ranks=ranks):
        builder.add(merged)
    reading.finish()
    if len(sources) == 1 and not sources[0].unordered and sources[0].segments:
        _keep_empty_last_segment(sources[0].segments[-1], builder)
    builder.finish()
    end = report.next_offset or 0
    report.ends_in_damage = any(place is None or place >= end for place in reading.ended_in_damage.values())
    return made


def _unordered(
    partition: SalvagePartition, options: SalvageOptions, spool: Spool | None, new_folder: Callable[[], str]
) -> list[PartitionPlan]:
    """A file without a known name as one log, or as several if its offsets decrease. It then has pieces of several
    partitions, or of one partition in the wrong order; only the user can know which."""
    segment = partition.sources[0].segments[0]
    plans = [_new(partition, options, spool, partition.folder)]
    builder = PlanBuilder(plans[0].report, plans[0].folder, [], _ROLL_UNORDERED)
    reading = _Reading(plans[0], builder, options)
    runs = good_batches.ascending_runs(segment, 0, options.max_decompressed_bytes, reading.collector)
    reading.finish()
    for number, run in enumerate(runs):
        if number:
            plans.append(_new(partition, options, spool, new_folder()))
            builder = PlanBuilder(plans[-1].report, plans[-1].folder, [], _ROLL_UNORDERED)
        for merged in merge([iter(run)], None):
            builder.add(merged)
        builder.finish()
    if len(runs) > 1:
        times = "once" if len(runs) == 2 else f"{len(runs) - 1} times"
        plans[0].report.problems.append(
            f"offsets go backwards {times}: this file holds parts of several logs, or one log out of order. Each part "
            "was written to its own folder; if they are one partition, --topic and --partition put them in order"
        )
    plans[-1].report.ends_in_damage = bool(reading.ended_in_damage)
    for made in plans:
        made.report.sources = [segment.path]
        _finish(partition, made, options)
    return plans


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


def _keep_empty_last_segment(segment: SegmentFile, builder: PlanBuilder) -> None:
    """Adds the log's last segment if it is empty, unless its base offset is below the log's end."""
    report, base = builder.report, segment.base_offset
    is_bad = any(one["file"] == segment.path for one in report.damage)
    is_bad = is_bad or any(one.path == segment.path for one in report.unread)
    if base is not None and base >= (report.next_offset or 0) and not is_bad:
        builder.empty_segment(base)


def _compare_end(partition: SalvagePartition, report: SalvagedPartition, witnesses: Sequence[Witness]) -> EndVerdict:
    """Compares the log with the witnesses of its end, and with what proves that offsets are lost; the report gets it.
    Nothing is missing if it was only not read, as it is above a limit."""
    if any(one["reason"] == "limit_exceeded" for one in report.damage):
        witnesses = ()
    report.proofs = proofs_of_loss(partition, report.missing)
    report.never_compacted = (
        report.gaps_end > beside_files.log_start(partition) and not report.compacted and was_never_cleaned(partition)
    )
    ends = [report.next_offset or 0, end_without_segments(partition, witnesses), *_base_offsets(partition)]
    return report.set_end(max(ends), witnesses)


def _set_end(partition: SalvagePartition, made: PartitionPlan, end: EndVerdict, options: SalvageOptions) -> None:
    """Says what a start offset above the log's end means; with `keep_end` adds an empty segment at the highest recorded
    end."""
    report = made.report
    if not end.higher:
        return
    if end.higher[-1].meaning == DELETED:
        report.problems.append(
            f"{end.higher[-1].file} has {end.higher[-1].end} as start offset, above the log's end: a broker that "
            "starts with that file deletes every segment"
        )
    if not options.keep_end or partition.topic is None:
        return
    top = max(one.end for one in end.higher)
    report.ends_in_damage = False  # the missing offsets have an end now
    report.lost.append((report.log_end if report.next_offset is None else report.next_offset, top - 1))
    PlanBuilder(report, made.folder, []).empty_segment(top)


def _finish(partition: SalvagePartition, made: PartitionPlan, options: SalvageOptions) -> None:
    """Decides the transactions whose markers are lost; removes what a broker fails on."""
    report, folder = made.report, made.folder
    if report.ends_in_damage:
        report.lost.append((report.next_offset, None))
    if not report.files:
        return
    if lost_markers.may_have_lost(partition, report):
        with made.log() as log:
            report.markers = lost_markers.placed(lost_markers.decide(log, partition, report), options.undecided)
            changes = lost_markers.changes(log, report.markers)
        folder.change(report, changes, lost_markers.REASON)
    if options.as_partition:
        with made.log() as log:
            report.problems += side_file_writer.copy_from_sources(log, folder.write, partition)
        with made.log() as log:
            plain = open_transactions.find_plain_batches(log)
        folder.change(report, plain, open_transactions.REASON)
        report.problems += open_transactions.sentences(plain)
