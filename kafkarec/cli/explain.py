"""`kafkarec explain`: every byte of one batch, annotated.

The page has the table of fields and a grid of the bytes, coloured by groups of fields. A row of the grid has 16 bytes,
on a phone 8. What the lines leave out (records, the rest of long fields) is left out there, too. Redacted output has
lengths instead of the bytes of keys, values, headers, compressed data and unreadable parts.
"""

from __future__ import annotations

import argparse
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby, starmap, zip_longest
from typing import Any, NamedTuple, cast

from kafkarec.damage import Restored
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.explain import Explanation, Section, Span, explain, field_groups
from kafkarec.ops.explain.spans import FIELD, SKIPPED
from kafkarec.recover.offset_order import WINDOW
from kafkarec.report import Document, ReportSection, escaped_html
from kafkarec.support.command_line import command
from kafkarec.support.text_table import safe, system_reason

from . import DAMAGED, FINE, input_logs, output_files, shared_options
from .input_logs import shown_name
from .shared_options import CouldNot, InputPath, WrongUse, add_option

DESCRIPTION = """Prints every byte of one batch: hex on the left, the field, its value and its meaning on the
right; for a compressed batch also its decompressed payload. A damaged batch is explained as far as it can be read,
with the byte at which it becomes invalid. Without --at or --offset the first batch is explained."""
EXAMPLES = """examples:
  kafkarec explain orders-0 --offset 4711                the batch that contains offset 4711
  kafkarec explain 00000000000000000000.log --at 16384   the batch at byte 16384 (as reported by verify)
  kafkarec explain orders-0 --redact                     the first batch, without its keys, values and headers
  kafkarec explain orders-0 --html batch.html            a page with every byte in colour"""

_LARGEST_BATCH = (1 << 31) + 12
_SECTOR = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=InputPath, metavar="PATH", help="a file of record batches, a partition folder, or -"
    )
    which = parser.add_argument_group("which batch").add_mutually_exclusive_group()
    add_option(which, "--at POSITION", "the batch at this byte of the file", _position)
    add_option(which, "--offset N", "the batch that contains this offset", int)
    add_option(parser, "--redact", "hide the bytes of keys, values and headers")
    add_option(
        parser,
        "--records N",
        "records to print field by field, or all (default: 5)",
        lambda text: None if text == "all" else shared_options.count(text),
        default=5,
    )
    add_option(parser, "--full", "print all bytes of long fields, not only the first 32")
    shared_options.add_page(parser, "an HTML page with every byte in colour")
    shared_options.add_decompressed_limit(parser)
    shared_options.add_format_and_output(parser)


def _position(text: str) -> int:
    """Parse a byte position, decimal or hexadecimal with 0x."""
    if not re.fullmatch(r"\d{1,18}|0x[0-9a-fA-F]{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a position; write 16384 or 0x4000")
    return int(text, 0)


class BatchRange(NamedTuple):
    """Bytes [position, stop) of a segment that are explained as one batch, and a remark for the output."""

    segment: Any
    position: int
    stop: int
    remark: str = ""


def run(args: argparse.Namespace) -> int:
    with input_logs.open_input(args.path) as opened:
        place = _find_batch(input_logs.one_log(args.path, opened).segments, args)
        name = shown_name(str(place.segment.path))
        data, remark = _bytes_of(place)
        explanation = explain(data, **shared_options.arguments_for(explain, args))
        restored = restored_at(place)
        explanation = replace(explanation, position=place.position)
    first, *others = explanation.sections
    in_header = frozenset(restored.fields if restored else ())
    tables = [
        _FieldTable(first, place.position, args.redact, args.full, in_header),
        *(_FieldTable(section, 0, args.redact, args.full) for section in others),
    ]
    head = {
        "file": name,
        "position": explanation.position,
        "size": explanation.size,
        "headline": explanation.headline,
        "faults": [
            {**fault._asdict(), "section": explanation.sections[fault.section].name} for fault in explanation.faults
        ],
        "restored": restored,
    }
    # only made for JSON, as it has all bytes
    results = (found | {"sections": [table.as_json() for table in tables]} for found in (head,))
    output_files.write_report(args, _document(explanation, restored, name, remark, tables), results)
    return DAMAGED if explanation.faults or restored is not None else FINE


def _bytes_of(place: BatchRange) -> tuple[bytes, str]:
    """Return (bytes, remark). After a read error: the bytes before it."""
    length = min(place.stop - place.position, _LARGEST_BATCH)
    try:
        return place.segment.raw(place.position, length), place.remark
    except OSError as error:
        data = bytearray()
        with suppress(OSError):
            while len(data) < length:
                data += place.segment.raw(place.position + len(data), min(_SECTOR, length - len(data)))
            return bytes(data), place.remark  # smaller reads succeed
        where = f"the file cannot be read at byte {place.position + len(data)} ({system_reason(error)})"
        return bytes(data), f"{where}: only the bytes before it are explained"


