"""A report as text: a summary, one line per partition, the worst partitions in detail, the next commands.

It fits on one screen. Lines that do not fit are counted; with `everything` they are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkarec.damage import Damage, comparison
from kafkarec.support.text_table import byte_size, counted, lost_offsets, noun, safe
from kafkarec.support.text_table import render as text_table

from . import advice
from .finding_kinds import ANOMALY, END, ERROR, NOTE, SEVERITIES, of_subject
from .findings import Finding
from .report_data import (
    DAMAGED,
    GOOD,
    PREALLOCATED,
    READ_FAILURES,
    TAIL,
    UNREADABLE,
    FileReport,
    PartitionReport,
    ReportData,
)

_END_KINDS = of_subject(END)
MAP_WIDTH = 64
SIGNS = {GOOD: "=", DAMAGED: "X", UNREADABLE: "?", PREALLOCATED: "0", TAIL: "~"}
# A cell of a map shows the worst state of its bytes.
_WORST_FIRST = (UNREADABLE, DAMAGED, TAIL, PREALLOCATED, GOOD)


class LineLimits(NamedTuple):
    """Limits of the text: lines of the partition table, partitions in detail, lines of each of them."""

    partitions: int
    in_detail: int
    lines: int


_SCREEN = LineLimits(10, 3, 14)
_ALL = LineLimits(1 << 30, 1 << 30, 1 << 30)


def render(report: ReportData, everything: bool = False) -> str:
    """The text, with a final newline."""
    limits = _ALL if everything else _SCREEN
    parts = [summary(report) + "\n"]
    if len(report.partitions) > 1:
        parts.append(_table(report.partitions, limits.partitions))
    shown = [one for one in report.partitions if everything or one.state != "ok" or len(report.partitions) == 1]
    detailed = max(min(len(shown), limits.in_detail), 1)
    lines = limits.lines if len(shown) == 1 else max(limits.lines * 2 // detailed - 4, 4)
    for one in shown[: limits.in_detail]:
        parts.append("\n".join(_detail(one, lines, everything or len(report.partitions) == 1)) + "\n")
    if len(shown) > limits.in_detail:
        parts.append(f"and {_more(len(shown) - limits.in_detail, 'partition', ' with findings')}\n")
    own = [line for one in sorted(report.own_findings, key=_by_severity) for line in _finding(one)]
    if own:
        rest = [f"  and {_more(len(own) - limits.lines, 'finding')}"] if len(own) > limits.lines else []
        parts.append("\n".join(own[: limits.lines] + rest) + "\n")
    parts.append(_next(report))
    return "\n".join(part for part in parts if part.strip())


def summary(report: ReportData) -> str:
    """The summary: whether there is damage, and how much is lost."""
    sums = f"{byte_size(report.total('size'))} in {counted(len(report.files), 'file')}"
    if len(report.partitions) > 1:
        sums += f" of {len(report.partitions)} partitions"
    counts = f"{counted(report.total('batches'), 'good batch')}, {counted(report.total('records'), 'record')}"
    rate = report.total("size") / report.seconds / 1e6 if report.seconds > 0.5 else 0
    speed = f" ({rate:.0f} MB/s)" if rate >= 1 else ""
    totals = f"{_named(report)}: {sums}, {counts}, read in {report.seconds:.1f} s{speed}"
    if not report.files and report.state != ERROR:
        return f"NOTHING TO VERIFY: {_named(report)} contains no segment"
    if report.state == "unchecked":
        batches = counted(sum(one.places for one in report.partitions), "batch")
        size = byte_size(report.total("damaged_bytes") + report.total("unreadable_bytes"))
        head = f"NOT FULLY CHECKED: {batches}, {size}, above a limit or without a library; the rest is not damaged"
    elif report.state == "damaged":
        bad = report.total("damaged_bytes") + report.total("unreadable_bytes")
        places = sum(one.places for one in report.partitions)
        lost = [f"DAMAGED: {counted(places, 'range')}, {byte_size(bad)} lost", *_all_lost(report.partitions)]
        unread = f"{_unread(report)} could not be read completely" if report.unread else ""
        head = _joined(", ".join(lost), _beyond_end(report.partitions), unread)
    elif report.state == ERROR:
        head = _without_damage(report)
    elif report.state == ANOMALY:
        anomalies = counted(_count(report.findings, ANOMALY), "anomaly")
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
    return f"{head}\n{totals}"


def _named(report: ReportData) -> str:
    return "standard input" if report.path == "-" else safe(report.path)


def _without_damage(report: ReportData) -> str:
    """The summary for errors without damaged bytes: of the log's end, of files that cannot be read, any others."""
    errors = [one for one in report.findings if one.severity == ERROR and one.kind not in _END_KINDS | READ_FAILURES]
    beyond = _beyond_end(report.partitions)
    good = "every batch can be read" if report.total("batches") else "there are no batches"
    read = f"{_unread(report)} could not be read" if report.unread else good
    restored = [one for one in errors if one.kind == "header_restored"]
    if restored and len(restored) == len(errors):
        wrong = f"header fields of {counted(_count(restored, ERROR), 'batch')}, which can be restored"
        return _joined(f"DAMAGED: {wrong}; {read}", beyond)
    if errors:
        there = f"{read}, {'and' if report.unread else 'but'} there {_is_or_are(_count(errors, ERROR), 'error')}"
        lost = sum(one.lost_offsets - one.beyond_end for one in report.partitions)
        gaps = f"{counted(lost, 'offset')} lost{_in_gaps(report.partitions, lost)}" if lost else ""
        return _joined(f"INCONSISTENT: {there}", gaps, beyond)
    if beyond:
        return f"INCOMPLETE: {read}; {beyond}"
    return f"COULD NOT READ EVERYTHING: {_unread(report)}; the rest is not damaged"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _unread(report: ReportData) -> str:
    return counted(len(report.unread), "file or folder")


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
    spans = {(one.file, one.lost_from, one.lost_to): one for partition in partitions for one in partition.damage}
    known = sum(one.lost_offsets - one.beyond_end for one in partitions)
    in_gaps = _in_gaps(partitions, known)
    counted_above = [one for one in partitions if one.beyond_end]
    open_end = any(one.lost_at_an_end for one in partitions if one not in counted_above)
    if len(spans) == 1 and not in_gaps and (open_end or not counted_above):
        return [offsets(*spans.values())]
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


