"""KRaft snapshots of the metadata log: copied to the new folder if complete, else their good batches are set aside

00000000000000000146-0000000001.checkpoint
    batch of control records     SnapshotHeader, KRaftVersion, Voters      offsets from 0 on
    batches of metadata records
    batch of control records     SnapshotFooter                            the last batch

A finished snapshot is never appended to, and a controller refuses one that is incomplete or has no footer (KIP-630,
RecordsSnapshotReader). The offsets of every snapshot begin at 0, so snapshots are never merged with the segments or
with each other.
"""

from __future__ import annotations

from contextlib import closing

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.read import reader
from kafkarec.storage import good_batches
from kafkarec.storage.good_batches import DamageCollector, GoodBatch
from kafkarec.storage.segment_file import SegmentFile

from .copying import Unreadable
from .partition_sources import SalvagePartition
from .plan_builder import report_unreadable
from .planned_files import FilePlan, PlannedFolder
from .salvaged_partition import OutputFile, SalvagedPartition

INCOMPLETE = "snapshot_incomplete"
_CUT = "length_beyond_end"  # the reason of its damage


def plan_snapshots(folder: PlannedFolder, partition: SalvagePartition, cap: int) -> None:
    """Plans each snapshot of the sources, by its name. cap: max_decompressed_bytes."""
    copies: dict[str, list[tuple[int, SegmentFile]]] = {}
    for number, source in enumerate(partition.sources):
        for segment in source.snapshots:
            copies.setdefault(segment.name, []).append((number, segment))
    for of_one in copies.values():
        _plan(folder, of_one, cap)


def _plan(folder: PlannedFolder, copies: list[tuple[int, SegmentFile]], cap: int) -> None:
    """Plans a copy of the first complete copy of a snapshot, or sets the good batches of all copies aside."""
    report, incomplete = folder.report, list[GoodBatch]()
    for number, segment in copies:
        with closing(segment):
            collector = DamageCollector(cap, unread=report.unread)
            damage, known = collector.damage, len(report.unread)
            good = list(good_batches.read_file(segment, number, 0, collector))
            for path, position, length, kind in collector.tails:
                what = "a batch is cut off" if kind == "cut" else "zeros"
                text = (
                    f"{path}: {what} at byte {position}, {length} bytes before its end; a snapshot is never appended to"
                )
                damage.append(Damage(path, position, length, None, None, segment.size, _CUT, text))
            report.sources.append(segment.path)
            if not damage and _has_footer(good):
                try:
                    source, position = folder.kept(segment, 0, segment.size)
                except Unreadable:
                    report_unreadable(report, segment, 0, segment.size)
                else:
                    folder.add(FilePlan(segment.name)).copy(source, position, segment.size)
                    counts = len(good), sum(row.records or 0 for row in good)
                    copied = OutputFile(segment.name, segment.size, "", *counts, good[0].base, good[-1].last)
                    report.snapshots.append(copied)
                    return
            elif len(report.unread) == known and not damage and good:
                end = good[-1].position + good[-1].size
                report.problems.append(f"{segment.path} is incomplete: it ends at byte {end} without a SnapshotFooter")
            elif len(report.unread) == known and not damage:
                text = f"{segment.path}: no batch at all; a snapshot has at least a header and a footer"
                damage.append(Damage(segment.path, 0, segment.size, None, None, segment.size, _CUT, text))
            report.damage += [one.as_dict() for one in damage]
            incomplete += good
    begin = len(report.set_aside)
    for row in incomplete:
        folder.keep_aside(row.aside(INCOMPLETE), f"-{row.segment.name}")
    folder.join_aside(begin)
    for _, segment in copies:
        segment.close()


def _has_footer(good: list[GoodBatch]) -> bool:
    """Whether the last record of the last batch is a SnapshotFooter."""
    try:
        last = good[-1]
        records = reader.decode(last.segment.raw(last.position, last.size), columns=("key", "value"), control=True)
        keys, values = records.column("key"), records.column("value")
        return isinstance(control.parse(keys[-1], values[-1]), control.SnapshotFooterRecord)
    except (IndexError, KafkaRecordError, OSError):
        return False


def losses(report: SalvagedPartition) -> list[str]:
    """What the report says of a metadata log that lacks records above its last complete snapshot. A node that loads it
    replays each record on those before, and stops at the first that does not fit (MetadataLoader, QuorumController)."""
    covered = max(
        (file.base_offset for file in report.snapshots), default=0
    )  # the name has the offset after the last one
    gone = [(first, last) for first, last in (*report.lost, *report.missing) if last is None or last >= covered]
    if not gone:
        return []
    first = min(covered if first is None else max(first, covered) for first, _ in gone)
    return [
        f"records of the metadata log from offset {first} on are lost: a broker or controller that starts with this "
        "folder stops with 'Error loading metadata log record', or runs with wrong metadata. Another controller has "
        "them: name its folder as a second source, or give the node an empty folder, and it fetches all"
    ]
