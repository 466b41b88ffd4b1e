"""Checks of a log as a whole: between its files, and of its side files.

A broker rolls a segment at the log end offset and names the new one by it, so without cleaning each segment ends at the
next one's base offset. Retention deletes whole segments from the start. Only the cleaner leaves gaps.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kafkarec.errors import KafkaRecordError

from . import epoch_checks, offset_gaps, partition_files
from .finding_kinds import COMPARED
from .findings import FindingNotes, FindingPlace, counted
from .offset_checks import Gap
from .parallel import LogFacts
from .report_data import PartitionReport
from .segment_check import FileFacts

_ALWAYS_COMPACTED = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def partition_report(log: Any, facts: LogFacts, cleaned: bool | None, known_end: int = 0) -> PartitionReport:
    """The report of one log.

    facts       results for all segments, in order
    cleaned     whether cleaner-offset-checkpoint has the partition; None: not known
    known_end   highest end offset of the log in the data folder's checkpoints
    """
    notes, files = FindingNotes(), facts.files
    in_order = [one for one in files if one.is_log]
    _set_lost_at_ends(in_order)
    between = _between(in_order, notes)
    compacted = _is_compacted(log, files, cleaned)
    if compacted:
        _report_compacted(files, between, notes)
    else:
        for one in files:
            _report_gaps(one.offsets.gaps, one.offsets.gap_count, one.offsets.gap_offsets, compacted, one.notes)
        _report_gaps(between, len(between), sum(gap.length for gap in between), compacted, notes, "segment_gap")
    epoch_checks.across([one.epochs for one in in_order], notes)
    explained: list[Gap] = []
    if facts.follower is not None:
        explained = _explained(files, between, partition_files.aborted(log), compacted)
        notes.add("gaps_explained", offset_gaps.in_words(explained))
        notes.take(facts.follower.notes)
    # If batches are lost, side files cannot match; salvage writes new ones.
    notes.take(facts.beside, COMPARED if any(one.damage for one in files) else ())
    if any(one.transactional for one in files) and all(map(partition_files.is_local, log.segments)):
        partition_files.check_transactions(log, notes)
    lost = [] if compacted else between
    holes = [one.offsets for one in files if one.is_log] if compacted is False else []
    return PartitionReport(
        path=str(log.path),
        topic=log.topic,
        partition=log.partition,
        files=tuple(one.report() for one in files),
        own_findings=tuple(notes),
        gaps=tuple(explained),
        missing=tuple(
            sorted((gap.first, gap.last) for gaps_of in (lost, *(one.gaps for one in holes)) for gap in gaps_of)
        ),
        missing_offsets=sum(gap.length for gap in lost) + sum(one.gap_offsets for one in holes),
        beyond_end=_beyond(in_order, known_end),
    )


def _beyond(files: Sequence[FileFacts], known_end: int) -> int:
    """The number of offsets below `known_end` and above all batches and damage."""
    ends = [one.offsets.next or one.begin for one in files]
    ends += [damage.lost_to + 1 for one in files for damage in one.damage if damage.lost_to is not None]
    return max(known_end - max(ends), 0) if ends else 0


def _explained(
    files: Sequence[FileFacts], between: Sequence[Gap], aborted: Sequence[tuple[int, int]], compacted: bool | None
) -> list[Gap]:
    """All gaps of the log, including those of damage, by offset."""
    found = [*between, *(gap for one in files for gap in one.offsets.gaps)]
    for one in files:
        for lost in one.damage:
            if lost.lost_from is not None and lost.lost_to is not None and lost.lost_to >= lost.lost_from:
                found.append(Gap(lost.file, lost.position, lost.lost_from, lost.lost_to, beside_damage=True))
    return sorted(offset_gaps.explain(found, aborted, compacted), key=lambda gap: gap.first)


def _set_lost_at_ends(files: Sequence[FileFacts]) -> None:
    """Sets the offsets lost to damage at a file's start or end, from the names of the segments."""
    for before, after in pairwise(files):
        before.damage = [one._replace(lost_to=after.begin - 1) if one.lost_to is None else one for one in before.damage]
    for file in files:
        file.damage = [one._replace(lost_from=file.begin) if one.lost_from is None else one for one in file.damage]


