"""Plans what is written for one partition: reads the sources, and writes nothing.

    read        the good batches of all sources, merged to one log           storage.good_batches, merge, plan_builder
    fill        again, with other files that have what is missing            beside_files
    snapshots   of the metadata log, copied if they are complete              kraft_snapshots
    end         compared with what other files say of it                      source_witnesses
    markers     of transactions, where damage destroyed them                  lost_markers
    end         with keep_end: a batch without records where the log ended
    startable   without what a broker fails on, with its small files          plain_batches, side_file_writer
    or          for another cluster: without producers                        new_cluster

A dry run ends here. What is written is this plan, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafkarec.internal_topics.cluster_topics import CLUSTER_METADATA
from kafkarec.ops.rewrite.new_batches import empty_batch
from kafkarec.recover.steps import as_stored
from kafkarec.storage import good_batches
from kafkarec.storage.good_batches import GoodBatch
from kafkarec.storage.recorded_ends import DELETED, EndVerdict, Witness
from kafkarec.storage.segment_summary import last_batch
from kafkarec.write.fields import BatchHeader

from . import (
    beside_files,
    kraft_snapshots,
    lost_markers,
    new_cluster,
    plain_batches,
    side_file_writer,
)
from .merge import merge
from .partition_sources import SalvagePartition, unread_side_files
from .plan_builder import MAX_SEGMENT, UNORDERED_SEGMENT_BYTES, PlanBuilder, SalvageOptions
from .planned_files import PlannedFolder, inserted
from .salvaged_partition import BesideFile, SalvagedPartition
from .source_witnesses import (
    add_lost_start,
    credible,
    end_without_segments,
    is_followed,
    proofs_of_loss,
    read_witnesses,
    was_never_cleaned,
)


def plan(partition: SalvagePartition, options: SalvageOptions) -> list[PlannedFolder]:
    """The folders of a partition: one, or several for a file without a known name that has several logs."""
    if partition.topic is None and partition.sources[0].unordered:
        return _unordered(partition, options)
    read_witnesses(partition)
    unread_beside = unread_side_files(partition)
    beside: list[BesideFile] = []
    made = _read(partition, options)
    if is_followed(partition):
        made = _read(partition, options)
    witnesses = credible(partition)
    if partition.fillers:
        _compare_end(partition, made.report, witnesses)
        missing = made.report
        if missing.ends_in_damage:
            missing = replace(missing, lost=[*missing.lost, (missing.next_offset, None)])
        sources, beside = beside_files.filled(partition, missing, options.max_decompressed_bytes)
        if sources:
            partition = replace(partition, sources=[*partition.sources, *sources])
            made = _read(partition, options)
    made.report.unread += unread_beside
    made.report.other_files += [*partition.beside, *beside]
    made.report.problems[:0] = partition.problems
    kraft_snapshots.plan_snapshots(made, partition, options.max_decompressed_bytes)
    end = _compare_end(partition, made.report, witnesses)
    add_lost_start(partition, made.report)
    _finish(partition, made, options, _least_end(partition, made.report, end, options))
    if partition.topic == CLUSTER_METADATA:
        made.report.problems[:0] = kraft_snapshots.losses(made.report)
    return [made]


def _read(partition: SalvagePartition, options: SalvageOptions) -> PlannedFolder:
    """The good batches of all sources, as one log. Sets their ends."""
    sources, start = partition.sources, _start_by_names(partition)
    roll = UNORDERED_SEGMENT_BYTES if all(source.unordered for source in sources) else MAX_SEGMENT
    builder = PlanBuilder(partition, options, partition.folder, start, _base_offsets(partition), roll)
    report, collector = builder.report, builder.collector
    streams: list[Iterator[GoodBatch]] = []  # of an unordered source one for each ascending run
    for number, source in enumerate(sources):
        if source.holes is not None:
            streams.append(beside_files.rows_in(source.segments[0], number, source.holes, collector.cap))
        elif source.unordered:
            runs = (good_batches.ascending_runs(segment, number, collector) for segment in source.segments)
            streams += [iter(run) for found in runs for run in found]
        else:
            streams.append(good_batches.ordered_batches(source.segments, number, collector))
    report.sources = [one.path for source in sources for one in source.segments]
    ranks = [source.rank for source in sources]
    for row, reason in merge(streams, start, stale=options.as_partition, ranks=ranks):
        builder.add(row, reason)
    builder.add_collected()
    if len(sources) == 1 and not sources[0].unordered and sources[0].segments:
        last = sources[0].segments[-1]
        bad = {*(one["file"] for one in report.damage), *(one.path for one in report.unread)}
        if last.base_offset is not None and last.base_offset >= (report.next_offset or 0) and last.path not in bad:
            builder.end_with_empty_segment(last.base_offset, collector.ends[0].in_damage)
    builder.folder.join_aside()
    for number, end in collector.ends.items():
        sources[number].end = end
    damaged = [one.next_offset for one in collector.ends.values() if one.in_damage]
    report.ends_in_damage = any(place is None or place >= (report.next_offset or 0) for place in damaged)
    if report.next_offset is None and report.damage:  # every batch behind it was set aside
        report.ends_in_damage = True
    return builder.folder


def _unordered(partition: SalvagePartition, options: SalvageOptions) -> list[PlannedFolder]:
    """A file without a known name as one log; or, if its offsets, leader epochs or sequence numbers fall, as many. It
    then has pieces of several partitions, or of one partition in the wrong order; only the user can know which. It is
    read once more then, as no offset tells of another one that it is wrong."""
    given = partition.sources[0].segments[0]
    for several in (False, True):
        segment = given.copy(one_log=False) if several else given
        builder = PlanBuilder(partition, options, partition.folder)
        collector = builder.collector
        runs = good_batches.ascending_runs(segment, 0, collector, several)
        if len(runs) < 2 and not any(one.reason == "base_offset_undecided" for one in collector.damage):
            break
    builder.add_collected()
    plans = [builder.folder]
    for number, run in enumerate(runs):
        if number:
            builder = PlanBuilder(partition, options, options.new_folder())
            plans.append(builder.folder)
        for row, reason in merge([iter(run)], None):
            builder.add(row, reason)
        builder.folder.join_aside()
    if len(runs) > 1:
        plans[0].report.problems.append(
            f"this file holds {len(runs)} pieces of several logs, or of one log out of order. Each is in its own "
            "folder; if they are one partition, --topic and --partition put them in order"
        )
    plans[-1].report.ends_in_damage = collector.ends[0].in_damage
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


def _compare_end(partition: SalvagePartition, report: SalvagedPartition, witnesses: Sequence[Witness]) -> EndVerdict:
    """Compares the log with the witnesses of its end, and with what proves that offsets are lost; the report gets
    it."""
    report.proofs = proofs_of_loss(partition, report.missing)
    report.never_compacted = (
        report.gaps_end > beside_files.log_start(partition) and not report.compacted and was_never_cleaned(partition)
    )
    ends = [report.next_offset or 0, end_without_segments(partition, witnesses), *_base_offsets(partition)]
    return report.set_end(max(ends), witnesses)


def _least_end(partition: SalvagePartition, report: SalvagedPartition, end: EndVerdict, options: SalvageOptions) -> int:
    """Says what a start offset above the log's end means. Returns the offset at which the new log has to end, or above:
    with `keep_end` where the log ended, otherwise 0."""
    if end.higher and end.higher[-1].meaning == DELETED:
        report.problems.append(
            f"{end.higher[-1].file} has {end.higher[-1].end} as start offset, above the log's end: a broker that "
            "starts with that file deletes every segment"
        )
    if not options.keep_end or partition.topic is None:
        return 0
    least = max([report.log_end, *(one.end for one in end.higher)])
    if end.higher:
        report.ends_in_damage = False  # the missing offsets have an end now
        report.lost.append((report.log_end if report.next_offset is None else report.next_offset, least - 1))
    return least


def _reach(made: PlannedFolder, end: int) -> None:
    """Lets the log end at this offset, with a batch without records, as the log cleaner leaves one: a consumer reads up
    to it. A log without segments gets an empty one."""
    report = made.report
    with made.log() as log:
        before = next(filter(None, map(last_batch, reversed(log.segments))), {})
    if before.get("last_offset", -1) >= end - 1:
        return
    last = next((file for file in reversed(report.files) if file.base_offset < end), None)
    if last is None or end - 1 - last.base_offset > MAX_SEGMENT:
        made.add_empty_segment(end if last is None else end - 1)
        if last is None:
            return
        last = report.files[-1]
    epoch = as_stored(before.get("partition_leader_epoch"))
    header = BatchHeader(base_offset=end - 1, last_offset=end - 1, partition_leader_epoch=epoch)
    data = empty_batch(header, as_stored(before.get("max_timestamp")))
    made.change([inserted(last.name, last.size, data)])


def _finish(partition: SalvagePartition, made: PlannedFolder, options: SalvageOptions, least_end: int = 0) -> None:
    """Decides the transactions whose markers are lost; removes what a broker fails on."""
    report = made.report
    if report.ends_in_damage:
        report.lost.append((report.next_offset, None))
    # of a file without a name nothing tells whether it is of one log: no marker is written into two
    if partition.topic is not None and report.files and lost_markers.may_have_lost(partition, report):
        with made.log() as log:
            report.markers = lost_markers.placed(lost_markers.decide(log, partition, report), options.undecided)
            changes = lost_markers.changes(log, report.markers)
        made.change(changes)
    if least_end:
        _reach(made, least_end)
    if not report.files:
        return
    if options.new_cluster and partition.topic != CLUSTER_METADATA:
        end = report.next_offset or 0
        with made.log() as log:
            changed = list(new_cluster.changes(log))
        if changed:
            made.change(changed)
            report.problems.append(new_cluster.sentence(changed))
        _reach(made, end)
    elif options.as_partition:
        with made.log() as log:
            report.problems += side_file_writer.copy_from_sources(log, made.files.__setitem__, partition)
        with made.log() as log:
            plain = plain_batches.find_plain_batches(log)
        made.change(plain)
        report.problems += plain_batches.sentences(plain)