def _count(findings: Sequence[Finding], severity: str) -> int:
    return sum(one.count for one in findings if one.severity == severity)


def _table(partitions: Sequence[PartitionReport], limit: int) -> str:
    shown = partitions[:limit]
    times = Counter(one.name for one in partitions)

    def lost(one: PartitionReport) -> str:
        return lost_offsets_short(one) or "-"

    def findings(one: PartitionReport, severity: str) -> str:
        return str(_count(one.findings, severity) or "-")

    columns = [
        ("partition", [one.name if times[one.name] == 1 else one.path for one in shown]),
        ("state", [one.state.upper() if one.state == "damaged" else one.state for one in shown]),
        ("files", [str(len(one.files)) for one in shown]),
        ("bytes", [byte_size(one.total("size")) for one in shown]),
        ("records", [str(one.total("records")) for one in shown]),
        ("ranges", [str(one.places or "-") for one in shown]),
        ("bytes lost", [str(one.lost_bytes or "-") for one in shown]),
        ("offsets lost", [lost(one) for one in shown]),
        ("errors", [findings(one, ERROR) for one in shown]),
        ("anomalies", [findings(one, ANOMALY) for one in shown]),
    ]
    rest = partitions[limit:]
    text = text_table(columns)
    if rest:
        bad = sum(one.state != "ok" for one in rest)
        how = (f"{bad} of them not ok" if len(rest) > 1 else "not ok") if bad else "all ok" if len(rest) > 1 else "ok"
        text += f"and {len(rest)} more, {how}: --all prints {_it_or_them(len(rest))}\n"
    return text


