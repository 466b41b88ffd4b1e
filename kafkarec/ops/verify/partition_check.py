"""Checks of a log as a whole: between its files, and of its side files.

A broker names a new segment after the log end offset, so without cleaning each segment ends at the next one's base
offset. Retention deletes whole segments from the start of the log. Only the cleaner leaves gaps.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kafkarec.sources.folders import LocalFolder
from kafkarec.storage import names, recorded_ends
from kafkarec.storage.recorded_ends import DELETED, LONGER, LOST, EndVerdict, LogEnd, Witness
from kafkarec.support.text_table import counted, noun

from . import epoch_checks, offset_gaps, partition_files
from .finding_kinds import COMPARED
from .findings import FindingCollector, FindingPlace
from .offset_checks import Gap
from .parallel import LogResult, check_segments
from .report_data import PartitionReport, is_no_damage
from .salvaged_gaps import SalvagedGaps
from .segment_check import FileResult

ReadWitnesses = Callable[[], Sequence[Witness]]

_SPARK_FOLDER = "_temporary"
# What a witness above the end means -> (kind of the finding, the end of its sentence)
_MEANINGS = {
    LOST: ("end_lost", "they are lost, unless the broker died while it truncated the log"),
    LONGER: ("end_was_longer", "they are lost, or the broker truncated the log"),
    DELETED: ("start_above_end", "all records count as deleted, and a broker that starts on the folder deletes them"),
}


def end_verdict(
    log: Any, result: LogResult, witnesses: Sequence[Witness], read_again: ReadWitnesses, limit: int
) -> EndVerdict:
    """The log's end, and the witnesses above it. If there are any, the bytes behind the last batch are no tail: the
    last segment is checked again as one that other batches follow. A last segment that could not be read to its end
    proves nothing about it, and so there are none.

    read_again   reads the witnesses as they are now: one that was above the end and is not any more was that of a log
                 that a broker truncated since
    limit        max decompressed bytes of a payload
    """
    segments = log.all_segments
    if not segments:
        end = recorded_ends.end_without_segments(log, witnesses)
        return EndVerdict(end, _still_above(witnesses, end, read_again))
    last = len(segments) - 1
    end = _log_end(result.files[: last + 1])
    if _is_unread(result.files[last]):
        return EndVerdict(end)
    higher = _still_above(witnesses, end, read_again)
    if higher and result.files[last].remaining:
        [result.files[last]], _ = check_segments([segments[last].copy(later_segment=True)], limit)
    return EndVerdict(end, higher)


def _still_above(witnesses: Sequence[Witness], end: LogEnd, read_again: ReadWitnesses) -> tuple[Witness, ...]:
    higher = recorded_ends.above(witnesses, end)
    still = {one.file for one in recorded_ends.above(read_again(), end)} if higher else set()
    return tuple(one for one in higher if one.file in still)


def _is_unread(file: FileResult) -> bool:
    """Whether a part of the file was not read, because of a failure, a limit or a missing library: the log may go on
    there."""
    return file.is_unread or any(is_no_damage(one.reason) for one in file.damage)


def _log_end(files: Sequence[FileResult]) -> LogEnd:
    nexts = [one.offsets.next for one in files if one.offsets.next is not None]
    last = max(nexts) - 1 if nexts else None
    return LogEnd(max(*nexts, *(one.begin for one in files), 0), files[-1].good_end, last)


def _report_end(log: Any, verdict: EndVerdict, findings: FindingCollector) -> None:
    """Adds a finding for each meaning, by its highest witness."""
    for meaning, (kind, consequence) in _MEANINGS.items():
        of_meaning = [one for one in verdict.higher if one.meaning == meaning]
        if not of_meaning:
            continue
        if meaning == LONGER and _may_be_unfinished(log, of_meaning):
            consequence += ", or a Spark job has not finished its commit: it writes a segment after its indexes"
        first, end = of_meaning[0], verdict.end
        ends = "has no batches" if end.last is None else f"ends at offset {end.last}"
        count = first.end - end.offset
        more = "at least " if end.last is None else ""
        had = f"had {more}{count} {'' if more else 'more '}{noun(count, 'offset')}, up to {first.end - 1}"
        what = f"its start offset is {first.end}" if meaning == DELETED else had
        also = [one.file for one in of_meaning[1:]]
        others = f" (above the end, too: {', '.join(also)})" if also else ""
        detail = f"the log {ends}, but {what}: {consequence}{others}"
        findings.add(kind, detail, FindingPlace(offset=end.offset), file=first.file)


def _may_be_unfinished(log: Any, longer: Sequence[Witness]) -> bool:
    """Whether an index without its segment may be of a Spark job that is writing to the folder, or was killed: in a
    bucket, or where the job has its temporary folder."""
    orphans = recorded_ends.indexes_without_segment(log)
    claimed = {parsed.base_offset for one in longer if (parsed := names.segment(one.file))}
    if log.folder is None or claimed.isdisjoint(orphans):
        return False
    return not isinstance(log.folder, LocalFolder) or os.path.isdir(
        os.path.join(os.path.dirname(os.path.abspath(log.folder.path)), _SPARK_FOLDER)
    )


def partition_report(
    log: Any, result: LogResult, cleaned: bool | None, end: EndVerdict, log_start: int = 0
) -> PartitionReport:
    """The report of one log.

    result      the results for all segments, in order
    cleaned     whether cleaner-offset-checkpoint has the partition; None: not known
    end         the log's end, and the witnesses above it
    log_start   the offset below which records count as deleted: no offset is missing there
    """
    findings, files = FindingCollector(), result.files
    in_order = _in_order([one for one in files if one.is_log])
    _set_lost_at_ends(in_order)
    _report_end(log, end, findings)
    salvaged = SalvagedGaps.of(log)
    gaps = [gap for gap in _gaps_between(in_order, findings) if gap.last >= log_start]
    between = salvaged.others(gaps, findings)
    for one in files:
        salvaged.take(one.offsets, one.findings)
    compacted = _is_compacted(log, files, between, cleaned)
    proofs = _proofs(log, in_order, between)
    if compacted:
        _report_compacted(files, [gap for gap in between if gap not in proofs], findings)
        _report_gaps(list(proofs), len(proofs), sum(gap.length for gap in proofs), compacted, findings, proofs)
    else:
        for one in files:
            _report_gaps(one.offsets.gaps, one.offsets.gap_count, one.offsets.gap_offsets, compacted, one.findings)
        _report_gaps(between, len(between), sum(gap.length for gap in between), compacted, findings, proofs)
    _report_indexes_before(log, findings)
    epoch_checks.check_between_files([one.epochs for one in in_order], findings)
    explained: list[Gap] = []
    if result.sequences is not None:
        explained = _explained_gaps(files, between, partition_files.aborted(log), compacted)
        findings.add("gaps_explained", offset_gaps.gap_summary(explained))
        findings.add_all(result.sequences)
    # Side files cannot match a log without its batches, with exchanged names, or with headers that are wrong: they are
    # compared with the stored ones. Salvage writes new ones.
    cannot_match = (
        end.higher
        or proofs
        or any(one.damage or one.is_unread or one.restored for one in files)
        or any(kind in one.findings for one in files for kind in ("segment_misnamed", "base_offset_wrong"))
    )
    findings.add_all(result.side_file_findings, COMPARED if cannot_match else ())
    all_read = not any(one.is_unread for one in files)
    if all_read and any(one.transactional for one in files) and all(map(partition_files.is_local, log.segments)):
        *before, last = log.segments
        last = last.copy(later_segment=True) if end.higher else last  # as it was checked by end_verdict
        partition_files.check_transactions([*before, last], findings)
    lost = list(proofs) if compacted else between
    holes = [one.offsets for one in files if one.is_log] if compacted is False else []
    return PartitionReport(
        path=str(log.path),
        topic=log.topic,
        partition=log.partition,
        files=tuple(one.report() for one in files),
        own_findings=tuple(findings),
        gaps=tuple(explained),
        missing=tuple(
            sorted((gap.first, gap.last) for gaps_of in (lost, *(one.gaps for one in holes)) for gap in gaps_of)
        ),
        missing_offsets=sum(gap.length for gap in lost) + sum(one.gap_offsets for one in holes),
        end=end,
    )


def _explained_gaps(
    files: Sequence[FileResult], between: Sequence[Gap], aborted: Sequence[tuple[int, int]], compacted: bool | None
) -> list[Gap]:
    """All gaps of the log, including those of damage, by offset."""
    gaps = [*between, *(gap for one in files for gap in one.offsets.gaps)]
    for one in files:
        for lost in one.damage:
            if lost.lost_from is not None and lost.lost_to is not None and lost.lost_to >= lost.lost_from:
                gaps.append(Gap(lost.file, lost.position, lost.lost_from, lost.lost_to, next_to_damage=True))
    return sorted(offset_gaps.explain(gaps, aborted, compacted), key=lambda gap: gap.first)


def _in_order(files: Sequence[FileResult]) -> list[FileResult]:
    """The segments in the order of their batches. Names that were exchanged are reported, and corrected here."""
    ends = {one.begin: after.begin for one, after in pairwise(files)}
    wrong = [one for one in files if one.offsets.first is not None and not _fits(one, one.begin, ends)]
    places = [next((other.begin for other in wrong if _fits(one, other.begin, ends)), None) for one in wrong]
    if None in places or len(set(places)) < len(places):
        return list(files)
    for one, place in zip(wrong, places, strict=True):
        one.base_offset = place
        one.findings.discard("offset_below_file_name")
        one.findings.add("segment_misnamed", f"by its batches it is the segment of offset {place}")
    return sorted(files, key=lambda one: one.begin)


def _fits(one: FileResult, begin: int, ends: Mapping[int, int]) -> bool:
    """Whether the first or the last batch of a segment is in the range from `begin` to the next base offset."""
    end = ends.get(begin)
    found = (one.offsets.first or 0, (one.offsets.next or 1) - 1)
    return any(begin <= each and (end is None or each < end) for each in found)


def _set_lost_at_ends(files: Sequence[FileResult]) -> None:
    """Sets the offsets that damage at a file's start or end may have lost, from the names of the segments."""
    for before, after in pairwise(files):
        before.damage = [one._replace(lost_to=after.begin - 1) if one.lost_to is None else one for one in before.damage]
    for file in files:
        file.damage = [one._replace(lost_from=file.begin) if one.lost_from is None else one for one in file.damage]


