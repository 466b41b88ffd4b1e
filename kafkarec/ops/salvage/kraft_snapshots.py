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

from collections.abc import Iterator
from contextlib import closing

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format import control
from kafkarec.read import reader
from kafkarec.sources.read_failures import ReadFailure
from kafkarec.storage import good_batches
from kafkarec.storage.good_batches import DamageCollector, GoodBatch
from kafkarec.storage.segment_file import SegmentFile

from .copying import Unreadable
from .partition_sources import SalvagePartition
from .plan_builder import report_unreadable
from .planned_files import FilePlan, PlannedFolder
from .salvaged_partition import OutputFile, SalvagedPartition, SetAsideRange

INCOMPLETE = "snapshot_incomplete"
_CUT = "length_beyond_end"  # the reason of its damage


def snapshots_by_name(partition: SalvagePartition) -> dict[str, list[tuple[int, SegmentFile]]]:
    """{file name: [(index of the source, file), ...]}: the copies of each snapshot."""
    copies: dict[str, list[tuple[int, SegmentFile]]] = {}
    for number, source in enumerate(partition.sources):
        for segment in source.snapshots:
            copies.setdefault(segment.name, []).append((number, segment))
    return copies


def plan_snapshot(
    folder: PlannedFolder, copies: list[tuple[int, SegmentFile]], cap: int, report: SalvagedPartition
) -> None:
    """Plans a copy of the first complete copy of a snapshot, or sets the good batches of all copies aside. cap:
    max_decompressed_bytes."""
    incomplete: list[tuple[int, SegmentFile, list[GoodBatch]]] = []
    for number, segment in copies:
        with closing(segment):
            damage: list[Damage] = []
            known = len(report.unread)
            good, end = _read(segment, number, cap, damage, report.unread)
            report.sources.append(segment.path)
            if not damage and _has_footer(good):
                if _copy(folder, segment, good, report):
                    return
                report_unreadable(report, segment, 0, segment.size)
            elif len(report.unread) > known:
                pass
            elif not damage and good:
                report.problems.append(f"{segment.path} is incomplete: it ends at byte {end} without a SnapshotFooter")
            elif not damage:
                text = f"{segment.path}: no batch at all; a snapshot has at least a header and a footer"
                damage.append(Damage(segment.path, 0, segment.size, None, None, segment.size, _CUT, text))
            report.damage += [one.as_dict() for one in damage]
            incomplete.append((number, segment, good))
    for number, segment, good in incomplete:
        with closing(segment):
            _set_aside(folder, segment, number, good, report)


def _read(
    segment: SegmentFile, number: int, cap: int, damage: list[Damage], unread: list[ReadFailure]
) -> tuple[list[GoodBatch], int]:
    """The (good batches, end position of the last one). Bytes after it are added to `damage`."""
    collector = DamageCollector(damage, lambda aside: None, [], {}, unread, None)
    good = list(good_batches.read_file(segment, number, 0, cap, collector))
    for path, position, length, kind in collector.tails:
        what = "a batch is cut off" if kind == "cut" else "zeros"
        text = f"{path}: {what} at byte {position}, {length} bytes before its end; a snapshot is never appended to"
        damage.append(Damage(path, position, length, None, None, segment.size, _CUT, text))
    return good, good[-1].position + good[-1].size if good else 0


def _has_footer(good: list[GoodBatch]) -> bool:
    if not good:
        return False
    last = good[-1]
    try:
        records = reader.decode(last.segment.raw(last.position, last.size), columns=("key", "value"), control=True)
        keys = records.column("key"), records.column("value")
        return any(
            isinstance(control.parse(key, value), control.SnapshotFooterRecord)
            for key, value in list(zip(*keys, strict=True))[-1:]
        )
    except (KafkaRecordError, OSError):
        return False


def _copy(folder: PlannedFolder, segment: SegmentFile, good: list[GoodBatch], report: SalvagedPartition) -> bool:
    try:
        source, position = folder.kept(segment, 0, segment.size)
    except Unreadable:
        return False
    folder.add(FilePlan(segment.name)).copy(source, position, segment.size)
    records = sum(row.records or 0 for row in good)
    report.snapshots.append(OutputFile(segment.name, segment.size, "", len(good), records, good[0].base, good[-1].last))
    return True


def _set_aside(
    folder: PlannedFolder, segment: SegmentFile, number: int, good: list[GoodBatch], report: SalvagedPartition
) -> None:
    """Sets the good batches of an incomplete snapshot aside."""
    for run in _runs(good):
        position, size = run[0].position, sum(row.size for row in run)
        try:
            source, at = folder.kept(segment, position, size)
        except Unreadable:
            continue
        saved_as, file = folder.aside(f"{INCOMPLETE}-{number}-{segment.name}")
        file.copy(source, at, size)
        report.set_aside.append(
            SetAsideRange(segment.path, position, size, run[0].base, run[-1].last, INCOMPLETE, saved_as, len(run))
        )


def _runs(good: list[GoodBatch]) -> Iterator[list[GoodBatch]]:
    """Yields runs of adjacent batches."""
    run: list[GoodBatch] = []
    for row in good:
        if run and run[-1].position + run[-1].size != row.position:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


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
