"""The first sentences of a report: whether there is damage, how much is lost, and what was read."""

from __future__ import annotations

from collections.abc import Sequence

from kafkarec.damage import Damage, is_unchecked
from kafkarec.storage import lost_parts
from kafkarec.support.text_table import byte_size, counted, lost_offsets, safe

from .finding_kinds import ANOMALY, END, ERROR, of_subject
from .findings import Finding
from .report_data import READ_FAILURES, PartitionReport, ReportData

_END_KINDS = of_subject(END)


def headline(report: ReportData) -> tuple[str, str]:
    """Whether there is damage, and how much is lost; what was read."""
    sums = f"{byte_size(report.total('size'))} in {counted(len(report.files), 'file')}"
    if len(report.partitions) > 1:
        sums += f" of {len(report.partitions)} partitions"
    counts = f"{counted(report.total('batches'), 'good batch')}, {counted(report.total('records'), 'record')}"
    if report.largest_record:
        counts += f", the largest of {report.largest_record} bytes"
    rate = report.total("size") / report.seconds / 1e6 if report.seconds > 0.5 else 0
    speed = f" ({rate:.0f} MB/s)" if rate >= 1 else ""
    totals = f"{_named(report)}: {sums}, {counts}, read in {report.seconds:.1f} s{speed}"
    if not report.files and report.state != ERROR:
        return f"NOTHING TO VERIFY: {_named(report)} contains no segment", ""
    not_checked = f"not checked: {_unchecked(report)}" if _unchecked(report) else ""
    if report.state == "unchecked":
        head = f"NOT FULLY CHECKED: {_unchecked(report)}; the rest is not damaged"
    elif report.state == "damaged":
        bad = sum(one.lost_bytes for one in report.partitions)
        places = sum(one.places - len(one.unchecked) for one in report.partitions)
        lost = [f"DAMAGED: {counted(places, 'range')}, {byte_size(bad)} lost", *_all_lost(report.partitions)]
        unread = f"{_unread(report)} could not be read completely" if report.unread else ""
        head = _joined(", ".join(lost), _gone(report), unread, not_checked)
    elif report.state == ERROR:
        head = _joined(_without_damage(report), not_checked)
    elif report.state == ANOMALY:
        anomalies = counted(count_of(report.findings, ANOMALY), "anomaly")
        missing = sum(one.missing_offsets for one in report.partitions)
        gaps = f"{counted(missing, 'offset')} missing between segments: compacted or lost" if missing else ""
        head = _joined(f"NOT DAMAGED, with {anomalies} that Kafka accepts without an error", gaps)
    elif not report.total("batches"):
        zeros = any(one.kind == "preallocated" for one in report.findings)
        nothing = "there are no batches"
        if zeros:
            nothing = "there are only zeros: the log is empty, or its records are lost; this folder cannot tell which"
        head = f"NO BATCHES: nothing is damaged, but {nothing}"
    else:
        head = "NOT DAMAGED: every checksum is right and every payload can be read"
    return head, totals


def _named(report: ReportData) -> str:
    return "standard input" if report.path == "-" else safe(report.path)


def _without_damage(report: ReportData) -> str:
    """The summary for errors without damaged bytes: of the log's end, of files that cannot be read, any others."""
    errors = [one for one in report.findings if one.severity == ERROR and one.kind not in _END_KINDS | READ_FAILURES]
    beyond = _gone(report)
    checked = " that was checked" if _unchecked(report) else ""
    good = f"every batch{checked} can be read" if report.total("batches") else "there are no batches"
    read = f"{_unread(report)} could not be read" if report.unread else good
    restored = [one for one in errors if one.kind == "header_restored"]
    if restored and len(restored) == len(errors):
        wrong = f"header fields of {counted(count_of(restored, ERROR), 'batch')}, which can be restored"
        return _joined(f"DAMAGED: {wrong}; {read}", beyond)
    if errors:
        count = count_of(errors, ERROR)
        are = "is" if count == 1 else "are"
        there = f"{read}, {'and' if report.unread else 'but'} there {are} {counted(count, 'error')}"
        lost = sum(one.lost_offsets - one.beyond_end for one in report.partitions)
        gaps = f"{counted(lost, 'offset')} lost{_in_gaps(report.partitions, lost)}" if lost else ""
        return _joined(f"INCONSISTENT: {there}", gaps, beyond)
    if beyond:
        return f"INCOMPLETE: {read}; {beyond}"
    return f"COULD NOT READ EVERYTHING: {_unread(report)}; the rest is not damaged"


def _unchecked(report: ReportData) -> str:
    """The batches above a limit or without a library; empty: none."""
    batches = [one for partition in report.partitions for one in partition.unchecked]
    size = byte_size(sum(one.length for one in batches))
    return f"{counted(len(batches), 'batch')}, {size}, above a limit or without a library" if batches else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _unread(report: ReportData) -> str:
    return counted(len(report.unread), "file or folder")


def _gone(report: ReportData) -> str:
    """What is lost without damage: folders, and the ends of logs; empty: nothing is known to be."""
    folders = sorted(str(one.file) for one in report.own_findings if one.kind == "folder_lost")
    return _joined(lost_parts.lost_folders_text(folders), _beyond_end(report.partitions))


def _beyond_end(partitions: Sequence[PartitionReport]) -> str:
    """What the highest recorded end of a log means, and how many other logs have one; empty: there is none."""
    ended = sorted((one for one in partitions if one.end.higher), key=lambda one: one.end.rank)
    if not ended:
        return ""
    where = f" ({ended[0].name})" if len(partitions) > 1 else ""
    more = f"; the same in {counted(len(ended) - 1, 'more partition')}" if len(ended) > 1 else ""
    return f"{ended[0].end.headline}{where}{more}"


def _all_lost(partitions: Sequence[PartitionReport]) -> list[str]:
    """The offsets lost by damage and in gaps, without those above a log's end, which `_beyond_end` counts."""
    spans = {(one.file, one.lost_from, one.lost_to): one for partition in partitions for one in partition.lost_ranges}
    known = sum(one.lost_offsets - one.beyond_end for one in partitions)
    in_gaps = _in_gaps(partitions, known)
    counted_above = [one for one in partitions if one.beyond_end]
    open_end = any(one.lost_at_an_end for one in partitions if one not in counted_above)
    if len(spans) == 1 and not in_gaps and (open_end or not counted_above):
        return [lost_by(*spans.values())]
    if not known:
        return ["the number of lost offsets is not known"] if open_end else []
    more = ", and at a log's start or end a number that is not known" if open_end else ""
    return [f"at most {counted(known, 'offset')}{in_gaps}{more}"]


def _in_gaps(partitions: Sequence[PartitionReport], lost: int) -> str:
    """How many of the lost offsets are missing without damaged bytes; empty: none."""
    missing = sum(one.missing_offsets for one in partitions)
    if missing == lost:
        return f" in {'a gap' if missing == 1 else 'gaps'}" if missing else ""
    return f", {missing} of them in gaps" if missing else ""


def count_of(findings: Sequence[Finding], severity: str) -> int:
    """The number of positions of the findings of a severity."""
    return sum(one.count for one in findings if one.severity == severity)


def lost_by(one: Damage) -> str:
    """The offsets that a damage may have lost."""
    words = lost_offsets(one.lost_from, one.lost_to)
    if is_unchecked(one.reason):
        return f"{words} not checked"
    return words if one.lost_from is one.lost_to is None else f"{words} lost"
