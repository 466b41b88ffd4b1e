"""A report for people: a summary, one line per partition, the worst partitions in detail, the next commands.

text          fits on one screen; lines that do not fit are counted
everything    the same with all lines
page          with maps of the files, and what to do about each finding
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kafkarec._version import __version__
from kafkarec.damage import Damage, begins_with_zeros, comparison_text, is_unchecked
from kafkarec.errors import REASONS
from kafkarec.report import Block, BytesBar, ColumnOf, Commands, Document, ReportSection, ReportTable, text
from kafkarec.storage import recorded_ends
from kafkarec.support.text_table import NOTHING, byte_size, counted, lost_offsets, noun, safe

from .advice import next_steps
from .finding_kinds import ANOMALY, END, ERROR, KINDS, NOTE, SEVERITIES, kinds_of_subject
from .findings import Finding
from .report_data import (
    DAMAGED,
    GOOD,
    PREALLOCATED,
    READ_FAILURES,
    TAIL,
    UNCHECKED,
    UNREADABLE,
    FileReport,
    PartitionReport,
    ReportData,
)

_END_KINDS = kinds_of_subject(END)


def headline(report: ReportData) -> tuple[str, str]:
    """Whether there is damage, and how much is lost: the state in capitals, and what it is about; what was read."""
    sums = f"{byte_size(report.total('size'))} in {counted(len(report.files), 'file')}"
    if len(report.partitions) > 1:
        sums += f" of {len(report.partitions)} partitions"
    counts = f"{counted(report.total('batches'), 'good batch')}, {counted(report.total('records'), 'record')}"
    if report.largest_record:
        counts += f", the largest of {report.largest_record} bytes"
    rate = report.total("size") / report.seconds / 1e6 if report.seconds > 0.5 else 0
    speed = f" ({rate:.0f} MB/s)" if rate >= 1 else ""
    path = "standard input" if report.path == "-" else safe(report.path)
    if not report.files and report.state != ERROR:
        return f"NOTHING TO VERIFY: {path} contains no segment", ""
    totals = f"{path}: {sums}, {counts}, read in {report.seconds:.1f} s{speed}"
    batches = [one for partition in report.partitions for one in partition.unchecked]
    size = byte_size(sum(one.length for one in batches))
    unchecked = f"{counted(len(batches), 'batch')}, {size}, above a limit or without a library" if batches else ""
    if report.state == "unchecked":
        return f"NOT FULLY CHECKED: {unchecked}; the rest is not damaged", totals
    if report.state in ("damaged", ERROR):
        return _bad_verdict(report, unchecked), totals
    if report.state == ANOMALY:
        anomalies = counted(count_by_severity(report.findings, ANOMALY), "anomaly")
        missing = sum(one.missing_offsets for one in report.partitions)
        gaps = f"{counted(missing, 'offset')} missing between segments: compacted or lost" if missing else ""
        return _joined(f"NOT DAMAGED, with {anomalies} that Kafka accepts without an error", gaps), totals
    if report.total("batches"):
        return "NOT DAMAGED: every checksum is right and every payload can be read", totals
    nothing = "there are no batches"
    if any(one.kind == "preallocated" for one in report.findings):
        nothing = "there are only zeros: the log is empty, or its records are lost; this folder cannot tell which"
    return f"NO BATCHES: nothing is damaged, but {nothing}", totals


def _bad_verdict(report: ReportData, unchecked: str) -> str:
    """Of damage; else of errors, else of what is lost without both, else of files that could not be read."""
    errors = [one for one in report.findings if one.severity == ERROR and one.kind not in _END_KINDS | READ_FAILURES]
    count = count_by_severity(errors, ERROR)
    folders = sorted(str(one.file) for one in report.own_findings if one.kind == "folder_lost")
    beyond = _joined(recorded_ends.lost_folders_text(folders), _beyond_end_text(report.partitions))
    unread = f"{counted(len(report.unread), 'file or folder')} could not be read completely" if report.unread else ""
    is_good = bool(report.total("batches")) and not (unread or unchecked)
    good = "every batch can be read" if is_good else ""
    if report.state == "damaged":
        bad = sum(one.lost_bytes for one in report.partitions)
        places = sum(one.places - len(one.unchecked) for one in report.partitions)
        lost = [f"{counted(places, 'range')}, {byte_size(bad)} lost", *_lost_offsets_texts(report.partitions)]
        state, of_state = "DAMAGED", [", ".join(lost)]
    elif errors and all(one.kind == "header_restored" for one in errors):
        state, of_state = "DAMAGED", [f"header fields of {counted(count, 'batch')}, which can be restored", good]
    elif errors:
        offsets = sum(one.lost_offsets - one.beyond_end for one in report.partitions)
        gaps = f"{counted(offsets, 'offset')} lost{_in_gaps_text(report.partitions, offsets)}" if offsets else ""
        state, of_state = "INCONSISTENT", [counted(count, "error"), good, gaps]
    elif beyond:
        state, of_state = "INCOMPLETE", [good]
    else:
        state, of_state = "COULD NOT READ EVERYTHING", [f"{unread}; the rest is not damaged"]
        unread = ""
    return f"{state}: {_joined(*of_state, beyond, unread, f'not checked: {unchecked}' if unchecked else '')}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _beyond_end_text(partitions: Sequence[PartitionReport]) -> str:
    """What the highest recorded end of a log means, and how many other logs have one; empty: there is none."""
    ended = sorted((one for one in partitions if one.end.higher), key=lambda one: one.end.rank)
    if not ended:
        return ""
    where = f" ({ended[0].name})" if len(partitions) > 1 else ""
    more = f"; the same in {counted(len(ended) - 1, 'more partition')}" if len(ended) > 1 else ""
    return f"{ended[0].end.headline}{where}{more}"


def _lost_offsets_texts(partitions: Sequence[PartitionReport]) -> list[str]:
    """The offsets lost by damage and in gaps, without those above a log's end, which `_beyond_end_text` counts."""
    spans = {(one.file, one.lost_from, one.lost_to): one for partition in partitions for one in partition.lost_ranges}
    known = sum(one.lost_offsets - one.beyond_end for one in partitions)
    in_gaps = _in_gaps_text(partitions, known)
    counted_above = [one for one in partitions if one.beyond_end]
    open_end = any(one.lost_at_an_end for one in partitions if one not in counted_above)
    if len(spans) == 1 and not in_gaps and (open_end or not counted_above):
        return [lost_offsets_text(*spans.values())]
    if not known:
        return ["the number of lost offsets is not known"] if open_end else []
    more = ", and at a log's start or end a number that is not known" if open_end else ""
    return [f"at most {counted(known, 'offset')}{in_gaps}{more}"]


