"""A report for people: a summary, one line per partition, the worst partitions in detail, the next commands.

text          fits on one screen; lines that do not fit are counted
everything    the same with all lines
page          with maps of the files, and what to do about each finding
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkarec.damage import Damage, comparison
from kafkarec.errors import REASONS
from kafkarec.report import Bar, Block, Commands, Document, ReportSection, ReportTable
from kafkarec.support.html_page import text as escaped
from kafkarec.support.text_table import byte_size, counted, noun, safe

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

    def findings(severity: str) -> list[str]:
        return [str(count_of(one.findings, severity) or "-") for one in shown]

    columns = [
        ("partition", [one.name if times[one.name] == 1 else one.path for one in shown]),
        ("state", [one.state.upper() if one.state == "damaged" else one.state for one in shown]),
        ("files", [str(len(one.files)) for one in shown]),
        ("bytes", [byte_size(one.total("size")) for one in shown]),
        ("records", [str(one.total("records")) for one in shown]),
        ("ranges", [str(one.places or "-") for one in shown]),
        ("bytes lost", [str(one.lost_bytes or "-") for one in shown]),
        ("offsets lost", [_lost_offsets(one) for one in shown]),
        ("errors", findings(ERROR)),
        ("anomalies", findings(ANOMALY)),
    ]
    blocks: list[Block] = [ReportTable(columns, ("map", [_bar(one.files, "") for one in shown]))]
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
        blocks += ["", FileMap(file), *_damage(file, max(lines // max(min(len(damaged), 2), 1) - 3, 2), limits)]
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


# ---- files


def _bar(files: Iterable[FileReport], line: str) -> Bar:
    """The bytes of files, one after another."""
    return Bar(line, [(one.state, one.length) for file in files for one in file.ranges], is_of_file=True)


@dataclass(frozen=True)
class FileMap:
    """A file as a map of its bytes, one sign or more per range: damage of a single byte is visible."""

    file: FileReport

    def text(self) -> Iterator[str]:
        yield f"  {safe(self.file.name)}  {byte_size(self.file.size)}\n  |{self._cells()}|  {self._legend()}\n"

    def html(self) -> Iterator[str]:
        file, span = self.file, "no offsets"
        if file.first_offset is not None and file.next_offset is not None:
            span = f"offsets {file.first_offset} to {file.next_offset - 1}"
        counts = f"{counted(file.batches, 'good batch')}, {counted(file.records, 'record')}"
        yield f"<h3>{escaped(file.name)}</h3>\n"
        yield from _bar([file], f"{byte_size(file.size)}, {counts}, {span}").html()

    def _cells(self) -> str:
        cells, size = [GOOD] * MAP_WIDTH, self.file.size
        rank = {state: at for at, state in enumerate(_WORST_FIRST)}
        for one in self.file.ranges:
            first = one.position * MAP_WIDTH // size
            last = ((one.position + one.length) * MAP_WIDTH - 1) // size
            for at in range(first, last + 1):
                if rank[one.state] < rank[cells[at]]:
                    cells[at] = one.state
        return "".join(SIGNS[state] for state in cells)

    def _legend(self) -> str:
        there = {one.state for one in self.file.ranges}
        return "  ".join(f"{SIGNS[state]} {state}" for state in SIGNS if state in there)


class DamagedRange(NamedTuple):
    """Adjacent damage, without good batches between: bytes [begin, end), with the same lost offsets. merged: how many
    ranges it was."""

    begin: int
    end: int
    lost: str
    reason: str
    why: str
    merged: int


@dataclass(frozen=True)
class DamageTable:
    """The damaged ranges of a file."""

    ranges: Sequence[DamagedRange]

    def text(self) -> Iterator[str]:
        for one in self.ranges:
            span = f"byte {one.begin}" if one.end == one.begin + 1 else f"bytes {one.begin} to {one.end - 1}"
            more = f", and {one.merged - 1} more within" if one.merged > 1 else ""
            yield f"    {span}: {one.lost}; {safe(one.why)}{more}\n"

    def html(self) -> Iterator[str]:
        columns = [
            ("first byte", [str(one.begin) for one in self.ranges]),
            ("bytes", [str(one.end - one.begin) for one in self.ranges]),
            ("offsets", [one.lost for one in self.ranges]),
            ("what is wrong", [REASONS[one.reason].sentence for one in self.ranges]),
            ("details", [one.why for one in self.ranges]),
            ("more within", [str(one.merged - 1 or "-") for one in self.ranges]),
        ]
        return ReportTable(columns).html()


def _damage(file: FileReport, limit: int, limits: ReportLimits) -> Iterator[Block]:
    if not file.places:
        return
    ranges, listed = list[DamagedRange](), 0
    for group in _adjacent(file.damage):
        if len(ranges) >= limit - 1:
            break
        first, last = group[0], group[-1]
        end = last.position + last.length
        ranges.append(DamagedRange(first.position, end, lost_by(first), first.reason, _why(first, file), len(group)))
        listed += len(group)
    yield DamageTable(ranges)
    if file.places > listed:
        yield f"    and {limits.more(file.places - listed, 'range')}"


def _adjacent(damage: Sequence[Damage]) -> Iterator[list[Damage]]:
    group: list[Damage] = []
    for one in damage:
        if group and group[-1].position + group[-1].length != one.position:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _why(one: Damage, file: FileReport) -> str:
    """The reason with the expected and found value, or with the zeros that the range begins with (a page that was never
    written, or wiped)."""
    zeros = dict(file.zeros).get(one.position, 0)
    if zeros:
        return f"{'all zeros' if zeros == one.length else f'begins with {zeros} zero bytes'} [{one.reason}]"
    text = comparison(one.reason, {"expected": one.expected, "found": one.found, "detail": one.cause})
    return f"{one.reason}: {text}" if text else one.reason


# ---- findings


@dataclass(frozen=True)
class FindingTable:
    """Findings in order."""

    findings: Sequence[Finding]

    def text(self) -> Iterator[str]:
        for one in self.findings:
            file = _file_name(one)
            place = f" at byte {one.position}" if one.position is not None else ""
            where = f"{file}{place}: " if file or place else ""
            times = f" ({one.count} times)" if one.count > 1 else ""
            yield safe(f"  {one.severity:<8} {where}{one.detail}{times} [{one.kind}]") + "\n"

    def html(self) -> Iterator[str]:
        columns = [
            ("severity", [one.severity for one in self.findings]),
            ("file", [_file_name(one) for one in self.findings]),
            ("byte", ["-" if one.position is None else str(one.position) for one in self.findings]),
            ("offset", ["-" if one.offset is None else str(one.offset) for one in self.findings]),
            ("times", [str(one.count) for one in self.findings]),
            ("finding", [f"{one.detail} [{one.kind}]" for one in self.findings]),
            ("what to do", [KINDS[one.kind].advice for one in self.findings]),
        ]
        return ReportTable(columns).html()


def _findings(findings: Iterable[Finding], limit: int, limits: ReportLimits) -> Iterator[Block]:
    found = sorted(findings, key=_by_severity)
    if found:
        yield FindingTable(found[:limit])
    if len(found) > limit:
        yield f"  and {limits.more(len(found) - limit, 'finding')}"


def _by_severity(one: Finding) -> int:
    return SEVERITIES.index(one.severity)


def _file_name(one: Finding) -> str:
    """The name of a finding's file within its folder; empty: it is not about one file."""
    parts = 2 if one.kind == "batches_left_out" else 1  # lost+found/#12345
    return "" if one.file is None else "/".join(one.file.split("/")[-parts:])


def _it_or_them(count: int) -> str:
    return "it" if count == 1 else "them"
