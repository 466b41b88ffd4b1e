"""Changes of a planned log: lost markers, plain batches in open transactions, and what another cluster needs. They are
found when the log is planned, because its markers and batches must be read in order.

Markers are written into the holes where damage destroyed those that ended transactions

    offset 28   data of producer 19
    offset 30   its ABORT                   lost to damage
    offset 36   data of producer 19         would be taken for the same transaction, and published by the next COMMIT

`recover.marker_evidence` says what proves how such a transaction ended. What is not proven is decided by the caller, as
ABORT by default. The side files of the sources have the proofs.

A broker that recovers a log with plain (non-transactional) batches within an open transaction stops at startup. So they
are set aside. The transaction is kept: its end was left open

    offset 40   transactional batch of producer 7       a transaction begins
    offset 45   its marker                              lost to damage
    offset 60   plain batch of producer 7               ProducerAppendInfo throws InvalidTxnStateException

A broker of another cluster gives the producer ids of this one to other producers

    producer id, epoch, base sequence    -1, not transactional    a new producer with an old id would be taken for its
                                                                  old self: its records are lost as duplicates
    partition leader epoch               0                        as that of a new topic
    aborted batches, markers             removed
    batches of open transactions         set aside                nobody can end them there
    messages of magic 0 and 1            unchanged

Only headers change. A CRC is linear: that of the new header with the same records follows from the old one and the two
headers, so no record is read; what is read back has to have it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any

from kafkarec.format.checksum import crc32c
from kafkarec.format.layout import BATCH_MAGIC, CONTROL, TRANSACTIONAL, V2, V2_AT, V2_OVERHEAD, V2Header, v2_header
from kafkarec.read.isolation import aborted_spans, match_markers
from kafkarec.read.walk import CHECKSUMS, MARKERS, walk, walk_request
from kafkarec.recover.holes import Hole, with_content
from kafkarec.recover.marker_evidence import END_UNKNOWN, UNDECIDED, Decision, TransactionEvidence
from kafkarec.recover.steps import as_stored
from kafkarec.sidecars import leader_epochs
from kafkarec.state.producers import producers_at_log_start
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.log_reading import batch_tables
from kafkarec.storage.names_by_content import ends_by_name, put_at_offsets
from kafkarec.support.text_table import counted
from kafkarec.write.builder import RecordBatchBuilder

from .partition_sources import PartitionSources
from .planned_files import Change, PlannedFolder, batch_size

UNDECIDED_AS = ("abort", "commit", "open", "aside")
"""What is done about a transaction whose end is not proven: a marker is written, nothing is, it is set aside."""
_ASIDE, _OPEN = "aside", "open"
_MISPLACED = ("offset_out_of_order", "outside_of_segment")  # the reasons for which a batch is set aside


def decided_markers(log: PartitionFiles, partition: PartitionSources, made: PlannedFolder) -> list[Decision]:
    """How the transactions ended whose markers are lost in the holes of a new log, by the side files of the sources.
    There are none if no offset is missing, and no .txnindex lists ABORT markers, which the log may lack in a gap or
    behind its end."""
    report = made.report
    misplaced = any(one.reason in _MISPLACED for one in report.set_aside)
    may_lack_aborts = report.next_offset is not None and partition.aborted
    if not (report.lost or report.missing or report.never_compacted or misplaced or may_lack_aborts):
        return []
    firsts = [source.segments[0] for source in partition.of_one_topic if source.segments]
    of_sources = TransactionEvidence(
        snapshots=lambda: sorted(
            chain.from_iterable(one.transaction_evidence.snapshots() for one in firsts), key=itemgetter(0)
        ),
        # of `__transaction_state` beside the sources
        prepared=lambda: dict(chain.from_iterable(one.transaction_evidence.prepared().items() for one in firsts)),
    )
    lost = {one.base_offset or 0: one for source in reversed(partition.of_one_topic) for one in source.lost_segments}
    by_base = {base: lost[base] for base in lost if any(first <= base <= last for first, last in report.missing)}
    by_base |= {one.base_offset or 0: one for one in log.segments}
    bases = sorted(by_base)
    segments = [by_base[base].copy(transaction_evidence=of_sources) for base in bases]
    put_at_offsets(segments, partition.aborted)
    found = match_markers(segments, holes=_holes(bases, partition, made))
    report.proofs += [
        f"producer {one.producer_id}'s transaction from offset {one.first_offset} ended there"
        for one in found.decisions
        if one.proof == END_UNKNOWN.proof and (one.lost_from, one.lost_to) in report.missing
    ]
    # a segment before the first one, which only has a legible marker, is not written for that
    decided = [one for one in found.decisions if one.marker_offset is None or one.marker_offset >= bases[0]]
    return [*decided, *found.listed_ahead()]


def _holes(bases: Sequence[int], partition: PartitionSources, made: PlannedFolder) -> list[Hole]:
    """The holes of the new log: what its sources lost to damage, and the gaps that no log cleaner made. bases: of its
    segments, also the lost ones"""
    report = made.report
    segments = {segment.path: segment for source in partition.sources for segment in source.segments}
    # the first and the last offset that are lost (0, -1: none; None: not known), and the file, position, length
    fields = itemgetter("lost_from", "lost_to", "file", "position", "length")
    damage: list[tuple[Any, ...]] = [*map(fields, report.damage)]
    unread = [(file, position, length) for file, position, length, _ in report.tails]
    # a wrong base offset at a segment's end: the batch behind it, which would tell, is in the next segment
    unread += [(one.file, one.position, one.size) for one in report.set_aside if one.reason == "outside_of_segment"]
    ends, missing_before = ends_by_name([*segments.values()]), {one[1] + 1: one for one in report.missing}
    for place in unread:
        if place[0] in segments:  # the offsets that are missing between its segment and the next one
            end = ends.get(segments[place[0]].base_offset or 0, 0)
            damage.append((*missing_before.get(end, (0, -1)), *place))
    # those that no log cleaner made, which leaves gaps between segments, too
    gaps = {*report.missing, *report.inner_gaps}
    proven = gaps if report.never_compacted else {*made.proofs}
    for one in report.set_aside:  # one at a wrong place may be a marker that is missing at its own
        if one.reason in _MISPLACED and one.first_offset is not None and one.last_offset is not None:
            low, high = sorted((one.first_offset, one.last_offset))
            proven |= {gap for gap in gaps if gap[0] <= high and low <= gap[1]}
    lost = {*report.lost, *proven}
    every = {*lost, *report.missing}  # they are disjoint
    known = sorted(((first, last) for first, last in every if first is not None), key=itemgetter(0))
    firsts, lasts = [first for first, _ in known], [math.inf if last is None else last for _, last in known]
    inside: list[list[list[Any]]] = [[] for _ in known]  # file, position, length
    for low, high, *where in damage:
        end = len(known) if high is None else bisect_right(firsts, high)
        for at in range(bisect_left(lasts, as_stored(low)), end):
            inside[at].append(where)
    holes: list[Hole] = []
    for (first, last), damaged in zip(known, inside, strict=True):
        if (first, last) not in lost and not damaged:
            continue
        begin = max(bisect_right(bases, first) - 1, 0)
        end = len(bases) if last is None else bisect_right(bases, last)
        hole = Hole(first, last, tuple(range(begin, end)))
        if len(damaged) == 1 and damaged[0][0] in segments:
            [(file, position, length)] = damaged
            hole = with_content(hole, segments[file], position, length)
        holes.append(hole)
    return holes


# ---- the markers


def _offsets_with_batch(log: PartitionFiles, offsets: Iterable[int]) -> set[int]:
    """Those of the offsets that batches of a new log have."""
    wanted, found = sorted(set(offsets)), set[int]()
    for table in batch_tables(log.segments) if wanted else ():
        for base, last in table.zip_columns("base_offset", "last_offset"):
            at = bisect_left(wanted, last if base is None else base)
            found.update(wanted[at : bisect_right(wanted, last, at)])
    return found


def placed_markers(log: PartitionFiles, decisions: Sequence[Decision], undecided: str) -> list[Decision]:
    """What is done about each transaction, with the offset of the marker that is written. undecided: of UNDECIDED_AS"""
    taken = {one.marker_offset for one in decisions}
    # a .txnindex may list an offset that another batch has, with a wrong base offset
    of_batches = _offsets_with_batch(log, (offset for offset in taken if offset is not None))
    free: dict[tuple[int, int | None], Iterator[int]] = {}  # of each hole
    markers = []
    for one in decisions:
        outcome = undecided if one.outcome == UNDECIDED else one.outcome
        offset, sentence = one.marker_offset, one.sentence
        if outcome in (_OPEN, _ASIDE):
            offset = None
        elif offset in of_batches:
            outcome, offset, sentence = _ASIDE, None, f"{sentence}; a batch has the offset of its marker"
        elif offset is None:
            hole = one.lost_from, one.lost_to
            offsets = free.setdefault(hole, iter(range(one.lost_to or -1, one.lost_from - 1, -1)))
            offset = next((offset for offset in offsets if offset not in taken), None)
            taken.add(offset)
            if offset is None:
                outcome, sentence = _ASIDE, f"{sentence}; no offset is free for a marker"
        epoch = max(one.coordinator_epoch, 0)  # of the marker that is written
        markers.append(one._replace(outcome=outcome, marker_offset=offset, sentence=sentence, coordinator_epoch=epoch))
    return markers


def marker_changes(
    log: PartitionFiles, markers: Sequence[Decision], epochs: Sequence[leader_epochs.EpochEntry]
) -> list[Change]:
    """The batches of the markers, and where they belong; the batches of the transactions that are set aside. Timestamp
    of a marker: of the batch before; its leader epoch: see `epoch_within`. epochs: by leader-epoch-checkpoint"""
    waiting = sorted((one for one in markers if one.marker_offset is not None), key=lambda one: one.marker_offset or 0)
    aside = [one for one in markers if one.outcome == _ASIDE]
    found: list[Change] = []
    before: dict[str, Any] = {}
    for segment, later in zip_longest(log.segments, log.segments[1:]):
        if not waiting and not aside:
            break
        for row in chain((row for table in batch_tables([segment]) for row in table), (None,)):
            until = row["last_offset"] + 1 if row else (later.base_offset or 0) if later else 2**63
            while waiting and (waiting[0].marker_offset or 0) < until:
                marker = waiting.pop(0)
                offset = marker.marker_offset or 0
                position = segment.size if row is None else row["position"]
                time = marker.timestamp if marker.timestamp >= 0 else as_stored(before.get("max_timestamp"))
                with RecordBatchBuilder(
                    base_offset=offset,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    is_transactional=True,
                    is_control=True,
                    partition_leader_epoch=epoch_within(epochs, offset, before, row),
                ) as builder:
                    builder.append_end_txn_marker(time, marker.outcome, marker.coordinator_epoch)
                    data = builder.build()
                    found.append(Change(segment.name, position, None, v2_header(data), inserted=data))
            if row is not None and row["is_transactional"] and not row["is_control"]:
                for one in aside:
                    is_within = one.first_offset <= row["base_offset"] <= one.last_offset
                    if row["producer_id"] == one.producer_id and is_within:
                        at = row["position"]
                        old = v2_header(segment.raw(at, V2_OVERHEAD))
                        found.append(Change(segment.name, at, old, None, "transaction_undecided"))
                        break
            before = row or before
    return found


def epoch_within(
    epochs: Sequence[leader_epochs.EpochEntry],
    offset: int,
    before: Mapping[str, Any],
    behind: Mapping[str, Any] | None = None,
) -> int:
    """The leader epoch of a new batch at an offset: that of leader-epoch-checkpoint if it is between those of the
    batches around it, as a leader may have begun between them; else that of the batch before."""
    low, found = as_stored(before.get("partition_leader_epoch")), leader_epochs.epoch_at(epochs, offset)
    high = None if behind is None else behind["partition_leader_epoch"]
    return low if found is None or found < low or (high is not None and found > high) else found


def restored_changes(partition: PartitionSources, made: PlannedFolder) -> Iterator[Change]:
    """Yields the leader epochs that only the batches beside them in the new log prove, as there was damage between, or
    these were restored, set aside or in files of wrong names; the report gets them."""
    report = made.report
    files = [*(one["file"] for one in (*report.damage, *report.restored)), *(one.file for one in report.set_aside)]
    files += [one.path for one in report.other_files]  # of another name, or with other batches behind it
    bases = {segment.path: segment.base_offset for source in partition.sources for segment in source.segments}
    changed = {bases.get(file) for file in files}
    with made.log() as log:
        following = [*log.segments[1:], *log.segments[-1:]]  # tells of the last batch
        beside = zip(log.segments, following, strict=True)
        near = [one for one, other in beside if not changed.isdisjoint((one.base_offset, other.base_offset))]
        for step in walk(near, walk_request(CHECKSUMS, errors="skip")):
            for one in step.restored:
                if one.fields.keys() == {"partition_leader_epoch"}:
                    old = v2_header(step.segment.raw(one.position, V2_OVERHEAD))
                    new = old._replace(partition_leader_epoch=one.fields["partition_leader_epoch"][1])
                    file, position = made.files[step.segment.name].origin(one.position, batch_size(old))
                    report.restored.append(one._replace(file=file, position=position).as_dict())
                    yield Change(step.segment.name, one.position, old, new)


def plain_batch_changes(log: PartitionFiles) -> Iterator[Change]:
    """Yields the removals of plain batches of a new log whose producer has an open transaction at their offset."""
    first = log.segments[0]
    states = producers_at_log_start(first, first.base_offset or 0).states
    # what salvage writes is read back elsewhere, so no checksum is checked
    for step in walk(log.segments, walk_request(MARKERS, errors="skip", restore=False)):
        for row in states.take(step).plain:
            # Of magic 2: older messages have no producer.
            at = step.cell("position", row)
            old = v2_header(step.segment.raw(at, V2_OVERHEAD))
            yield Change(step.segment.name, at, old, None, "transaction_open")


_WITHOUT_PRODUCER = {"partition_leader_epoch": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


def new_cluster_changes(log: PartitionFiles) -> Iterator[Change]:
    """Yields the changes of a planned log."""
    matched = match_markers(log.segments)
    # producer id -> its transactions that were not committed, in order: first offset, end, reason as of a Change
    left_out: dict[int, list[tuple[int, int, str]]] = {}
    for producer, first, marker in aborted_spans(matched, matched.open):
        left_out.setdefault(producer, []).append((first, marker, ""))
    for producer, txn in matched.open.items():
        left_out.setdefault(producer, []).append((txn.first_offset, 2**63, "transaction_not_ended"))
    for segment in log.segments:
        for table in batch_tables([segment]):
            magics, positions = table.column("magic"), table.column("position")
            for position in (at for at, magic in zip(positions, magics, strict=True) if magic >= BATCH_MAGIC):
                old = v2_header(segment.raw(position, V2_OVERHEAD))
                reason = "" if old.attributes & CONTROL else None  # why it is left out
                if reason is None and old.attributes & TRANSACTIONAL:
                    spans = left_out.get(old.producer_id, [])
                    at = bisect_right(spans, old.base_offset, key=itemgetter(0))
                    _, end, why = spans[at - 1] if at else (0, 0, None)
                    reason = why if old.base_offset < end else None
                if reason is not None:
                    yield Change(segment.name, position, old, None, reason)
                    continue
                attributes = old.attributes & ~TRANSACTIONAL
                new = old._replace(attributes=attributes, **_WITHOUT_PRODUCER)
                if new != old:
                    size = batch_size(old) - V2_OVERHEAD
                    new = new._replace(crc=old.crc ^ _crc_before_zeros(old, size) ^ _crc_before_zeros(new, size))
                    yield Change(segment.name, position, old, new)


def new_cluster_sentence(changed: list[Change]) -> str:
    """What the report says of them."""
    left_out = [one.old for one in changed if one.old and not one.new and not one.reason]
    markers = sum(bool(one.attributes & CONTROL) for one in left_out)
    renewed = counted(sum(one.new is not None for one in changed), "batch")
    aborted = counted(len(left_out) - markers, "batch")
    return (
        f"for another cluster: {renewed} without the producer id, or with another leader epoch; "
        f"{counted(markers, 'marker')} and {aborted} of aborted transactions are left out"
    )


def _crc_before_zeros(header: V2Header, size: int) -> int:
    """The CRC-32C of the checked part of a header and `size` zeros."""
    return crc32c(bytes(size), crc32c(V2.pack(*header)[V2_AT.attributes :]))
