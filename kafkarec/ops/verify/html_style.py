"""The CSS of the report's maps and words; colours and everything else are those of support/html_page.py."""

from .report_data import DAMAGED, GOOD, PREALLOCATED, TAIL, UNREADABLE

STATES = (GOOD, DAMAGED, UNREADABLE, PREALLOCATED, TAIL)
_WORDS = {"ok": "good", "damaged": "damaged", "error": "unreadable", "anomaly": "anomaly", "note": "note"}
STYLE = (
    """svg { display: block; width: 100%; height: 22px; border-radius: 4px; background: var(--line); }
td.map { width: 30%; min-width: 160px; } td.map svg { height: 14px; margin-top: 4px; }
rect:hover { opacity: .75; }
.scale { display: flex; justify-content: space-between; color: var(--soft); font-size: .75rem; margin: 2px 0 0; }
h2 b { font-size: .8rem; margin-left: 8px; }
"""
    + "".join(
        f"i.{state} {{ background: var(--{state}); }} rect.{state} {{ fill: var(--{state}); }}\n" for state in STATES
    )
    + "".join(f"b.{word} {{ color: var(--{colour}); }}\n" for word, colour in _WORDS.items())
)