def _detail(one: PartitionReport, limit: int, notes: bool) -> list[str]:
    head = [f"{safe(one.name)} ({safe(one.path)})"] if one.name != one.path else [safe(one.path)]
    lines: list[str] = []
    files = [file for file in one.files if file.places]
    for file in files[: max(limit // 6, 1)]:
        lines += ["", *_damage(file, max(limit // max(min(len(files), 2), 1) - 3, 2))]
    if len(files) > max(limit // 6, 1):
        lines.append(f"  and {_more(len(files) - max(limit // 6, 1), 'damaged file')}")
    found = sorted((f for f in one.findings if notes or f.severity != NOTE), key=_by_severity)
    finding_lines = [line for finding in _merged(found) for line in _finding(finding)]
    if finding_lines:
        lines += ["", *finding_lines[:limit]]
    if len(finding_lines) > limit:
        lines.append(f"  and {_more(len(finding_lines) - limit, 'finding')}")
    return [*head, *lines] if lines else []


def _merged(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yields the findings, with those of one kind in several files joined to the first one, with the count of all.
    Errors are not joined."""
    together: dict[tuple[object, ...], Finding] = {}
    for one in findings:
        key = (one.kind, one.severity, one.file if one.severity == ERROR else None)
        old = together.get(key)
        together[key] = one if old is None else replace(old, count=old.count + one.count)
    yield from together.values()


def _damage(file: FileReport, limit: int) -> list[str]:
    lines = [f"  {safe(file.name)}  {byte_size(file.size)}", f"  |{byte_map(file)}|  {legend(file)}"]
    listed = 0
    for group in _adjacent(file.damage):
        if len(lines) > limit:
            break
        first, last = group[0], group[-1]
        end = last.position + last.length - 1
        span = f"byte {end}" if end == first.position else f"bytes {first.position} to {end}"
        why = _why(first, file) + (f", and {len(group) - 1} more within" if len(group) > 1 else "")
        lines.append(safe(f"    {span}: {offsets(first)}; {why}"))
        listed += len(group)
    if file.places > listed:
        lines.append(f"    and {_more(file.places - listed, 'range')}")
    return lines


def _adjacent(damage: Sequence[Damage]) -> Iterator[list[Damage]]:
    """Yields groups of adjacent damage, without good batches between; they have the same lost offsets."""
    group: list[Damage] = []
    for one in damage:
        if group and group[-1].position + group[-1].length != one.position:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _why(one: Damage, file: FileReport) -> str:
    """The reason with the expected and found value, without the position."""
    zeros = zeros_text(one, file)
    if zeros:
        return f"{zeros} [{one.reason}]"
    text = expected_and_found(one)
    return f"{one.reason}: {text}" if text else one.reason


def zeros_text(one: Damage, file: FileReport) -> str:
    """The text about zeros at the start of the damage (a page that was never written, or wiped); empty: none."""
    zeros = dict(file.zeros).get(one.position, 0)
    if not zeros:
        return ""
    return "all zeros" if zeros == one.length else f"begins with {zeros} zero bytes"


def expected_and_found(one: Damage) -> str:
    """The expected and the found value of a damage; empty: none."""
    return comparison(one.reason, {"expected": one.expected, "found": one.found, "detail": one.cause})


def file_name(one: Finding) -> str:
    """The name of a finding's file within its folder; empty: it is not about one file."""
    parts = 2 if one.kind == "batches_left_out" else 1  # lost+found/#12345
    return "" if one.file is None else "/".join(one.file.split("/")[-parts:])


def _by_severity(one: Finding) -> int:
    return SEVERITIES.index(one.severity)


def _finding(one: Finding) -> list[str]:
    file = file_name(one)
    place = " at byte " + str(one.position) if one.position is not None else ""
    where = f"{file}{place}: " if file or place else ""
    times = f" ({one.count} times)" if one.count > 1 else ""
    return [safe(f"  {one.severity:<8} {where}{one.detail}{times} [{one.kind}]")]


def offsets(one: Damage) -> str:
    """The offsets that a damage may have lost."""
    words = lost_offsets(one.lost_from, one.lost_to)
    return words if one.lost_from is one.lost_to is None else f"{words} lost"


def byte_map(file: FileReport, width: int = MAP_WIDTH) -> str:
    """The map of a file: one sign per range of bytes. Even damage of a single byte is visible."""
    cells = [GOOD] * width
    rank = {state: at for at, state in enumerate(_WORST_FIRST)}
    for one in file.ranges:
        first = one.position * width // file.size
        last = ((one.position + one.length) * width - 1) // file.size
        for at in range(first, last + 1):
            if rank[one.state] < rank[cells[at]]:
                cells[at] = one.state
    return "".join(SIGNS[state] for state in cells)


def legend(file: FileReport) -> str:
    """The meaning of the signs that occur in a map."""
    there = {one.state for one in file.ranges}
    return "  ".join(f"{SIGNS[state]} {state}" for state in SIGNS if state in there)


def _next(report: ReportData) -> str:
    steps = advice.next_steps(report)
    return "".join(f"{'next: ' if not at else '      '}{safe(step)}\n" for at, step in enumerate(steps))


def lost_offsets_short(one: PartitionReport) -> str:
    """An upper bound of a partition's lost offsets: `45`, or `45+` with damage at its start or end; empty: none."""
    if one.lost_at_an_end:
        return f"{one.lost_offsets}+"
    return str(one.lost_offsets) if one.places or one.lost_offsets else ""


def _is_or_are(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, what)}"


def _more(count: int, what: str, suffix: str = "") -> str:
    """`1 more place: --all prints it`, `2 more places: --all prints them`."""
    return f"{count} more {noun(count, what)}{suffix}: --all prints {_it_or_them(count)}"


def _it_or_them(count: int) -> str:
    return "it" if count == 1 else "them"
