"""The report of `explain`: the table of fields and, on a page, a grid of the bytes, coloured by groups of fields.

A row of the grid has 16 bytes, on a phone 8. What the text output leaves out (records, the rest of long fields,
redacted bytes) is left out here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from kafkarec.damage import Restored
from kafkarec.ops.explain import Explanation, Span, field_groups
from kafkarec.ops.explain.spans import SKIPPED
from kafkarec.report import Document, ReportSection
from kafkarec.report import escaped as _text

from .explain_output import FieldLines, hidden, shown_value, verdict

_HALF = 8
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


def document(
    found: Explanation, restored: Restored | None, name: str, remark: str = "", *, redact: bool, full: bool
) -> Document:
    """Return the report of an explanation."""
    sections = []
    for number, section in enumerate(found.sections):
        title = f"{section.name}, {len(section.data)} bytes"
        if number:
            block = FieldTable(section, 0, redact, full)
            sections.append(ReportSection(f"{title}; positions are relative to its start", [block]))
        else:
            block = FieldTable(section, found.position, redact, full, frozenset(restored.fields if restored else ()))
            sections.append(ReportSection(title, [block], title_in_text=False))
    lead = [*filter(None, [remark]), *verdict(found, restored)]
    title = f"{name}, byte {found.position}: {found.headline}"
    state = "damaged" if found.faults or restored else ""
    return Document("explain", [*lead, *sections], title, state, _STYLE, field_groups.COLOURS)


@dataclass(frozen=True)
class FieldTable(FieldLines):
    """The fields of a section; the page has the grid of its bytes, too. restored: fields that can be restored"""

    restored: frozenset[str] = frozenset()

    def html(self) -> Iterator[str]:
        present = {field_groups.group_of(span) for span in self.section.spans if span.length and span.kind != SKIPPED}
        marks = (
            f'<span class="key g-{name}"><i></i>{_text(group.words)}</span>'
            for name, group in field_groups.GROUPS.items()
            if name in present
        )
        yield f'<p class="legend">{" ".join(marks)}</p>\n'
        yield from self._grid()
        yield from self._table()

    def _grid(self) -> Iterator[str]:
        yield '<div class="bytes">\n'
        cells: list[tuple[Span, int]] = []
        for span in self.section.spans:
            shown = self.shown_bytes(span)
            for at in range(span.start, span.start + shown):
                cells.append((span, at))
                if len(cells) == 2 * _HALF:
                    yield from self._row(cells)
                    cells = []
            if shown < span.length:
                yield from self._row(cells)
                yield f'<p class="more">{span.length - shown}{" more" * (shown > 0)} bytes: {_text(span.path)}</p>\n'
                cells = []
        yield from self._row(cells)
        yield "</div>\n"

    def _row(self, cells: list[tuple[Span, int]]) -> Iterator[str]:
        """A row of the grid, of at most two halves; nothing without cells."""
        if not cells:
            return
        yield '<div class="row">'
        for half in filter(None, (cells[:_HALF], cells[_HALF:])):
            yield f'<span class="half"><b>{self.absolute + half[0][1]}</b>'
            for span, group in groupby(half, key=lambda cell: cell[0]):
                yield self._field(span, [at for _, at in group])
            yield "</span>"
        yield "</div>\n"

    def _field(self, span: Span, positions: list[int]) -> str:
        """The bytes of a field that are in one half of a row."""
        classes = ["f", f"g-{field_groups.group_of(span)}"]
        classes += ["end"] * (positions[-1] == span.start + span.length - 1) + ["wrong"] * self._is_wrong(span)
        value = shown_value(span, self.redact)
        title = "; ".join(filter(None, (f"{span.path}{' = ' * bool(value)}{value}", *span.note.split("\n"))))
        shown = ["··" if hidden(span, self.redact) else f"{self.section.data[at]:02x}" for at in positions]
        inside = "".join(f"<i>{cell}</i>" for cell in shown)
        return f'<span class="{" ".join(classes)}" title="{_text(title)}">{inside}</span>'

    def _is_wrong(self, span: Span) -> bool:
        return span.fault is not None or span.path in self.restored

    def _table(self) -> Iterator[str]:
        titles = "<th class=n>byte</th><th>bytes</th><th>field</th><th>value</th><th>meaning</th>"
        yield f'<table class="fields"><thead><tr>{titles}</tr></thead><tbody>\n'
        for span in self.section.spans:
            hexes = "\n".join(self.hexes(span))
            note = "\n".join(map(_text, span.note.split("\n")))
            kinds, wrong = "note" + " lines" * ("\n" in note), " wrong" * self._is_wrong(span)
            yield f'<tr class="g-{field_groups.group_of(span)}{wrong}"><td class=n>{self.absolute + span.start}</td>'
            yield f'<td class="hex">{hexes}</td><td class="field">{_text(span.path)}</td>'
            value = _text(shown_value(span, self.redact))
            yield f'<td class="value">{value}</td><td class="{kinds}">{note}</td></tr>\n'
        yield "</tbody></table>\n"