def restored_at(place: BatchRange) -> Restored | None:
    """Return what is restored in the header of the batch there. The batches before it are read, too: their offsets and
    leader epochs are compared."""
    segment = place.segment
    recent = deque([0], maxlen=2 * WINDOW)  # some of them may be damaged
    for table in segment.scan_pieces(errors="skip"):
        recent.extend(position for position in table.column("position") if position < place.position)
        if len(table) and table[-1]["position"] >= place.position:
            break
    part = segment.between(recent[0], segment.size)
    with closing(part.stream(errors="skip", columns=[], batch_bytes=1)) as pieces:
        for piece in pieces:
            for one in piece.restored:
                if one.position == place.position:
                    return cast(Restored, one)
            if any(at >= place.position for at in piece.batches.column("position")):
                return None
    return None


def _find_batch(segments: Sequence[Any], args: argparse.Namespace) -> BatchRange:
    """Find the batch of --at or --offset; the first batch without them."""
    segment, at, remark = segments[0], args.at, ""
    if args.offset is not None:
        segment, at = _find_offset(segments, args.offset)
    elif at is None:
        at = 0
    elif len(segments) > 1:
        explain = command("explain", [str(segment.path)], ("--at", at))
        raise WrongUse(f"--at counts the bytes of one file; name it: {explain}")
    elif at >= segment.size:
        raise WrongUse(f"--at {at}: the file ends at byte {segment.size}")
    start, size, stop = 0, 0, int(segment.size)  # the last good frame at or before the position; the first one after it
    tables = (map(table.column, ("position", "size_in_bytes")) for table in segment.scan_pieces(errors="skip"))
    for position, length in chain.from_iterable(starmap(zip, tables)):
        if position > at:
            stop = position
            break
        start, size = position, length
    if start < at < start + size:
        remark = f"byte {at} is inside the batch at byte {start}, whose header is good: --at {start} explains that one"
    return BatchRange(segment, at, stop, remark)


def _find_offset(segments: Sequence[Any], offset: int) -> tuple[Any, int]:
    """Return segment and position of the batch that contains an offset: by its range for magic 2, by the last offset
    for older messages."""
    before, after, hint = None, None, ""
    columns = ("position", "base_offset", "last_offset", "magic")
    for segment in segments:
        for table in segment.scan_pieces(errors="skip"):
            for position, base, last, magic in table.zip_columns(*columns):
                if last < offset:
                    before = last
                elif magic < BATCH_MAGIC or base <= offset:
                    return segment, position
                else:
                    after = base if after is None else min(after, base)
            for one in table.damage:
                behind_start = one.lost_from is None or one.lost_from <= offset
                if not hint and behind_start and (one.lost_to is None or offset <= one.lost_to):
                    explain = command("explain", [str(segment.path)], ("--at", one.position))
                    hint = f"; it may be in the damaged range: {explain}"
    text = f"no batch contains offset {offset}"
    if before is None and after is None:
        raise CouldNot(f"{text}: there is no batch at all")
    text += f": a batch ends with {before} and " if before is not None else ": "
    text += f"the next one begins with {after}" if after is not None else "the log ends there"
    raise CouldNot(text + hint)


# ---- the report


_WIDTH = 8  # bytes per line, and per half of a row on a page
_LINES = 4  # lines per field without --full
_TEXT = 40  # characters printed of a key or value
_MOST_FAULTS = 8
_STYLE = """tr.wrong td { color: var(--damaged); font-weight: 600; }
.bytes { font: 13px/30px ui-monospace, Menlo, Consolas, monospace; margin: 0 0 18px; }
.row { display: flex; flex-wrap: wrap; column-gap: 10px; }
.half { display: grid; grid-template-columns: 54px repeat(8, 36px); margin-bottom: 3px; }
.half b { color: var(--soft); font-weight: 400; font-size: 11px; text-align: right; padding-right: 8px; }
.f { display: contents; }
.f i { background: var(--group); font-style: normal; text-align: center; }
.f.end i:last-child { border-right: 2px solid var(--card); }
.f:hover i { filter: brightness(.9) saturate(1.4); }
.f.wrong i { box-shadow: inset 0 2px var(--damaged), inset 0 -2px var(--damaged); color: var(--ink); }
.g-unread i { background: repeating-linear-gradient(45deg, var(--line) 0 3px, transparent 3px 8px); }
.more { color: var(--soft); margin: 0 0 3px 54px; }
.key i { background: var(--group); border: 1px solid var(--line); }
.fields td:first-child { border-left: 7px solid var(--group); }
.fields .hex, .fields .lines { font-family: ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; }
.fields .hex { white-space: pre; } .fields .lines { font-size: .92em; }
.fields .field { font-weight: 600; }
.fields .field { white-space: nowrap; } .fields .value { min-width: 13em; } .fields td:first-child { width: 1%; }
@media (min-width: 761px) { .half + .half { grid-template-columns: repeat(8, 36px); }
  .half + .half b { display: none; } }
@media (max-width: 760px) { .half { width: 100%; grid-template-columns: 46px repeat(8, minmax(0, 40px)); }
  .fields, .fields tbody { display: block; } .fields thead { display: none; }
  .fields tr { display: flex; flex-wrap: wrap; gap: 0 12px; padding: 8px 0 8px 10px;
    border-left: 7px solid var(--group); border-bottom: 1px solid var(--line); }
  .fields td, .fields td:first-child { border: 0; padding: 0; width: auto; } .fields td:empty { display: none; }
  .fields .field { order: -3; } .fields .value { order: -2; min-width: 0; } .fields .n { order: -1; }
  .fields .hex, .fields .note { width: 100%; }
  .fields .n { margin-left: auto; color: var(--soft); } .fields .n::before { content: "byte "; } }
""" + "".join(f".g-{name} {{ --group: var(--{name}); }}\n" for name in field_groups.GROUPS)


