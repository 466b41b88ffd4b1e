"""Explanations of gaps in a log's offsets. The first rule that applies is used:

lost         it is next to damage, or in a log that was never cleaned
aborted      it is within a transaction that a .txnindex lists as aborted: the cleaner removes such data at once
control      one offset after a transaction's data: its marker, which the cleaner removes after its delete horizon
compacted    the log was cleaned
unexplained  it is not known whether the log was ever cleaned
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .findings import counted
from .offset_checks import Gap

WHYS = ("lost", "aborted", "control", "compacted", "unexplained")


def explain(gaps: Iterable[Gap], aborted: Sequence[tuple[int, int]], compacted: bool | None) -> list[Gap]:
    """The gaps with their `why`. aborted: (first, last) offsets of aborted transactions."""

    def why(gap: Gap) -> str:
        if gap.beside_damage or compacted is False:
            return "lost"
        if any(first <= gap.first and gap.last <= last for first, last in aborted):
            return "aborted"
        if gap.behind_transaction and gap.length == 1:
            return "control"
        return "compacted" if compacted else "unexplained"

    return [replace(gap, why=why(gap)) for gap in gaps]


def in_words(gaps: Sequence[Gap]) -> str:
    """`3 gaps: 2 compacted (40 offsets), 1 lost (7 offsets)`"""
    counts: Counter[str] = Counter()
    offsets: Counter[str] = Counter()
    for gap in gaps:
        counts[gap.why] += 1
        offsets[gap.why] += gap.length
    parts = [f"{counts[why]} {why} ({counted(offsets[why], 'offset')})" for why in WHYS if counts[why]]
    return f"{counted(len(gaps), 'gap')}: {', '.join(parts)}" if parts else "no gaps"
