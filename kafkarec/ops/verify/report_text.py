"""A report as text: a summary, one line per partition, the worst ones in detail, the next commands.

It fits on one screen; what does not fit is counted, and `everything` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkarec.damage import Damage
from kafkarec.support.text_table import lost_offsets, safe
from kafkarec.support.text_table import render as laid_out

from . import advice
from .finding_kinds import ANOMALY, ERROR, NOTE, SEVERITIES
from .findings import Finding, counted
from .report_data import DAMAGED, GOOD, PREALLOCATED, TAIL, UNREADABLE, FileReport, PartitionReport, ReportData

MAP_WIDTH = 64
SIGNS = {GOOD: "=", DAMAGED: "X", UNREADABLE: "?", PREALLOCATED: "0", TAIL: "~"}
# The worst state within a cell of a map is shown.
_WORST_FIRST = (UNREADABLE, DAMAGED, TAIL, PREALLOCATED, GOOD)


class LineLimits(NamedTuple):
    """Limits of the text: lines of the partition table, partitions in detail, lines of each."""

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
    """The summary: whether there is damage, and what is lost."""
    sums = f"{amount(report.total('size'))} in {counted(len(report.files), 'file')}"
    if len(report.partitions) > 1:
        sums += f" of {len(report.partitions)} partitions"
    held = f"{counted(report.total('batches'), 'good batch')}, {counted(report.total('records'), 'record')}"
    speed = f" ({report.total('size') / report.seconds / 1e6:.0f} MB/s)" if report.seconds > 0.5 else ""
    told = f"{_named(report)}: {sums}, {held}, read in {report.seconds:.1f} s{speed}"
    if not report.files:
        return f"NOTHING TO VERIFY: {_named(report)} holds no segment"
    if report.state == "damaged":
        bad = report.total("damaged_bytes") + report.total("unreadable_bytes")
        places = sum(one.places for one in report.partitions)
        head = f"DAMAGED: {counted(places, 'place')}, {amount(bad)} lost, {_all_lost(report.partitions)}"
    elif report.exit_status() == 3:
        missed = counted(_count(report.findings, ERROR), "file or folder")
        head = f"COULD NOT READ ALL: {missed}; the rest is not damaged"
    elif report.state == ERROR:
        head = f"NOT RIGHT: every batch can be read, but there {_there(_count(report.findings, ERROR), 'error')}"
        lost = sum(one.lost_offsets for one in report.partitions)
        head += f"; {counted(lost, 'offset')} lost{_apart(report.partitions)}" if lost else ""
    elif report.state == ANOMALY:
        head = f"NOT DAMAGED, with {counted(_count(report.findings, ANOMALY), 'oddity')} that Kafka reads in silence"
    elif not report.total("batches"):
        head = "NO BATCH: nothing is damaged, and nothing is there"
    else:
        head = "NOT DAMAGED: every checksum holds and every payload can be read"
    return f"{head}\n{told}"


def _named(report: ReportData) -> str:
    return "standard input" if report.path == "-" else safe(report.path)


def _all_lost(partitions: Sequence[PartitionReport]) -> str:
    spans = {(one.file, one.lost_from, one.lost_to): one for partition in partitions for one in partition.damage}
    apart = _apart(partitions)
    if len(spans) == 1 and not apart:
        return offsets(*spans.values())
    known = sum(one.lost_offsets for one in partitions)
    open_end = any(one.lost_at_an_end for one in partitions)
    if not known and open_end:
        return "how many offsets is not known"
    return f"at most {counted(known, 'offset')}{apart}" + (", and those at a log's end" if open_end else "")


def _apart(partitions: Sequence[PartitionReport]) -> str:
    """The part of the lost offsets that has no damaged bytes."""
    missing = sum(one.missing_offsets for one in partitions)
    beyond = sum(one.beyond_end for one in partitions)
    parts = [f"{missing} in gaps"] if missing else []
    parts += [f"{beyond} above a log's end"] if beyond else []
    return f" ({', '.join(parts)})" if parts else ""


def _count(findings: Sequence[Finding], severity: str) -> int:
    return sum(one.count for one in findings if one.severity == severity)


def _table(partitions: Sequence[PartitionReport], most: int) -> str:
    shown = partitions[:most]

    def lost(one: PartitionReport) -> str:
        return lost_in_short(one) or "-"

    def findings(one: PartitionReport, severity: str) -> str:
        return str(_count(one.findings, severity) or "-")

    columns = [
        ("partition", [one.name for one in shown]),
        ("state", [one.state.upper() if one.state == "damaged" else one.state for one in shown]),
        ("files", [str(len(one.files)) for one in shown]),
        ("bytes", [amount(one.total("size")) for one in shown]),
        ("records", [str(one.total("records")) for one in shown]),
        ("places", [str(one.places or "-") for one in shown]),
        ("bytes lost", [str(one.lost_bytes or "-") for one in shown]),
        ("offsets lost", [lost(one) for one in shown]),
        ("errors", [findings(one, ERROR) for one in shown]),
        ("anomalies", [findings(one, ANOMALY) for one in shown]),
    ]
    rest = partitions[most:]
    text = laid_out(columns)
    if rest:
        bad = sum(one.state != "ok" for one in rest)
        how = (f"{bad} of them not ok" if len(rest) > 1 else "not ok") if bad else "all ok" if len(rest) > 1 else "ok"
        text += f"and {len(rest)} more, {how}: --all prints {_them(len(rest))}\n"
    return text


def _detail(one: PartitionReport, most: int, notes: bool) -> list[str]:
    head = [f"{safe(one.name)} ({safe(one.path)})"] if one.name != one.path else [safe(one.path)]
    lines: list[str] = []
    files = [file for file in one.files if file.places]
    for file in files[: max(most // 6, 1)]:
        lines += ["", *_damage(file, max(most // max(min(len(files), 2), 1) - 3, 2))]
    if len(files) > max(most // 6, 1):
        lines.append(f"  and {_more(len(files) - max(most // 6, 1), 'damaged file')}")
    found = sorted((f for f in one.findings if notes or f.severity != NOTE), key=_by_severity)
    finding_lines = [line for finding in _merged(found) for line in _finding(finding)]
    if finding_lines:
        lines += ["", *finding_lines[:most]]
    if len(finding_lines) > most:
        lines.append(f"  and {_more(len(finding_lines) - most, 'finding')}")
    lines += _gaps(one, most)
    return [*head, *lines] if lines else []


def _gaps(one: PartitionReport, most: int) -> list[str]:
    """Offset gaps with their explanations (only with sequences=True)."""
    lines = []
    for gap in one.gaps[:most]:
        span = f"offset {gap.first}" if gap.length == 1 else f"offsets {gap.first} to {gap.last}"
        lines.append(f"  gap      {span}: {gap.why}")
    if len(one.gaps) > most:
        lines.append(f"  and {_more(len(one.gaps) - most, 'gap')}")
    return ["", *lines] if lines else []


def _merged(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Joins findings of one kind in several files: the first one, with the count of all."""
    together: dict[tuple[str, str], Finding] = {}
    for one in findings:
        old = together.get((one.kind, one.severity))
        if old is None or one.severity == ERROR:
            together[one.kind, one.severity if one.severity != ERROR else f"{ERROR} {len(together)}"] = one
        else:
            together[one.kind, one.severity] = Finding(
                old.kind, old.severity, old.detail, old.file, old.position, old.offset, old.count + one.count, old.more
            )
    yield from together.values()