@dataclass(frozen=True)
class _FieldTable:
    """The fields of a section as lines; a page has the grid of its bytes, too.

    absolute   the position of its first byte
    restored   fields that can be restored
    """

    section: Section
    absolute: int
    redact: bool
    full: bool
    restored: frozenset[str] = frozenset()

    def text(self) -> Iterator[str]:
        rows = [(span, self._shown_value(span)) for span in self.section.spans]
        at = max([4, *(len(str(self.absolute + span.start)) for span, _ in rows)])
        name = min(max([5, *(len(span.path) for span, _ in rows)]), 34)
        value = min(max([5, *(len(shown) for _, shown in rows)]), 44)
        lines = [(("byte", "field", "value"), "bytes", "meaning")]
        for span, shown in rows:
            head = (str(self.absolute + span.start), span.path, shown)
            for cell, note in zip_longest(self._hex_lines(span), span.note.split("\n"), fillvalue=""):
                lines.append((head, cell, safe(note)))
                head = ("", "", "")
        for (begin, field, cells), hexes, note in lines:
            line = f"{begin:>{at}}  {hexes:<{3 * _WIDTH - 1}}  {field:<{name}}  {cells:<{value}}  {note}"
            yield f"{line.rstrip()}\n"

    def as_json(self) -> dict[str, Any]:
        """Return one object; bytes are hex, and left out if redacted."""
        spans = []
        for span in self.section.spans:
            shown: dict[str, Any] = {name: getattr(span, name) for name in ("start", "length", "path", "kind")}
            if span.kind != SKIPPED and not self._is_hidden(span):
                shown["hex"] = self.section.data[span.start : span.start + span.length].hex()
            if not isinstance(span.value, bytes):
                shown["value"] = span.value
            spans.append(shown | {"note": span.note, "fault": span.fault})
        return {"name": self.section.name, "size": len(self.section.data), "spans": spans}

    def _shown_length(self, span: Span) -> int:
        """Return how many of the span's bytes are printed."""
        return 0 if span.kind == SKIPPED else span.length if self.full else min(span.length, _WIDTH * _LINES)

    def _hex_lines(self, span: Span) -> list[str]:
        """Return the cells of the column "bytes"."""
        if not span.length:
            return ["(no bytes)"]
        if span.kind == SKIPPED:
            return [f"({span.length} bytes)"]
        if self._is_hidden(span):
            return [f"({span.length} bytes hidden)"]
        most = self._shown_length(span)
        data = self.section.data[span.start : span.start + most]
        lines = [bytes(data[i : i + _WIDTH]).hex(" ") for i in range(0, most, _WIDTH)]
        if most < span.length:
            lines.append(f"and {span.length - most} more bytes")
        return lines

    def html(self) -> Iterator[str]:
        present = {field_groups.group_of(span) for span in self.section.spans if span.length and span.kind != SKIPPED}
        marks = (
            f'<span class="key g-{name}"><i></i>{escaped_html(group.words)}</span>'
            for name, group in field_groups.GROUPS.items()
            if name in present
        )
        yield f'<p class="legend">{" ".join(marks)}</p>\n'
        yield from self._grid_html()
        titles = "<th class=n>byte</th><th>bytes</th><th>field</th><th>value</th><th>meaning</th>"
        yield f'<table class="fields"><thead><tr>{titles}</tr></thead><tbody>\n'
        for span in self.section.spans:
            hexes = "\n".join(self._hex_lines(span))
            note = "\n".join(map(escaped_html, span.note.split("\n")))
            kinds, wrong = "note" + " lines" * ("\n" in note), " wrong" * self._is_wrong(span)
            yield f'<tr class="g-{field_groups.group_of(span)}{wrong}"><td class=n>{self.absolute + span.start}</td>'
            yield f'<td class="hex">{hexes}</td><td class="field">{escaped_html(span.path)}</td>'
            value = escaped_html(self._shown_value(span))
            yield f'<td class="value">{value}</td><td class="{kinds}">{note}</td></tr>\n'
        yield "</tbody></table>\n"

    def _grid_html(self) -> Iterator[str]:
        yield '<div class="bytes">\n'
        cells: list[tuple[Span, int]] = []
        for span in self.section.spans:
            shown = self._shown_length(span)
            for at in range(span.start, span.start + shown):
                cells.append((span, at))
                if len(cells) == 2 * _WIDTH:
                    yield from self._row_html(cells)
                    cells = []
            if shown < span.length:
                yield from self._row_html(cells)
                count = f"{span.length - shown}{' more' * (shown > 0)} bytes"
                yield f'<p class="more">{count}: {escaped_html(span.path)}</p>\n'
                cells = []
        yield from self._row_html(cells)
        yield "</div>\n"

    def _row_html(self, cells: list[tuple[Span, int]]) -> Iterator[str]:
        """A row of the grid, of at most two halves; nothing without cells."""
        if not cells:
            return
        yield '<div class="row">'
        for half in filter(None, (cells[:_WIDTH], cells[_WIDTH:])):
            yield f'<span class="half"><b>{self.absolute + half[0][1]}</b>'
            for span, group in groupby(half, key=lambda cell: cell[0]):
                positions = [at for _, at in group]
                classes = ["f", f"g-{field_groups.group_of(span)}"]
                classes += ["end"] * (positions[-1] == span.start + span.length - 1) + ["wrong"] * self._is_wrong(span)
                value = self._shown_value(span)
                title = "; ".join(filter(None, (f"{span.path}{' = ' * bool(value)}{value}", *span.note.split("\n"))))
                shown = ["··" if self._is_hidden(span) else f"{self.section.data[at]:02x}" for at in positions]
                inside = "".join(f"<i>{cell}</i>" for cell in shown)
                yield f'<span class="{" ".join(classes)}" title="{escaped_html(title)}">{inside}</span>'
            yield "</span>"
        yield "</div>\n"

    def _is_wrong(self, span: Span) -> bool:
        return span.fault is not None or span.path in self.restored

    def _is_hidden(self, span: Span) -> bool:
        """Return whether the span's bytes are hidden."""
        return self.redact and span.kind != FIELD

    def _shown_value(self, span: Span) -> str:
        """Return the cell of the column "value"."""
        if span.value is None:
            return ""
        if not isinstance(span.value, bytes):
            return str(span.value)
        if self.redact:
            return f"{span.length} bytes"
        try:
            decoded = span.value[: 4 * _TEXT].decode()
        except UnicodeDecodeError as error:
            if error.start < len(span.value[: 4 * _TEXT]) - 3 or not error.start:
                return f"{span.length} bytes"
            decoded = span.value[: error.start].decode()
        if not decoded.isprintable():
            return f"{span.length} bytes"
        return f'"{decoded}"' if len(decoded) <= _TEXT else f'"{decoded[:_TEXT]}" ...'


