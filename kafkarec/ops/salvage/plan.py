"""Plans what is written for one partition: reads the sources, and writes nothing.

    read        the good batches of all sources, merged to one log           storage.good_batches, plan_builder
    fill        again, with other files that have what is missing            beside_files
    snapshots   of the metadata log, copied if they are complete
    end         compared with what other files say of it                      beside_files
    markers     of transactions, where damage destroyed them                  planned_changes
    end         with keep_end: a batch without records where the log ended
    startable   without what a broker fails on, with its small files          planned_changes, plan_writing
    or          for another cluster: without producers                        planned_changes

A dry run ends here. What is written is this plan, byte for byte.

KRaft snapshots of the metadata log are copied to the new folder if complete, else their good batches are set aside

00000000000000000146-0000000001.checkpoint
    batch of control records     SnapshotHeader, KRaftVersion, Voters      offsets from 0 on
    batches of metadata records
    batch of control records     SnapshotFooter                            the last batch

A finished snapshot is never appended to, and a controller refuses one that is incomplete or has no footer (KIP-630,
RecordsSnapshotReader). The offsets of every snapshot begin at 0, so snapshots are never merged with the segments or
with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.format.layout import v2_header
from kafkarec.internal_topics.cluster_topics import CLUSTER_METADATA
from kafkarec.ops.rewrite import empty_batch
from kafkarec.read.reader import decode
from kafkarec.recover.steps import as_stored
from kafkarec.sidecars.leader_epochs import EpochEntry
from kafkarec.storage import recorded_ends
from kafkarec.storage.good_batches import GoodBatches, SourceReader
from kafkarec.storage.recorded_ends import DELETED, EndVerdict, LogEnd, RecordedEnd, ends_above
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.storage.segment_summary import last_batch
from kafkarec.write.fields import BatchHeader

from .beside_files import (
    add_lost_start,
    batches_in_holes,
    credible_ends,
    find_useful_fillers,
    log_of_source,
    log_start,
    mark_incomplete_ends,
    proofs_of_loss,
)
from .partition_sources import PartitionSources, unread_side_files
from .plan_builder import MAX_SEGMENT, PlanBuilder, SalvageOptions, report_unreadable
from .plan_writing import copy_from_sources
from .planned_changes import (
    decided_markers,
    epoch_within,
    marker_changes,
    new_cluster_changes,
    new_cluster_sentence,
    placed_markers,
    plain_batch_changes,
    restored_changes,
)
from .planned_files import Change, FilePlan, PlannedFolder, Unreadable
from .salvaged_partition import BesideFile, OutputFile, SalvagedPartition

_CUT = "length_beyond_end"  # the reason of its damage, where nothing but the end is missing


def plan_kraft_snapshots(folder: PlannedFolder, partition: PartitionSources, cap: int) -> None:
    """Plans each snapshot of the sources, by its name. cap: max_decompressed_bytes."""
    copies: dict[str, list[tuple[int, SegmentFile]]] = {}
    for number, source in enumerate(partition.sources):
        for segment in source.snapshots:
            # as one that others follow: it is never appended to, and what is behind its last batch is damage
            copies.setdefault(segment.name, []).append((number, segment.copy(later_segment=True)))
    for of_one in copies.values():
        _plan_kraft_snapshot(folder, of_one, cap)


def _plan_kraft_snapshot(folder: PlannedFolder, copies: list[tuple[int, SegmentFile]], cap: int) -> None:
    """Plans a copy of the first complete copy of a snapshot, or sets the good batches of all copies aside."""
    report, incomplete = folder.report, list[GoodBatches]()
    for number, segment in copies:
        with closing(segment):
            reader, known = SourceReader(cap, unread=report.unread, number=number), len(report.unread)
            good = list(reader.read_file(segment, 0))
            report.sources.append(segment.path)
            is_whole = not reader.damage and len(report.unread) == known
            if is_whole and _has_footer(good):
                try:
                    source, position = folder.keep_range(segment, 0, segment.size)
                except Unreadable:
                    report_unreadable(report, segment, 0, segment.size)
                else:
                    folder.add(FilePlan(segment.name)).copy(source, position, segment.size)
                    counts = len(good), sum(row.records or 0 for row in good)
                    copied = OutputFile(segment.name, segment.size, "", *counts, good[0].base, good[-1].last)
                    report.snapshots.append(copied)
                    return
            elif is_whole:
                end, text = segment.size, f"{segment.path} ends without a SnapshotFooter"
                reader.damage.append(Damage(segment.path, end, 0, None, None, end, _CUT, text))
            report.damage += [one.as_dict() for one in reader.damage]
            incomplete += good
    begin = len(report.set_aside)
    for row in incomplete:
        folder.keep_aside(row.as_set_aside("snapshot_incomplete"), f"-{row.segment.name}")
    folder.join_aside(begin)


def _has_footer(good: list[GoodBatches]) -> bool:
    """Whether the last record of the last batch is a SnapshotFooter."""
    try:
        last = good[-1]
        records = decode(last.segment.raw(last.position, last.size), columns=("key", "value"), control=True)
        keys, values = records.column("key"), records.column("value")
        return isinstance(control.parse(keys[-1], values[-1]), control.SnapshotFooterRecord)
    except (IndexError, KafkaRecordError, OSError):
        return False


def plan(partition: PartitionSources, options: SalvageOptions) -> list[PlannedFolder]:
    """The folders of a partition: one, or several for a file without a known name that has several logs."""
    if partition.topic is None and partition.sources[0].unordered:
        return _plan_unnamed_file(partition, options)
    for source in partition.main_sources:  # before their segments: a broker may be writing both
        if not source.unordered:
            source.recorded_ends = recorded_ends.read(log_of_source(partition, source), source.data_folder)
    unread_beside = unread_side_files(partition)
    beside: list[BesideFile] = []
    made = _plan_merged(partition, options)
    if mark_incomplete_ends(partition):
        made = _plan_merged(partition, options)
    recorded = credible_ends(partition)
    if partition.fillers:
        _compare_end(partition, made.report, recorded)
        missing = made.report
        if missing.ends_in_damage:
            missing = replace(missing, lost=[*missing.lost, (missing.next_offset, None)])
        sources, beside = find_useful_fillers(partition, missing, options.max_decompressed_bytes)
        if sources:
            partition = replace(partition, sources=[*partition.sources, *sources])
            made = _plan_merged(partition, options)
    made.report.unread += unread_beside
    made.report.other_files += [*partition.beside, *beside]
    made.report.problems[:0] = partition.problems
    plan_kraft_snapshots(made, partition, options.max_decompressed_bytes)
    end = _compare_end(partition, made.report, recorded)
    add_lost_start(partition, made.report)
    report, least_end = made.report, 0
    if end.higher and end.higher[-1].meaning == DELETED:
        report.problems.append(
            f"{end.higher[-1].file} has {end.higher[-1].end} as start offset, above the log's end: a broker that "
            "starts with that file deletes every segment"
        )
    if options.keep_end and partition.topic is not None:
        least_end = max([report.log_end, *(one.end for one in end.higher)])
        if end.higher:
            report.ends_in_damage = False  # the missing offsets have an end now
            report.lost.append((report.log_end if report.next_offset is None else report.next_offset, least_end - 1))
    _complete_plan(partition, made, options, least_end)
    if partition.topic == CLUSTER_METADATA:
        # A node that loads a metadata log replays each record above its last complete snapshot on those before, and
        # stops at the first that does not fit (MetadataLoader, QuorumController).
        covered = max((file.base_offset for file in report.snapshots), default=0)  # the offset after its last one
        gone = [first for first, last in (*report.lost, *report.missing) if last is None or last >= covered]
        if gone:
            lowest = min(covered if first is None else max(first, covered) for first in gone)
            report.problems.insert(
                0,
                f"records of the metadata log from offset {lowest} on are lost: a broker or controller that starts "
                "with this folder stops with 'Error loading metadata log record', or runs with wrong metadata. Another "
                "controller has them: name its folder as a second source, or give the node an empty folder, and it "
                "fetches all",
            )
    return [made]


def _plan_merged(partition: PartitionSources, options: SalvageOptions) -> PlannedFolder:
    """The good batches of all sources, as one log. Sets their ends."""
    sources, start = partition.sources, None
    named = [one.segments[0].base_offset for one in partition.main_sources if one.segments and not one.unordered]
    bases = [base for base in named if base is not None]
    if bases and len(bases) == sum(bool(one.segments) for one in partition.main_sources):
        start = min(bases)  # by the names of the first segments
    builder = PlanBuilder(partition, options, partition.folder, start, _base_offsets(partition))
    report, readers = builder.report, list[SourceReader]()
    streams: list[Iterator[GoodBatches]] = []  # of an unordered source one for each ascending run
    for number, source in enumerate(sources):
        reader = replace(builder.reader, number=number)
        readers.append(reader)
        if source.holes is not None:
            streams.append(batches_in_holes(source.segments[0], number, source.holes, reader.cap))
        elif source.unordered:
            streams += [iter(run) for segment in source.segments for run in reader.ascending_runs(segment)]
        else:
            streams.append(reader.ordered_batches(source.segments))
    report.sources = [one.path for source in sources for one in source.segments]
    builder.add_merged(streams)
    builder.report_collected()
    if len(sources) == 1 and not sources[0].unordered and sources[0].segments:
        last = sources[0].segments[-1]
        bad = {*(one["file"] for one in report.damage), *(one.path for one in report.unread)}
        if last.base_offset is not None and last.base_offset >= (report.next_offset or 0) and last.path not in bad:
            builder.end_with_empty_segment(last.base_offset, readers[0].end.in_damage)
    for source, reader in zip(sources, readers, strict=True):
        if source.holes is None:
            source.end = reader.end
    damaged = [one.end.next_offset for one in readers if one.end.in_damage]
    report.ends_in_damage = any(place is None or place >= (report.next_offset or 0) for place in damaged)
    if report.next_offset is None and report.damage:  # every batch behind it was set aside
        report.ends_in_damage = True
    builder.folder.proofs = proofs_of_loss(partition, report.missing)
    report.proofs = [*builder.folder.proofs.values()]
    return builder.folder


def _plan_unnamed_file(partition: PartitionSources, options: SalvageOptions) -> list[PlannedFolder]:
    """A file without a known name as one log; or, if its offsets, leader epochs or sequence numbers fall, as many. It
    then has pieces of several partitions, or of one partition in the wrong order; only the user can know which. It is
    read once more then, as no offset tells of another one that it is wrong."""
    given = partition.sources[0].segments[0]
    for several in (False, True):
        segment = given.copy(one_log=False) if several else given
        builder = PlanBuilder(partition, options, partition.folder)
        reader = builder.reader
        runs = reader.ascending_runs(segment, several)
        if len(runs) < 2 and not any(one.reason == "base_offset_undecided" for one in reader.damage):
            break
    builder.report_collected()
    plans = [builder.folder]
    for number, run in enumerate(runs):
        if number:
            builder = PlanBuilder(partition, options, f"{partition.folder}-{number}")
            plans.append(builder.folder)
        builder.add_merged([iter(run)])
    if len(runs) > 1:
        plans[0].report.problems.append(
            f"this file holds {len(runs)} pieces of several logs, or of one log out of order. Each is in its own "
            "folder; if they are one partition, --topic and --partition put them in order"
        )
    plans[-1].report.ends_in_damage = reader.end.in_damage
    for made in plans:
        made.report.sources = [segment.path]
        _complete_plan(partition, made, options)
    return plans


def _base_offsets(partition: PartitionSources) -> list[int]:
    """The base offsets of the first source's segments, and of the other sources' segments before and after those."""
    base_offsets: list[int] = []
    for source in partition.sources:
        own = sorted({segment.base_offset for segment in source.segments if segment.base_offset is not None})
        low, high = (base_offsets[0], base_offsets[-1]) if base_offsets else (0, -1)
        new = own if source.holes is not None else [base for base in own if base < low or base > high]
        base_offsets = sorted({*base_offsets, *new})
    return base_offsets


def _compare_end(partition: PartitionSources, report: SalvagedPartition, recorded: Sequence[RecordedEnd]) -> EndVerdict:
    """Compares the log with the recorded ends; the report gets it."""
    sources = partition.main_sources
    if report.gaps_end > log_start(partition) and not report.compacted:
        folders = [one.data_folder for one in sources if one.log is not None]
        # beside each source a cleaner-offset-checkpoint that does not list the log
        cleaned = {folder.is_cleaned(partition.topic, partition.partition) for folder in folders}
        report.never_compacted = cleaned == {False}
    ends = [report.next_offset or 0, *_base_offsets(partition)]
    if not any(source.segments for source in partition.sources):
        logs = (log_of_source(partition, source) for source in sources)
        ends += [recorded_ends.end_without_segments(log, recorded).offset for log in logs]
    report.log_end = max(ends)
    report.recorded_ends = [one.to_dict() for one in ends_above(recorded, LogEnd(report.log_end, 0, None))]
    report.beyond_end = report.end.beyond_end
    return report.end


def _extend_to(made: PlannedFolder, end: int, epochs: Sequence[EpochEntry] = ()) -> None:
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
    epoch = epoch_within(epochs, end - 1, before)
    header = BatchHeader(base_offset=end - 1, last_offset=end - 1, partition_leader_epoch=epoch)
    data = empty_batch(header, as_stored(before.get("max_timestamp")))
    made.apply_changes([Change(last.name, last.size, None, v2_header(data), inserted=data)])


def _restore_epochs(partition: PartitionSources, made: PlannedFolder, options: SalvageOptions) -> None:
    report, is_one_topic = made.report, len(partition.of_one_topic) == len(partition.sources)  # else not comparable
    while options.restore and is_one_topic and (report.other_files or not report.ok):
        restored = list(restored_changes(partition, made))
        if not restored:
            return
        made.apply_changes(restored)


def _complete_plan(
    partition: PartitionSources, made: PlannedFolder, options: SalvageOptions, least_end: int = 0
) -> None:
    """Decides the transactions whose markers are lost; removes what a broker fails on."""
    report = made.report
    if report.ends_in_damage:
        report.lost.append((report.next_offset, None))
    _restore_epochs(partition, made, options)
    # of a file without a name nothing tells whether it is of one log: no marker is written into two
    if partition.topic is not None and report.files:
        with made.log() as log:
            report.markers = placed_markers(log, decided_markers(log, partition, made), options.undecided)
            changes = marker_changes(log, report.markers, partition.epoch_entries)
        made.apply_changes(changes)
    if least_end:
        _extend_to(made, least_end, partition.epoch_entries)
    if not report.files:
        return
    if options.new_cluster and partition.topic != CLUSTER_METADATA:
        end = report.next_offset or 0
        with made.log() as log:
            changed = list(new_cluster_changes(log))
        if changed:
            made.apply_changes(changed)
            report.problems.append(new_cluster_sentence(changed))
        _extend_to(made, end)
    elif options.as_partition:
        with made.log() as log:
            report.problems += copy_from_sources(log, made, partition)
        _restore_epochs(partition, made, options)  # by the leader-epoch-checkpoint, too
        with made.log() as log:
            plain = list(plain_batch_changes(log))
        made.apply_changes(plain)