def _between(files: Sequence[FileFacts], notes: FindingNotes) -> list[Gap]:
    """Adds findings for overlaps of segments; returns the gaps between them."""
    found: list[Gap] = []
    for before, after in pairwise(files):
        begin, end = after.begin, before.offsets.next
        if end is None and not before.damage:
            end = before.begin  # empty, or all zeros
        if begin == before.begin:
            detail = f"{before.name} and {after.name} hold the same base offset"
            notes.add("duplicate_segment", detail, FindingPlace(offset=begin), file=after.path)
        elif end is not None and end > begin:
            detail = f"{before.name} goes on to offset {end - 1}, and {after.name} begins at {begin}"
            notes.add("segment_overlap", detail, FindingPlace(offset=begin), file=before.path)
        elif end is not None and end < begin and not _ends_in_damage(before):
            found.append(Gap(before.path, None, end, begin - 1))
    for one in files:
        first, base = one.offsets.first, one.begin
        begins_in_damage = bool(one.damage) and one.damage[0].position == 0
        if first is not None and first > base and not begins_in_damage and not one.offsets.first_is_last:
            found.append(Gap(one.path, 0, base, first - 1))
    return found


def _ends_in_damage(one: FileFacts) -> bool:
    if not one.damage:
        return False
    last = one.damage[-1]
    return last.position + last.length + one.remaining >= one.size


def _is_compacted(log: Any, files: Sequence[FileFacts], cleaned: bool | None) -> bool | None:
    """Whether the log was compacted; None: not known."""
    if any(one.offsets.signs_of_cleaning for one in files) or log.topic in _ALWAYS_COMPACTED:
        return True
    return cleaned


def _report_compacted(files: Sequence[FileFacts], between: Sequence[Gap], notes: FindingNotes) -> None:
    """Adds one finding for all gaps, as they are normal in a compacted log."""
    count = len(between) + sum(one.offsets.gap_count for one in files)
    offsets = sum(gap.length for gap in between) + sum(one.offsets.gap_offsets for one in files)
    if count:
        detail = f"{counted(count, 'gap')} of {offsets} offsets in all, as the cleaner leaves them"
        notes.add("offsets_compacted", detail)


def _report_gaps(
    found: Sequence[Gap],
    count: int,
    offsets: int,
    compacted: bool | None,
    notes: FindingNotes,
    kind: str = "offset_gap",
) -> None:
    """Adds a finding for each gap: an error in a log that was never cleaned."""
    if not found:
        return
    first = found[0]
    place = FindingPlace(first.position, first.first)
    span = f"offset {first.first} is" if first.length == 1 else f"offsets {first.first} to {first.last} are"
    more = f"; {count} gaps, {offsets} offsets in all" if count > 1 else ""
    where = "between two segments" if first.position is None else "in front of the batch"
    severity = "error" if compacted is False or kind == "segment_gap" else "anomaly"
    detail = f"{span} missing {where}{more}"
    if compacted is None:
        detail += " (a compacted topic may have such gaps; nothing here says that this one is)"
    notes.add(kind, detail, place, severity=severity, count=count, file=first.file)


def cleaner_offsets(folder: Any) -> dict[tuple[str, int], int] | None:
    """{(topic, partition): offset} of cleaner-offset-checkpoint in a data folder; None if missing or unreadable."""
    from kafkarec.sidecars import offset_checkpoints

    try:
        if isinstance(folder, str | os.PathLike):
            with open(os.path.join(folder, "cleaner-offset-checkpoint"), "rb") as file:
                data: bytes | None = file.read(1 << 24)
        else:
            data = folder.folder_file("cleaner-offset-checkpoint")
        return None if data is None else {(*name,): at for name, at in offset_checkpoints.read(data).items()}
    except (OSError, KafkaRecordError):
        return None
