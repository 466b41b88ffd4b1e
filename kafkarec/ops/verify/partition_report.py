"""The report of a log from the checks of its files: what is between them, and what it means that something is missing.

A broker names a new segment after the log end offset, so without cleaning each segment ends at the next one's base
offset. Retention deletes whole segments from the start of the log. Only the cleaner leaves gaps. Those that the report
of `kafkarec salvage` beside a log lists are no new finding: what was lost is known.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kafkarec.damage import is_unchecked
from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.sources.folders import LocalFolder
from kafkarec.storage import names, recorded_ends
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.names_by_content import base_offsets_by_content
from kafkarec.storage.recorded_ends import DELETED, LONGER, LOST, EndVerdict, LogEnd, RecordedEnd, SegmentGap
from kafkarec.support.text_table import counted, noun

from .batch_checks import CountedGaps, Gap, check_epochs_between
from .finding_kinds import COMPARISON, NOTE, kinds_of_subject
from .findings import Findings
from .log_checks import LogFindings, check_left_out
from .log_order import LogOrder
from .report_data import PartitionReport
from .segment_check import SegmentCheck


def partition_report(
    log: PartitionFiles,
    files: list[SegmentCheck],
    along: LogFindings,
    data_folder: recorded_ends.DataFolderState,
    ends: Sequence[RecordedEnd],
    limit: int,
) -> PartitionReport:
    """The report of one log.

    files, along        the checks of its files, and what was found along it
    data_folder, ends   the checkpoints of its data folder, and how far the log once reached, both read before the log
    limit               max decompressed bytes of a payload
    """
    findings = Findings()
    check_left_out(log, findings)
    segments = files[: len(log.segments_for_reports)]
    _correct_names(log, segments)
    order = _order_by_batches(log, segments, limit)
    end = _end_verdict(log, segments, ends, order)
    if end.higher and segments and segments[-1].remaining and "segment_misnamed" not in segments[-1].findings:
        again = log.segments[-1].copy(later_segment=True)  # the bytes after the last batch are no tail then
        segments[-1] = files[len(segments) - 1] = SegmentCheck(again, limit, None, lambda done: None, 1)
    in_order = _segments_in_order(files)
    for before, after in pairwise(in_order):  # what damage at a file's end or start may have lost, by the names
        lost_to = after.base_offset_or_zero - 1
        before.damage = [one._replace(lost_to=lost_to) if one.lost_to is None else one for one in before.damage]
    for file in in_order:
        start = file.base_offset_or_zero
        file.damage = [one._replace(lost_from=start) if one.lost_from is None else one for one in file.damage]
    _report_higher_ends(log, end, findings)
    between = _gaps_between(in_order, findings)
    if order is not None:
        order.set_offsets(segments)
        between = _gaps_between(in_order, Findings())
    gaps, compacted, before_gaps = _check_gaps(log, files, between, data_folder, findings)
    orphans = names.indexes_without_segment(recorded_ends.files_beside(log))
    earlier = {base: name for base, name in orphans.items() if base < (log.start_offset or 0)}
    if earlier:  # below the first segment they prove no loss: a broker deletes the segment first
        detail = f"{earlier[min(earlier)]} is there, but not its segment; the log begins at offset {log.start_offset}"
        findings.add("index_without_segment", detail, offset=min(earlier), count=len(earlier))
    check_epochs_between([one.epochs for one in in_order], findings)
    _leave_out_undecidable(segments, along, before_gaps, bool(end.higher), findings)
    for found in (along.own, *along.segments.values(), along.batches):
        findings.update(found)
    lost = [CountedGaps([*gaps.listed, *(order.lost if order else ())])]
    lost += [one.offsets.gaps for one in files if one.is_log and compacted is False]
    return PartitionReport(
        path=str(log.path),
        topic=log.topic,
        partition=log.partition,
        files=tuple(one.report() for one in files),
        own_findings=tuple(findings),
        missing=tuple(sorted((gap.first, gap.last) for each in lost for gap in each.listed)),
        missing_offsets=sum(each.offsets for each in lost),
        end=end,
    )


# ---- the order of the segments

_OUT_OF_ORDER = ("offset_overlap", "base_offset_wrong", "offset_below_file_name")


def _correct_names(log: PartitionFiles, segments: Sequence[SegmentCheck]) -> None:
    """Reports the segments whose names are not those of their batches, and corrects their base offsets."""
    is_above = any(
        (one.offsets.first or 0) >= after.base_offset_or_zero > one.base_offset_or_zero
        for one, after in pairwise(segments)
    )
    if not is_above and not any("offset_below_file_name" in one.findings for one in segments):
        return
    by_content = {segment.path: base for segment, base in base_offsets_by_content(log.segments_for_reports).items()}
    named = {one.base_offset_or_zero for one in segments}
    for one in segments:
        base = by_content.get(one.path)
        if base is None:
            continue
        if one.offsets.first is not None and (base in named or "offset_below_file_name" not in one.findings):
            detail = (
                f"the file is named {one.base_offset_or_zero}, but by its batches it is the segment of offset {base}"
            )
            one.findings.discard(("offset_below_file_name",))
            one.findings.add("segment_misnamed", detail)
        one.base_offset = base


def _order_by_batches(log: PartitionFiles, segments: Sequence[SegmentCheck], limit: int) -> LogOrder | None:
    """None: the offsets are in order as they are in the files, or the log cannot be read once more."""
    overlap = any(
        (one.offsets.next or 0) > after.base_offset_or_zero > one.base_offset_or_zero
        for one, after in pairwise(_segments_in_order(segments))
    )
    within = any(kind in one.findings for one in segments for kind in _OUT_OF_ORDER)
    if not (overlap or within) or not all(one.is_log for one in segments):
        return None
    pairs = zip(log.segments_for_reports, segments, strict=True)
    try:
        return LogOrder([one.copy(base_offset=file.base_offset) for one, file in pairs], limit)
    except (OSError, KafkaRecordError):
        return None


def _segments_in_order(files: Sequence[SegmentCheck]) -> list[SegmentCheck]:
    return sorted((one for one in files if one.is_log), key=lambda one: one.base_offset_or_zero)


# ---- the end

_SPARK_FOLDER = "_temporary"
# What a recorded end above the log's end means -> (kind of the finding, the end of its sentence)
_MEANINGS = {
    LOST: ("end_lost", "they are lost, unless the broker died while it truncated the log"),
    LONGER: ("end_was_longer", "they are lost, or the broker truncated the log"),
    DELETED: ("start_above_end", "all records count as deleted, and a broker that starts on the folder deletes them"),
}


def _end_verdict(
    log: PartitionFiles, segments: Sequence[SegmentCheck], ends: Sequence[RecordedEnd], order: LogOrder | None
) -> EndVerdict:
    """The log's end, and the files that say that it was longer. A last segment that could not be read to its end proves
    nothing about it, and so there are none."""
    if not segments:
        end = recorded_ends.end_without_segments(log, ends)
        return EndVerdict(end, recorded_ends.ends_above(ends, end))
    nexts = [one.offsets.next for one in segments if one.offsets.next is not None]
    after_last = max(nexts, default=None) if order is None else order.next_offset
    highest = max(after_last or 0, *(one.base_offset_or_zero for one in segments))
    last = segments[-1]
    end = LogEnd(highest, last.good_end, None if after_last is None else after_last - 1)
    is_unread = last.is_unread or any(is_unchecked(one.reason) for one in last.damage)  # the log may go on there
    return EndVerdict(end, () if is_unread else recorded_ends.ends_above(ends, end))


def _report_higher_ends(log: PartitionFiles, verdict: EndVerdict, findings: Findings) -> None:
    """Adds a finding for each meaning, by the highest end."""
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
        others = ""
        if len(of_meaning) > 1:
            *also, last = (one.file for one in of_meaning[1:])
            named = f"{', '.join(also)} and {last} also refer" if also else f"{last} also refers"
            others = f" ({named} to later offsets)"
        findings.add(kind, f"the log {ends}, but {what}: {consequence}{others}", offset=end.offset, file=first.file)


def _may_be_unfinished(log: PartitionFiles, longer: Sequence[RecordedEnd]) -> bool:
    """Whether an index without its segment may be of a Spark job that is writing to the folder, or was killed: in a
    bucket, or where the job has its temporary folder."""
    orphans = names.indexes_without_segment(recorded_ends.files_beside(log))
    claimed = {parsed.base_offset for one in longer if (parsed := names.segment(one.file))}
    if log.folder is None or claimed.isdisjoint(orphans):
        return False
    return not isinstance(log.folder, LocalFolder) or os.path.isdir(
        os.path.join(os.path.dirname(os.path.abspath(log.folder.path)), _SPARK_FOLDER)
    )


# ---- gaps

_REPORT = "salvage.json"


def _gaps_between(files: Sequence[SegmentCheck], findings: Findings) -> list[Gap]:
    """The gaps between segments. Adds findings for segments that overlap."""
    gaps: list[Gap] = []
    for before, after in pairwise(files):
        if before.is_unread or after.is_unread:
            continue
        begin, end = after.base_offset_or_zero, before.offsets.next
        if end is None and not before.damage:
            end = before.base_offset_or_zero  # empty, or all zeros
        if begin == before.base_offset_or_zero:
            detail = f"{before.name} and {after.name} have the same base offset"
            findings.add("duplicate_segment", detail, offset=begin, file=after.path)
        elif end is not None and end > begin:
            detail = f"{before.name} ends at offset {end - 1}, but {after.name} begins at {begin}"
            findings.add("segment_overlap", detail, offset=begin, file=before.path)
        elif end is not None and end < begin and not (before.ends_in_damage or before.offsets.before_break):
            gaps.append(Gap(before.path, None, end, begin - 1))
    reached = 0
    for one in files:
        first, base = one.offsets.first, max(one.base_offset_or_zero, reached)
        reached = one.offsets.next or reached
        begins_in_damage = one.offsets.follows_break or (bool(one.damage) and one.damage[0].position == 0)
        if first is not None and first > base and not begins_in_damage and not one.offsets.first_is_last:
            gaps.append(Gap(one.path, 0, base, first - 1))
    return gaps


def _salvaged_ranges(log: PartitionFiles) -> list[tuple[int, int]]:
    """The (first, last) offsets that salvage.json in the folder above a partition folder lists for it as lost, missing
    or set aside; none if there is no such file. Adjacent ranges are joined."""
    ranges: list[tuple[int, int]] = []
    if not isinstance(log.folder, LocalFolder):
        return ranges
    above, name = os.path.split(os.path.abspath(log.folder.path))
    try:
        report = json.loads(LocalFolder(above).read(_REPORT) or b"{}")
        [one] = [one for one in report["partitions"] if one["folder"] == name]
        aside = [(each["first_offset"], each["last_offset"]) for each in one["set_aside"]]
        listed = [*one["lost"], *one["missing"], *aside]
        for first, last in sorted((first or 0, last) for first, last in listed if last is not None):
            if ranges and first <= ranges[-1][1] + 1:
                first, before = ranges.pop()
                last = max(last, before)
            ranges.append((first, last))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return ranges


def _leave_out_salvaged(ranges: Sequence[tuple[int, int]], gaps: CountedGaps, findings: Findings) -> None:
    """Removes the gaps that are listed, and adds a note about them."""
    listed = set()
    for gap in gaps.listed:
        at = bisect_right(ranges, (gap.first, LONG_MAX))  # after the range that begins there or before
        if at and gap.last <= ranges[at - 1][1]:
            listed.add(gap)
    gaps.remove(listed)
    if listed:
        count = counted(sum(gap.length for gap in listed), "offset")
        gaps_text = counted(len(listed), "gap")
        findings.add("gaps_salvaged", f"{count} in {gaps_text}, which {_REPORT} lists as lost or set aside")


def _check_gaps(
    log: PartitionFiles,
    files: Sequence[SegmentCheck],
    between: Iterable[Gap],
    data_folder: recorded_ends.DataFolderState,
    findings: Findings,
) -> tuple[CountedGaps, bool | None, set[str]]:
    """Adds findings for the gaps between segments and within them. Returns those between segments that may be a loss,
    whether the log is compacted (None: not known), and the files after which one is proven to be a loss."""
    log_start = data_folder.log_start(log.topic, log.partition)
    gaps = CountedGaps(gap for gap in between if gap.last >= log_start)
    salvaged = _salvaged_ranges(log)
    _leave_out_salvaged(salvaged, gaps, findings)
    for one in files:
        _leave_out_salvaged(salvaged, one.offsets.gaps, one.findings)
    compacted = data_folder.is_cleaned(log.topic, log.partition)
    if any(one.signs_of_cleaning for one in files):
        compacted = True
    elif compacted is False and (gaps.count or any(one.offsets.gaps.count for one in files)):
        compacted = recorded_ends.was_cleaned_meanwhile(log)
    in_order = _segments_in_order(files)
    by_path, between_segments = {one.path: one for one in in_order}, {}
    for gap in gaps.listed:
        if gap.position is None:
            one = by_path[gap.file]
            between_segments[gap] = SegmentGap(gap.first, gap.last, one.base_offset_or_zero, one.good_end)
    proofs = recorded_ends.proven_losses(log, between_segments)
    before_gaps = {gap.file for gap in proofs}
    start = recorded_ends.lost_start(log, data_folder)
    if start and in_order:
        gap = Gap(in_order[0].path, 0, *start[:2])
        gaps, proofs = CountedGaps([gap, *gaps.listed]), {gap: start[2], **proofs}
    if compacted:
        gaps.remove(proofs)
        normal = [gaps, *(one.offsets.gaps for one in files)]
        if count := sum(one.count for one in normal):
            total = f"{sum(one.offsets for one in normal)} offsets in total"
            findings.add("offsets_compacted", f"{counted(count, 'gap')} with {total}, as the cleaner leaves them")
        gaps = CountedGaps(proofs)
    else:
        for one in files:
            _report_gaps(one.offsets.gaps, compacted, one.findings)
    _report_gaps(gaps, compacted, findings, proofs)
    return gaps, compacted, before_gaps


def _report_gaps(
    gaps: CountedGaps,
    compacted: bool | None,
    findings: Findings,
    proofs: Mapping[Gap, str] | None = None,
) -> None:
    """Adds a finding for the gaps: an error in a log that was never cleaned, else an anomaly.

    proofs   of gaps between segments: those that an index proves to be a loss; None: gaps within a segment
    """
    if not gaps.listed:
        return
    first = next(iter(proofs or ()), gaps.listed[0])
    span = f"offset {first.first} is" if first.length == 1 else f"offsets {first.first} to {first.last} are"
    more = f"; {gaps.count} gaps with {gaps.offsets} offsets in total" if gaps.count > 1 else ""
    where = "between two segments" if first.position is None else "before the batch"
    severity = "error" if compacted is False or proofs else "anomaly"
    detail = f"{span} missing {where}{more}"
    if proofs:
        detail += f"; {proofs[first]}"
    elif compacted is None:
        detail += " (a compacted topic may have such gaps; whether this one is compacted is not known)"
    kind = "offset_gap" if proofs is None else "segment_gap"
    findings.add(kind, detail, first.position, first.first, severity=severity, count=gaps.count, file=first.file)


# ---- side files

_COMPARED = kinds_of_subject(COMPARISON)
_BY_PRODUCERS = frozenset(kind for kind in _COMPARED if kind.startswith(("transaction_", "producer_")))


def _leave_out_undecidable(
    segments: Sequence[SegmentCheck],
    along: LogFindings,
    before_a_gap: Iterable[str],
    is_cut: bool,
    findings: Findings,
) -> None:
    """Removes the comparisons of side files that a log with missing batches cannot decide: of the indexes of a segment
    that lost some, and of producers and transactions from there on. What an entry of a .txnindex proves stays.

    before_a_gap   the paths of the segments after which batches are missing
    is_cut         whether batches are missing at the end of the log
    """
    gaps, is_misplaced, left_out = set(before_a_gap), False, False
    is_lost = False  # batches, in this segment or before
    for one in segments:
        has_wrong_offsets = "segment_misnamed" in one.findings or "base_offset_wrong" in one.findings
        is_misplaced = is_misplaced or has_wrong_offsets
        ends_early = one.path in gaps or (is_cut and one is segments[-1])
        is_incomplete = bool(one.damage) or one.is_unread or has_wrong_offsets or ends_early
        is_lost = is_lost or is_incomplete
        found = along.segments.get(one.path)
        if found is not None and is_lost:
            proven = [each for each in found if each.kind == "transaction_unknown" and each.severity == NOTE]
            left_out = found.discard(_COMPARED if is_incomplete else _BY_PRODUCERS, keep=proven) or left_out
    if is_misplaced:
        left_out = along.own.discard(_COMPARED) or left_out
    if left_out:
        detail = "indexes, snapshots and transactions were not compared where batches are missing"
        findings.add("sidefiles_unchecked", detail, severity=NOTE)
