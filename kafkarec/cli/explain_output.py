"""The lines and the JSON of `explain`: bytes in hex on the left, the field, its value and its meaning on the right.

Redacted output has lengths instead of the bytes of keys, values, headers, compressed data and unreadable parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kafkarec.damage import Restored
from kafkarec.ops.explain import Explanation, Section, Span
from kafkarec.ops.explain.spans import FIELD, SKIPPED
from kafkarec.support.text_table import safe

_WIDTH = 8  # bytes per line
_LINES = 4  # lines per field without --full
_TEXT = 40  # characters printed of a key or value
_MOST_FAULTS = 8


def verdict(found: Explanation, restored: Restored | None) -> Iterator[str]:
    """Yield the lines of all faults: what is wrong, and at which byte."""
    if restored is not None:
        yield f"RESTORED by `salvage` and with `--errors skip`: {restored}"
    elif not found.faults:
        yield "no errors found" if found.size else "nothing to explain"
    for fault in found.faults[:_MOST_FAULTS]:
        place = f"byte {fault.position} of the {found.sections[fault.section].name}"
        if not fault.section:
            place = f"byte {found.position + fault.position}"
        yield f"WRONG at {place}, {fault.path}: {fault.detail} [{fault.reason}]"
    if len(found.faults) > _MOST_FAULTS:
        yield f"and {len(found.faults) - _MOST_FAULTS} more, marked WRONG below"


def hidden(span: Span, redact: bool) -> bool:
    """Return whether the span's bytes are hidden."""
    return redact and span.kind != FIELD


@dataclass(frozen=True)
class FieldLines:
    """The fields of a section as lines. absolute: the position of its first byte."""

    section: Section
    absolute: int
    redact: bool
    full: bool

    def text(self) -> Iterator[str]:
        rows = [(span, shown_value(span, self.redact)) for span in self.section.spans]
        at = max([4, *(len(str(self.absolute + span.start)) for span, _ in rows)])
        name = min(max([5, *(len(span.path) for span, _ in rows)]), 34)
        value = min(max([5, *(len(shown) for _, shown in rows)]), 44)
        lines = [(("byte", "field", "value"), "bytes", "meaning")]
        for span, shown in rows:
            head = (str(self.absolute + span.start), span.path, shown)
            for cell, note in zip_longest(self.hexes(span), span.note.split("\n"), fillvalue=""):
                lines.append((head, cell, safe(note)))
                head = ("", "", "")
        for (begin, field, cells), hexes, note in lines:
            line = f"{begin:>{at}}  {hexes:<{3 * _WIDTH - 1}}  {field:<{name}}  {cells:<{value}}  {note}"
            yield f"{line.rstrip()}\n"

    def shown_bytes(self, span: Span) -> int:
        """Return how many of the span's bytes are printed."""
        return 0 if span.kind == SKIPPED else span.length if self.full else min(span.length, _WIDTH * _LINES)

    def hexes(self, span: Span) -> list[str]:
        """Return the cells of the column "bytes"."""
        if not span.length:
            return ["(no bytes)"]
        if span.kind == SKIPPED:
            return [f"({span.length} bytes)"]
        if hidden(span, self.redact):
            return [f"({span.length} bytes hidden)"]
        most = self.shown_bytes(span)
        data = self.section.data[span.start : span.start + most]
        lines = [bytes(data[i : i + _WIDTH]).hex(" ") for i in range(0, most, _WIDTH)]
        if most < span.length:
            lines.append(f"and {span.length - most} more bytes")
        return lines


def shown_value(span: Span, redact: bool) -> str:
    """Return the cell of the column "value"."""
    if span.value is None:
        return ""
    if not isinstance(span.value, bytes):
        return str(span.value)
    if redact:
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


def result(found: Explanation, restored: Restored | None, name: str, *, redact: bool) -> dict[str, Any]:
    """Return one object; bytes are hex, and left out if redacted."""
    return {
        "file": name,
        "position": found.position,
        "size": found.size,
        "headline": found.headline,
        "faults": [
            {
                "section": found.sections[fault.section].name,
                "position": fault.position,
                "path": fault.path,
                "reason": fault.reason,
                "detail": fault.detail,
            }
            for fault in found.faults
        ],
        "restored": restored,
        "sections": [
            {"name": part.name, "size": len(part.data), "spans": [_span(part, span, redact) for span in part.spans]}
            for part in found.sections
        ],
    }


def _span(section: Section, span: Span, redact: bool) -> dict[str, Any]:
    left_out = span.kind == SKIPPED or hidden(span, redact)
    out: dict[str, Any] = {"start": span.start, "length": span.length, "path": span.path, "kind": span.kind}
    if not left_out:
        out["hex"] = bytes(section.data[span.start : span.start + span.length]).hex()
    if not isinstance(span.value, bytes):
        out["value"] = span.value
    return out | {"note": span.note, "fault": span.fault}