def _in_gaps_text(partitions: Sequence[PartitionReport], lost: int) -> str:
    """How many of the lost offsets are missing without damaged bytes; empty: none."""
    missing = sum(one.missing_offsets for one in partitions)
    if missing == lost:
        return f" in {'a gap' if missing == 1 else 'gaps'}" if missing else ""
    return f", {missing} of them in gaps" if missing else ""


def count_by_severity(findings: Sequence[Finding], severity: str) -> int:
    """The number of positions of the findings of a severity."""
    return sum(one.count for one in findings if one.severity == severity)


def lost_offsets_text(one: Damage) -> str:
    """The offsets that a damage may have lost."""
    words = lost_offsets(one.lost_from, one.lost_to)
    if is_unchecked(one.reason):
        return f"{words} not checked"
    return words if one.lost_from is one.lost_to is None else f"{words} lost"


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
        printed = "" if self.files else f": --all prints {noun(count, 'it')}"
        return f"{count} more {noun(count, what)}{suffix}{printed}"


_SCREEN = ReportLimits(10, 3, 14, 28)
_ALL = ReportLimits(*[1 << 30] * 4)
_PAGE = ReportLimits(200, 100, 200, 1 << 30, 12)


def document(report: ReportData, everything: bool = False, page: bool = False) -> Document:
    """The report with as much as a screen, a page, or everything."""
    limits = _PAGE if page else _ALL if everything else _SCREEN
    head, totals = headline(report)
    is_alone = len(report.partitions) == 1
    sections = []
    if len(report.partitions) > 1:
        rows, rest = report.partitions[: limits.partitions], report.partitions[limits.partitions :]
        times = Counter(one.name for one in report.partitions)
        titles: dict[str, ColumnOf[PartitionReport]] = {
            "partition": lambda one: one.name if times[one.name] == 1 else one.path
        }
        bars = [_bar(one.files) for one in rows]
        blocks: list[Block] = [ReportTable.of(rows, titles | _OF_PARTITION, bars=("map", bars))]
        if rest:
            bad = sum(one.state != "ok" for one in rest)
            how = "all ok" if len(rest) > 1 else "ok"
            if bad:
                how = f"{bad} of them not ok" if len(rest) > 1 else "not ok"
            blocks.append(f"and {len(rest)} more, {how}: --all prints {noun(len(rest), 'it')}")
        sections.append(ReportSection("Partitions, worst first", blocks, title_in_text=False))
    shown = [one for one in report.partitions if limits is _ALL or one.state != "ok" or is_alone]
    lines = max(min(limits.lines, limits.all_lines // max(min(len(shown), limits.in_detail), 1) - 4), 4)
    with_notes = is_alone or limits is not _SCREEN
    sections += [_partition_section(one, lines, with_notes, limits) for one in shown[: limits.in_detail]]
    if len(shown) > limits.in_detail:
        more = limits.more(len(shown) - limits.in_detail, "partition", " with findings")
        sections.append(ReportSection("More", [f"and {more}"], title_in_text=False))
    own = list(_finding_blocks(report.own_findings, limits.lines, limits))
    sections.append(ReportSection("The data folder", own, title_in_text=False))
    steps = next_steps(report)
    to_do: list[Block] = ["", Commands("next", [("", step) for step in steps])] if steps else []
    details = [section for section in sections if section.blocks]
    lead = [totals] if totals else []
    blocks = [*lead, *to_do, *details] if page else [*lead, *details, *to_do]
    return Document("verify", blocks, head, report.state)


def _partition_section(one: PartitionReport, lines: int, with_notes: bool, limits: ReportLimits) -> ReportSection:
    blocks: list[Block] = []
    damaged = [file for file in one.files if file.places]
    files = damaged
    if limits.files:
        few = len(one.files) <= limits.files
        files = [file for file in one.files if few or file.places or file.findings]
        files.sort(key=lambda file: not file.places)
    most = max(lines // 6, 1)
    for file in files[:most]:
        blocks += [
            "",
            _file_map(file),
            *_damage_blocks(file, max(lines // max(min(len(damaged), 2), 1) - 3, 2), limits),
        ]
    if limits.files and len(one.files) > len(files[:most]):
        without = "" if len(files) > most else ", without findings"
        blocks.append(f"{counted(len(one.files) - len(files[:most]), 'more file')}{without}")
    elif len(files) > most:
        blocks.append(f"  and {limits.more(len(files) - most, 'damaged file')}")
    findings = [found for found in one.findings if with_notes or found.severity != NOTE]
    if not limits.files:  # those of one kind in several files are joined to the first one, except errors
        together: dict[tuple[object, ...], Finding] = {}
        for each in sorted(findings, key=_by_severity):
            key = (each.kind, each.severity, each.file if each.severity == ERROR else None)
            old = together.get(key)
            together[key] = each if old is None else replace(old, count=old.count + each.count)
        findings = list(together.values())
    found = list(_finding_blocks(findings, lines, limits))
    blocks += ["", *found] if found else []
    title = f"{one.name} ({one.path})" if one.name != one.path else one.path
    return ReportSection(title, blocks, state=one.state)


_OF_PARTITION: dict[str, ColumnOf[PartitionReport]] = {
    "state": lambda one: one.state.upper() if one.state == "damaged" else one.state,
    "files": lambda one: len(one.files),
    "bytes": lambda one: byte_size(one.total("size")),
    "records": lambda one: one.total("records"),
    "ranges": lambda one: one.places or None,
    "bytes lost": lambda one: one.lost_bytes or None,
    # an upper bound: `45`, or `45+` with damage at its start or end
    "offsets lost": lambda one: (
        f"{one.lost_offsets}{'+' * one.lost_at_an_end}"
        if one.lost_at_an_end or one.lost_bytes or one.lost_offsets
        else NOTHING
    ),
    "errors": lambda one: count_by_severity(one.findings, ERROR) or None,
    "anomalies": lambda one: count_by_severity(one.findings, ANOMALY) or None,
}


# ---- files


def _bar(files: Iterable[FileReport], line: str = "", **options: Any) -> BytesBar:
    """The bytes of files, one after another."""
    return BytesBar(line, [(one.state, one.length) for file in files for one in file.ranges], **options)


def _file_map(file: FileReport) -> BytesBar:
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


def _damage_blocks(file: FileReport, limit: int, limits: ReportLimits) -> Iterator[Block]:
    """The damaged ranges of a file: adjacent damage, without good batches between, has lost the same offsets."""
    if not file.damage:
        return
    groups: list[list[Damage]] = []
    for one in file.damage:
        if groups and groups[-1][-1].position + groups[-1][-1].length == one.position:
            groups[-1].append(one)
        else:
            groups.append([one])
    del groups[limit - 1 :]
    lines, rows = [], []
    for first, *more in groups:
        begin, last = first.position, (first, *more)[-1]
        end = last.position + last.length
        lost, why = lost_offsets_text(first), first.reason
        sides = comparison_text(first.reason, {"expected": first.expected, "found": first.found, "detail": first.cause})
        if begins_with_zeros(first.reason, first.found):
            why = f"zeros [{first.reason}]"
        elif sides:
            why = f"{first.reason}: {sides}"
        span = f"byte {begin}" if end == begin + 1 else f"bytes {begin} to {end - 1}"
        lines.append(f"    {span}: {lost}; {why}" + (f", and {len(more)} more within" if more else ""))
        sentence = REASONS[first.reason].sentence
        rows.append((str(begin), str(end - begin), lost, sentence, why, str(len(more) or NOTHING)))
    titles = ("first byte", "bytes", "offsets", "what is wrong", "details", "more within")
    yield ReportTable(list(zip(titles, zip(*rows, strict=True), strict=True)), lines=lines)
    rest = file.places - sum(map(len, groups))
    if rest:
        yield f"    and {limits.more(rest, 'range')}"


# ---- findings


def _finding_blocks(findings: Iterable[Finding], limit: int, limits: ReportLimits) -> Iterator[Block]:
    found = sorted(findings, key=_by_severity)
    lines = []
    for one in found[:limit]:
        file, place = _file_name(one), "" if one.position is None else f" at byte {one.position}"
        where = f"{file}{place}: " if file or place else ""
        times = f" ({one.count} times)" if one.count > 1 else ""
        lines.append(f"  {one.severity:<8} {where}{one.detail}{times} [{one.kind}]")
    if found:
        yield ReportTable.of(found[:limit], _OF_FINDING, lines=lines)
    if len(found) > limit:
        yield f"  and {limits.more(len(found) - limit, 'finding')}"


def _by_severity(one: Finding) -> int:
    return SEVERITIES.index(one.severity)


def _file_name(one: Finding) -> str:
    """The name of a finding's file within its folder, the path of what cannot be listed; empty: it is not about one."""
    if one.kind == "unreadable_folder" and one.file is not None:
        return one.file
    parts = 2 if one.kind == "batches_left_out" else 1  # lost+found/#12345
    return "" if one.file is None else "/".join(one.file.split("/")[-parts:])


_OF_FINDING: dict[str, ColumnOf[Finding]] = {
    "severity": "severity",
    "file": _file_name,
    "byte": "position",
    "offset": "offset",
    "times": "count",
    "finding": lambda one: f"{one.detail} [{one.kind}]",
    "what to do": lambda one: KINDS[one.kind].advice,
}


class Report(ReportData):
    """The result of `kafkarec.verify`. `print(report)` prints the text of the command line; `.to_dict()` is for JSON.

    path: str                     the verified path
    partitions                    one PartitionReport per log, worst first
    own_findings                  findings about a data folder as a whole
    seconds: float                duration
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """All data as dicts, lists, strings and numbers. next: the commands that the text ends with."""
        return {"kafkarec": __version__, **super().to_dict(), "next": next_steps(self)}

    def __str__(self) -> str:
        return "".join(text(document(self)))