def _gaps_between(files: Sequence[FileResult], findings: FindingCollector) -> list[Gap]:
    """The gaps between segments. Adds findings for segments that overlap."""
    gaps: list[Gap] = []
    for before, after in pairwise(files):
        if before.is_unread or after.is_unread:
            continue
        begin, end = after.begin, before.offsets.next
        if end is None and not before.damage:
            end = before.begin  # empty, or all zeros
        if begin == before.begin:
            detail = f"{before.name} and {after.name} have the same base offset"
            findings.add("duplicate_segment", detail, FindingPlace(offset=begin), file=after.path)
        elif end is not None and end > begin:
            detail = f"{before.name} ends at offset {end - 1}, but {after.name} begins at {begin}"
            findings.add("segment_overlap", detail, FindingPlace(offset=begin), file=before.path)
        elif end is not None and end < begin and not _ends_in_damage(before):
            gaps.append(Gap(before.path, None, end, begin - 1))
    for one in files:
        first, base = one.offsets.first, one.begin
        begins_in_damage = bool(one.damage) and one.damage[0].position == 0
        if first is not None and first > base and not begins_in_damage and not one.offsets.first_is_last:
            gaps.append(Gap(one.path, 0, base, first - 1))
    return gaps


def _report_indexes_before(log: Any, findings: FindingCollector) -> None:
    """Adds a note for the indexes without their segment before the log's first one. They prove no loss: a broker
    deletes the segment first."""
    start = log.start_offset
    before = {base: name for base, name in recorded_ends.indexes_without_segment(log).items() if base < (start or 0)}
    if before and start is not None:
        first = before[min(before)]
        detail = f"{first} is there, but not its segment; the log begins at offset {start}"
        findings.add("index_without_segment", detail, FindingPlace(offset=min(before)), count=len(before))


