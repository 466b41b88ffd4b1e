"""A report as one HTML page: maps of the files' bytes, the findings, the next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkarec.damage import Damage
from kafkarec.errors import REASONS
from kafkarec.support import html_page
from kafkarec.support.html_page import text as _text
from kafkarec.support.text_table import byte_size, counted, noun

from . import advice
from .finding_kinds import ERROR, KINDS, SEVERITIES
from .findings import Finding
from .html_style import STATES, STYLE
from .report import Report
from .report_data import GOOD, ByteRange, FileReport, PartitionReport
from .report_text import expected_and_found, file_name, lost_offsets_short, offsets, summary, zeros_text

_WIDTH = 1000
_MIN_WIDTH = 3
_MAX_RANGES = 400
_MAX_ROWS = 200
_MAX_SECTIONS = 100
_FEW_FILES = 12


def render(report: Report) -> Iterator[str]:
    """The page in pieces."""
    head, *details = summary(report).split("\n")
    return html_page.page(head, _body(report, head, details), STYLE)


def _body(report: Report, head: str, details: Sequence[str]) -> Iterator[str]:
    yield f'<header class="{report.state}">\n<p class="kicker">kafkarec verify</p>\n<h1>{_text(head)}</h1>\n'
    yield f"<p>{_text(' '.join(details))}</p>\n</header>\n"
    yield from _next(report)
    yield _legend()
    if len(report.partitions) > 1:
        yield from _overview(report.partitions)
    shown = [one for one in report.partitions if one.state != "ok" or len(report.partitions) == 1]
    for number, one in enumerate(shown[:_MAX_SECTIONS]):
        yield from _section(one, number)
    if len(shown) > _MAX_SECTIONS:
        yield f"<p>{_more(len(shown) - _MAX_SECTIONS, 'partition')} with findings: in --format json.</p>\n"
    if report.own_findings:
        yield "<section><h2>The data folder</h2>\n"
        yield from _findings(report.own_findings)
        yield "</section>\n"


def _next(report: Report) -> Iterator[str]:
    steps = advice.next_steps(report)
    if steps:
        yield '<section class="next"><h2>What to do next</h2>\n<pre>'
        yield "\n".join(map(_text, steps))
        yield "</pre></section>\n"


def _legend() -> str:
    marks = "".join(f'<span class="key"><i class="{state}"></i>{state}</span>' for state in STATES)
    return f'<p class="legend">{marks}<span>each bar is a file from its first to its last byte</span></p>\n'


def _overview(partitions: Sequence[PartitionReport]) -> Iterator[str]:
    yield "<section><h2>Partitions, worst first</h2>\n<div class='wide'><table>\n<thead><tr>"
    titles = ("partition", "state", "map", "files", "bytes", "records", "ranges", "bytes lost", "offsets lost")
    yield "".join(f"<th{' class=n' if at > 2 else ''}>{title}</th>" for at, title in enumerate(titles))
    yield "</tr></thead>\n<tbody>\n"
    for one in partitions[:_MAX_ROWS]:
        numbers = (
            len(one.files),
            byte_size(one.total("size")),
            one.total("records"),
            one.places or "",
            one.lost_bytes or "",
            lost_offsets_short(one),
        )
        cells = "".join(f"<td class=n>{_text(number)}</td>" for number in numbers)
        drawn = svg_map(list(_concatenated(one.files)), one.total("size"))
        yield f'<tr><td>{_text(one.name)}</td><td><b class="{one.state}">{one.state}</b></td>'
        yield f"<td class=map>{drawn}</td>{cells}</tr>\n"
    yield "</tbody></table></div>\n"
    if len(partitions) > _MAX_ROWS:
        yield f"<p>{len(partitions) - _MAX_ROWS} more, none of them worse.</p>\n"
    yield "</section>\n"


def _concatenated(files: Iterable[FileReport]) -> Iterator[ByteRange]:
    """Yields the ranges of all files of a partition as if the files were concatenated."""
    start = 0
    for file in files:
        for one in file.ranges:
            yield ByteRange(one.state, start + one.position, one.length)
        start += file.size


def _section(one: PartitionReport, number: int) -> Iterator[str]:
    yield f'<section id="p{number}"><h2>{_text(one.name)} <b class="{one.state}">{one.state}</b></h2>\n'
    yield f"<p class=path>{_text(one.path)}</p>\n"
    files = one.files if len(one.files) <= _FEW_FILES else [file for file in one.files if file.places or file.findings]
    shown = sorted(files, key=lambda file: not file.places)[:_MAX_ROWS] if len(files) > _MAX_ROWS else files
    for file in shown:
        yield f"<h3>{_text(file.name)} <small>{_text(_sums(file))}</small></h3>\n"
        yield f"<div class=file>{svg_map(file.ranges, file.size)}</div>\n"
        if file.size:
            yield f"<p class=scale><span>0</span><span>{file.size}</span></p>\n"
        if file.damage:
            yield from _damage(file)
    if len(one.files) > len(shown):
        none = "" if len(files) > _MAX_ROWS else ", without findings"
        yield f"<p>{_more(len(one.files) - len(shown), 'file')}{none}.</p>\n"
    yield from _findings(one.findings)
    yield "</section>\n"


def _sums(file: FileReport) -> str:
    span = "no offsets"
    if file.first_offset is not None and file.next_offset is not None:
        span = f"offsets {file.first_offset} to {file.next_offset - 1}"
    return f"{byte_size(file.size)}, {counted(file.batches, 'good batch')}, {counted(file.records, 'record')}, {span}"


def svg_map(ranges: Sequence[ByteRange], size: int) -> str:
    """A file as a row of SVG rectangles. Ranges that are not good are drawn last and at least `_MIN_WIDTH` wide."""
    if not size:
        return "<span class=none>empty</span>"
    drawn_ranges = sorted(
        ranges if len(ranges) <= _MAX_RANGES else _joined_in_cells(ranges, size), key=lambda one: one.state != GOOD
    )
    rects = [f'<rect class="{GOOD}" width="{_WIDTH}" height="20"/>'] if len(ranges) > _MAX_RANGES else []
    for one in drawn_ranges:
        width = max(one.length * _WIDTH / size, _MIN_WIDTH)
        at = min(one.position * _WIDTH / size, _WIDTH - width)
        title = f"{one.state}: bytes {one.position} to {one.position + one.length - 1} ({byte_size(one.length)})"
        rects.append(
            f'<rect class="{one.state}" x="{at:.2f}" width="{width:.2f}" height="20"><title>{title}</title></rect>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} 20" preserveAspectRatio="none" role="img">{"".join(rects)}</svg>'


def _joined_in_cells(ranges: Sequence[ByteRange], size: int) -> list[ByteRange]:
    """The ranges that are not good, joined if they are within one cell of the map."""
    found: list[ByteRange] = []
    for one in ranges:
        if one.state == GOOD:
            continue
        last = found[-1] if found else None
        if last and last.state == one.state and (one.position - last.position) * _MAX_RANGES < size:
            found[-1] = ByteRange(last.state, last.position, one.position + one.length - last.position)
        else:
            found.append(one)
    return found


def _damage(file: FileReport) -> Iterator[str]:
    titles = "<th class=n>first byte</th><th class=n>bytes</th><th>offsets</th><th>reason</th><th>detail</th>"
    yield f"<div class='wide'><table><thead><tr>{titles}</tr></thead><tbody>\n"
    for one in file.damage[:_MAX_ROWS]:
        yield f"<tr><td class=n>{one.position}</td><td class=n>{one.length}</td><td>{_text(offsets(one))}</td>"
        yield f"<td><code>{_text(one.reason)}</code></td><td>{_text(_reason_text(one, file))}</td></tr>\n"
    yield "</tbody></table></div>\n"
    if file.places > _MAX_ROWS:
        yield f"<p>{_more(file.places - _MAX_ROWS, 'place')}.</p>\n"


def _reason_text(one: Damage, file: FileReport) -> str:
    """The reason's sentence with the expected and found value, or with a text about zeros; without the position."""
    text = zeros_text(one, file) or expected_and_found(one)
    return f"{REASONS[one.reason].sentence}: {text}" if text else REASONS[one.reason].sentence


def _more(count: int, what: str) -> str:
    return f"{count} more {noun(count, what)}"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    ordered = sorted(findings, key=lambda one: SEVERITIES.index(one.severity))
    yield "<div class='wide'><table><thead><tr><th>severity</th><th>file</th><th class=n>byte</th>"
    yield "<th class=n>offset</th><th class=n>times</th><th>finding</th><th>what to do</th></tr></thead><tbody>\n"
    for one in ordered[:_MAX_ROWS]:
        state = "error" if one.severity == ERROR else one.severity
        place = "".join(f"<td class=n>{'' if n is None else n}</td>" for n in (one.position, one.offset, one.count))
        yield f'<tr><td><b class="{state}">{state}</b></td><td>{_text(file_name(one))}</td>{place}'
        yield f"<td>{_text(one.detail)} <code>{one.kind}</code></td><td>{_text(KINDS[one.kind].advice)}</td></tr>\n"
    yield "</tbody></table></div>\n"
    if len(ordered) > _MAX_ROWS:
        yield f"<p>{_more(len(ordered) - _MAX_ROWS, 'finding')}.</p>\n"