def _damage(file: FileReport, most: int) -> list[str]:
    lines = [f"  {safe(file.name)}  {amount(file.size)}", f"  |{drawn(file)}|  {legend(file)}"]
    listed = 0
    for group in _in_a_row(file.damage):
        if len(lines) > most:
            break
        first, last = group[0], group[-1]
        end = last.position + last.length - 1
        span = f"byte {end}" if end == first.position else f"bytes {first.position} to {end}"
        why = _why(first, file) + (f", and {len(group) - 1} more up to there" if len(group) > 1 else "")
        lines.append(safe(f"    {span}: {offsets(first)}; {why}"))
        listed += len(group)
    if file.places > listed:
        lines.append(f"    and {_more(file.places - listed, 'place')}")
    return lines


def _in_a_row(damage: Sequence[Damage]) -> Iterator[list[Damage]]:
    """Groups of damage without a good batch between; they have the same lost offsets."""
    group: list[Damage] = []
    for one in damage:
        if group and group[-1].position + group[-1].length != one.position:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _why(one: Damage, file: FileReport) -> str:
    """The reason with expected and found value; the line has the position already."""
    zeros = zeros_of(one, file)
    if zeros:
        return f"{zeros} [{one.reason}]"
    text = sides(one)
    return f"{one.reason}: {text}" if text else one.reason


def zeros_of(one: Damage, file: FileReport) -> str:
    """The text about zeros at the start of the damage (a page that was never written, or wiped); empty without them."""
    zeros = dict(file.zeros).get(one.position, 0)
    if not zeros:
        return ""
    return "all of it is zeros" if zeros == one.length else f"zeros, for {zeros} bytes"


def sides(one: Damage) -> str:
    """The part of a damage's sentence after the position: the expected and the found value."""
    return one.detail.partition(f" at byte {one.position}")[2].partition(": ")[2]


def name_of(one: Finding) -> str:
    """The name of a finding's file within its folder; empty if it is not about one file."""
    parts = 2 if one.kind == "batches_left_out" else 1  # lost+found/#12345
    return "" if one.file is None else "/".join(one.file.split("/")[-parts:])


def _by_severity(one: Finding) -> int:
    return SEVERITIES.index(one.severity)


def _finding(one: Finding) -> list[str]:
    file = name_of(one)
    place = " at byte " + str(one.position) if one.position is not None else ""
    where = f"{file}{place}: " if file or place else ""
    times = f" ({one.count} places)" if one.count > 1 else ""
    return [safe(f"  {one.severity:<8} {where}{one.detail}{times} [{one.kind}]")]


def offsets(one: Damage) -> str:
    """The offsets that a damage may have lost."""
    words = lost_offsets(one.lost_from, one.lost_to)
    return words if one.lost_from is one.lost_to is None else f"{words} lost"


def drawn(file: FileReport, width: int = MAP_WIDTH) -> str:
    """The map of a file: one sign per range of bytes; damage of a single byte is visible."""
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


def amount(count: int) -> str:
    """A number of bytes with a unit."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def lost_in_short(one: PartitionReport) -> str:
    """Upper bound of a partition's lost offsets: `45`, or `45+` with damage at its start or end; empty: none."""
    if one.lost_at_an_end:
        return f"{one.lost_offsets}+"
    return str(one.lost_offsets) if one.places or one.lost_offsets else ""


def _there(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, what)}"


def _more(count: int, what: str, behind: str = "") -> str:
    """`1 more place: --all prints it`, `2 more places: --all prints them`."""
    return f"{count} more {counted(count, what).partition(' ')[2]}{behind}: --all prints {_them(count)}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