def _proofs(log: Any, files: Sequence[FileResult], between: Sequence[Gap]) -> dict[Gap, str]:
    """The gaps between segments that are a loss, each with the proof."""
    by_path = {one.path: one for one in files}
    gaps = {}
    for gap in between:
        before = by_path[str(gap.file)]
        if gap.position is None and not _was_replaced(before):
            gaps[recorded_ends.SegmentGap(gap.first, gap.last, before.begin, before.good_end)] = gap
    return {gaps[one]: why for one, why in recorded_ends.proofs(log, list(gaps)).items()}


def _was_replaced(one: FileResult) -> bool:
    """Whether the log cleaner has put another file there since it was read: then the indexes are not its own."""
    try:
        return "://" not in one.path and os.stat(one.path).st_size != one.size
    except OSError:
        return True


def _ends_in_damage(one: FileResult) -> bool:
    if not one.damage:
        return False
    last = one.damage[-1]
    return last.position + last.length + one.remaining >= one.size


def _is_compacted(log: Any, files: Sequence[FileResult], between: Sequence[Gap], cleaned: bool | None) -> bool | None:
    """Whether the log was compacted; None: not known. cleaned: as it was before the log was read."""
    if any(one.offsets.signs_of_cleaning for one in files) or log.topic in names.ALWAYS_COMPACTED:
        return True
    if cleaned is False and (between or any(one.offsets.gap_count for one in files)):
        return recorded_ends.cleaned_meanwhile(log)
    return cleaned


