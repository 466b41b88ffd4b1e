"""A report for people: a summary, one line per partition, the worst partitions in detail, the next commands.

text          fits on one screen; lines that do not fit are counted
everything    the same with all lines
page          with maps of the files, and what to do about each finding
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from kafkarec.damage import Damage, begins_with_zeros, comparison
from kafkarec.errors import REASONS
from kafkarec.report import Bar, Block, Commands, Document, ReportSection, ReportTable
from kafkarec.support.text_table import NOTHING, byte_size, counted, noun, or_nothing

from . import advice
from .finding_kinds import ANOMALY, ERROR, KINDS, NOTE, SEVERITIES
from .findings import Finding
from .headline import count_of, headline, lost_by
from .report_data import (
    DAMAGED,
    GOOD,
    PREALLOCATED,
    TAIL,
    UNCHECKED,
    UNREADABLE,
    FileReport,
    PartitionReport,
    ReportData,
)

MAP_WIDTH = 64
SIGNS = {GOOD: "=", DAMAGED: "X", UNREADABLE: "?", UNCHECKED: "-", PREALLOCATED: "0", TAIL: "~"}
# A cell of a map shows the worst state of its bytes.
_WORST_FIRST = (UNREADABLE, DAMAGED, UNCHECKED, TAIL, PREALLOCATED, GOOD)


class ReportLimits(NamedTuple):
    """Limits of a report.

    partitions   rows of their table
    in_detail    partitions in detail
    lines        of one of them
    all_lines    of all of them
    files        with a map, without findings, too, if a log has no more
    """

    partitions: int
    in_detail: int
    lines: int
    all_lines: int
    files: int = 0

    def more(self, count: int, what: str, suffix: str = "") -> str:
        """`1 more range: --all prints it`, `2 more ranges: --all prints them`."""
        printed = "" if self.files else f": --all prints {_it_or_them(count)}"
        return f"{count} more {noun(count, what)}{suffix}{printed}"


_SCREEN = ReportLimits(10, 3, 14, 28)
_ALL = ReportLimits(*[1 << 30] * 4)
_PAGE = ReportLimits(200, 100, 200, 1 << 30, 12)


def document(report: ReportData, everything: bool = False, page: bool = False) -> Document:
    """The report with as much as a screen, a page, or everything."""
    limits = _PAGE if page else _ALL if everything else _SCREEN
    head, totals = headline(report)
    is_alone = len(report.partitions) == 1
    sections = [] if is_alone or not report.partitions else [_table(report.partitions, limits)]
    shown = [one for one in report.partitions if limits is _ALL or one.state != "ok" or is_alone]
    lines = max(min(limits.lines, limits.all_lines // max(min(len(shown), limits.in_detail), 1) - 4), 4)
    with_notes = is_alone or limits is not _SCREEN
    sections += [_detail(one, lines, with_notes, limits) for one in shown[: limits.in_detail]]
    if len(shown) > limits.in_detail:
        more = limits.more(len(shown) - limits.in_detail, "partition", " with findings")
        sections.append(ReportSection("More", [f"and {more}"], title_in_text=False))
    own = list(_findings(report.own_findings, limits.lines, limits))
    sections.append(ReportSection("The data folder", own, title_in_text=False))
    steps = advice.next_steps(report)
    to_do: list[Block] = ["", Commands("next", [("", step) for step in steps])] if steps else []
    details = [section for section in sections if section.blocks]
    lead = [totals] if totals else []
    blocks = [*lead, *to_do, *details] if page else [*lead, *details, *to_do]
    return Document("verify", blocks, head, report.state)


def _table(partitions: Sequence[PartitionReport], limits: ReportLimits) -> ReportSection:
    shown, rest = partitions[: limits.partitions], partitions[limits.partitions :]
    times = Counter(one.name for one in partitions)
    names: dict[str, Callable[[PartitionReport], str]] = {
        "partition": lambda one: one.name if times[one.name] == 1 else one.path
    }
    bars = [_bar(one.files) for one in shown]
    blocks: list[Block] = [ReportTable.of(shown, names | _OF_PARTITION, bars=("map", bars))]
    if rest:
        bad = sum(one.state != "ok" for one in rest)
        how = (f"{bad} of them not ok" if len(rest) > 1 else "not ok") if bad else "all ok" if len(rest) > 1 else "ok"
        blocks.append(f"and {len(rest)} more, {how}: --all prints {_it_or_them(len(rest))}")
    return ReportSection("Partitions, worst first", blocks, title_in_text=False)


def _lost_offsets(one: PartitionReport) -> str:
    """An upper bound of a partition's lost offsets: `45`, or `45+` with damage at its start or end; `-`: none."""
    if one.lost_at_an_end:
        return f"{one.lost_offsets}+"
    return str(one.lost_offsets) if one.lost_bytes or one.lost_offsets else "-"