def _document(
    found: Explanation, restored: Restored | None, name: str, remark: str, tables: Sequence[_FieldTable]
) -> Document:
    """Return the report of an explanation, which begins with all faults: what is wrong, and at which byte."""
    sections = []
    for number, table in enumerate(tables):
        title = f"{table.section.name}, {len(table.section.data)} bytes"
        title += "; positions are relative to its start" if number else ""
        sections.append(ReportSection(title, [table], title_in_text=number > 0))
    lead = [remark] if remark else []
    if restored is not None:
        lead.append(f"RESTORED by `salvage` and with `--errors skip`: {restored}")
    elif not found.faults:
        lead.append("no errors found" if found.size else "nothing to explain")
    for fault in found.faults[:_MOST_FAULTS]:
        place = f"byte {fault.position} of the {found.sections[fault.section].name}"
        if not fault.section:
            place = f"byte {found.position + fault.position}"
        lead.append(f"WRONG at {place}, {fault.path}: {fault.detail} [{fault.reason}]")
    if len(found.faults) > _MOST_FAULTS:
        lead.append(f"and {len(found.faults) - _MOST_FAULTS} more, marked WRONG below")
    title = f"{name}, byte {found.position}: {found.headline}"
    state = "damaged" if found.faults or restored else ""
    return Document("explain", [*lead, *sections], title, state, _STYLE, field_groups.COLOURS)