def _report_compacted(files: Sequence[FileResult], between: Sequence[Gap], findings: FindingCollector) -> None:
    """Adds one finding for all gaps, as they are normal in a compacted log."""
    count = len(between) + sum(one.offsets.gap_count for one in files)
    offsets = sum(gap.length for gap in between) + sum(one.offsets.gap_offsets for one in files)
    if count:
        detail = f"{counted(count, 'gap')} with {offsets} offsets in total, as the cleaner leaves them"
        findings.add("offsets_compacted", detail)


def _report_gaps(
    gaps: Sequence[Gap],
    count: int,
    offsets: int,
    compacted: bool | None,
    findings: FindingCollector,
    proofs: Mapping[Gap, str] | None = None,
) -> None:
    """Adds a finding for the gaps: an error in a log that was never cleaned, else an anomaly.

    proofs   of gaps between segments: those that an index proves to be a loss; None: gaps within a segment
    """
    if not gaps:
        return
    first = next(iter(proofs or ()), gaps[0])
    place = FindingPlace(first.position, first.first)
    span = f"offset {first.first} is" if first.length == 1 else f"offsets {first.first} to {first.last} are"
    more = f"; {count} gaps with {offsets} offsets in total" if count > 1 else ""
    where = "between two segments" if first.position is None else "before the batch"
    severity = "error" if compacted is False or proofs else "anomaly"
    detail = f"{span} missing {where}{more}"
    if proofs:
        detail += f"; {proofs[first]}"
    elif compacted is None:
        detail += " (a compacted topic may have such gaps; whether this one is compacted is not known)"
    kind = "offset_gap" if proofs is None else "segment_gap"
    findings.add(kind, detail, place, severity=severity, count=count, file=first.file)