def _detail(one: PartitionReport, lines: int, with_notes: bool, limits: ReportLimits) -> ReportSection:
    blocks: list[Block] = []
    damaged = [file for file in one.files if file.places]
    files = damaged
    if limits.files:
        few = len(one.files) <= limits.files
        files = [file for file in one.files if few or file.places or file.findings]
        files.sort(key=lambda file: not file.places)
    most = max(lines // 6, 1)
    for file in files[:most]:
        blocks += ["", _map(file), *_damage(file, max(lines // max(min(len(damaged), 2), 1) - 3, 2), limits)]
    if limits.files and len(one.files) > len(files[:most]):
        without = "" if len(files) > most else ", without findings"
        blocks.append(f"{counted(len(one.files) - len(files[:most]), 'more file')}{without}")
    elif len(files) > most:
        blocks.append(f"  and {limits.more(len(files) - most, 'damaged file')}")
    findings = [found for found in one.findings if with_notes or found.severity != NOTE]
    found = list(_findings(findings if limits.files else _merged(findings), lines, limits))
    blocks += ["", *found] if found else []
    title = f"{one.name} ({one.path})" if one.name != one.path else one.path
    return ReportSection(title, blocks, state=one.state)


def _merged(findings: Iterable[Finding]) -> Iterable[Finding]:
    """The findings, with those of one kind in several files joined to the first one, with the count of all. Errors are
    not joined."""
    together: dict[tuple[object, ...], Finding] = {}
    for one in sorted(findings, key=_by_severity):
        key = (one.kind, one.severity, one.file if one.severity == ERROR else None)
        old = together.get(key)
        together[key] = one if old is None else replace(old, count=old.count + one.count)
    return together.values()


_OF_PARTITION: dict[str, Callable[[PartitionReport], str]] = {
    "state": lambda one: one.state.upper() if one.state == "damaged" else one.state,
    "files": lambda one: str(len(one.files)),
    "bytes": lambda one: byte_size(one.total("size")),
    "records": lambda one: str(one.total("records")),
    "ranges": lambda one: str(one.places or NOTHING),
    "bytes lost": lambda one: str(one.lost_bytes or NOTHING),
    "offsets lost": _lost_offsets,
    "errors": lambda one: str(count_of(one.findings, ERROR) or NOTHING),
    "anomalies": lambda one: str(count_of(one.findings, ANOMALY) or NOTHING),
}


# ---- files


def _bar(files: Iterable[FileReport], line: str = "", **options: Any) -> Bar:
    """The bytes of files, one after another."""
    return Bar(line, [(one.state, one.length) for file in files for one in file.ranges], **options)


def _map(file: FileReport) -> Bar:
    """A file as a map of its bytes, as text with one sign or more per range: damage of a single byte is visible."""
    cells = [GOOD] * MAP_WIDTH
    for one in file.ranges:
        first = one.position * MAP_WIDTH // file.size
        last = ((one.position + one.length) * MAP_WIDTH - 1) // file.size
        for at in range(first, last + 1):
            cells[at] = min(cells[at], one.state, key=_WORST_FIRST.index)
    there = {one.state for one in file.ranges}
    legend = "  ".join(f"{sign} {state}" for state, sign in SIGNS.items() if state in there)
    drawing = f"  |{''.join(SIGNS[state] for state in cells)}|  {legend}"
    span = "no offsets"
    if file.first_offset is not None and file.next_offset is not None:
        span = f"offsets {file.first_offset} to {file.next_offset - 1}"
    size, counts = byte_size(file.size), f"{counted(file.batches, 'good batch')}, {counted(file.records, 'record')}"
    return _bar([file], f"{size}, {counts}, {span}", title=file.name, drawing=[f"  {file.name}  {size}", drawing])


def _damage(file: FileReport, limit: int, limits: ReportLimits) -> Iterator[Block]:
    """The damaged ranges of a file: adjacent damage, without good batches between, has lost the same offsets."""
    if not file.damage:
        return
    groups = list(islice(_adjacent(file.damage), limit - 1))
    lines, rows = [], []
    for first, *more in groups:
        begin, last = first.position, (first, *more)[-1]
        end = last.position + last.length
        lost, why = lost_by(first), _why(first)
        span = f"byte {begin}" if end == begin + 1 else f"bytes {begin} to {end - 1}"
        lines.append(f"    {span}: {lost}; {why}" + (f", and {len(more)} more within" if more else ""))
        sentence = REASONS[first.reason].sentence
        rows.append((str(begin), str(end - begin), lost, sentence, why, str(len(more) or NOTHING)))
    titles = ("first byte", "bytes", "offsets", "what is wrong", "details", "more within")
    yield ReportTable(list(zip(titles, zip(*rows, strict=True), strict=True)), lines=lines)
    rest = file.places - sum(map(len, groups))
    if rest:
        yield f"    and {limits.more(rest, 'range')}"


def _adjacent(damage: Sequence[Damage]) -> Iterator[list[Damage]]:
    group: list[Damage] = []
    for one in damage:
        if group and group[-1].position + group[-1].length != one.position:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _why(one: Damage) -> str:
    """The reason with the expected and found value, or zeros."""
    if begins_with_zeros(one.reason, one.found):
        return f"zeros [{one.reason}]"
    text = comparison(one.reason, {"expected": one.expected, "found": one.found, "detail": one.cause})
    return f"{one.reason}: {text}" if text else one.reason


# ---- findings


def _findings(findings: Iterable[Finding], limit: int, limits: ReportLimits) -> Iterator[Block]:
    found = sorted(findings, key=_by_severity)
    if found:
        yield ReportTable.of(found[:limit], _OF_FINDING, lines=list(map(_line, found[:limit])))
    if len(found) > limit:
        yield f"  and {limits.more(len(found) - limit, 'finding')}"


def _by_severity(one: Finding) -> int:
    return SEVERITIES.index(one.severity)


def _file_name(one: Finding) -> str:
    """The name of a finding's file within its folder; empty: it is not about one file."""
    parts = 2 if one.kind == "batches_left_out" else 1  # lost+found/#12345
    return "" if one.file is None else "/".join(one.file.split("/")[-parts:])


def _line(one: Finding) -> str:
    file = _file_name(one)
    place = f" at byte {one.position}" if one.position is not None else ""
    where = f"{file}{place}: " if file or place else ""
    times = f" ({one.count} times)" if one.count > 1 else ""
    return f"  {one.severity:<8} {where}{one.detail}{times} [{one.kind}]"


_OF_FINDING: dict[str, Callable[[Finding], str]] = {
    "severity": lambda one: one.severity,
    "file": _file_name,
    "byte": lambda one: or_nothing(one.position),
    "offset": lambda one: or_nothing(one.offset),
    "times": lambda one: str(one.count),
    "finding": lambda one: f"{one.detail} [{one.kind}]",
    "what to do": lambda one: KINDS[one.kind].advice,
}


def _it_or_them(count: int) -> str:
    return "it" if count == 1 else "them"
