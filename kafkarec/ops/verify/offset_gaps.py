"""Explanations of gaps in a log's offsets. The first rule that applies is used:

lost         the gap is next to damage, or in a log that was never cleaned
aborted      it is within a transaction that a .txnindex lists as aborted: the cleaner removes such data at once
control      it is one offset after a transaction's data: a marker, which the cleaner removes after its delete horizon
compacted    the log was cleaned
unexplained  it is not known whether the log was ever cleaned
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafkarec.support.text_table import counted

from .offset_checks import Gap

CAUSES = ("lost", "aborted", "control", "compacted", "unexplained")


def explain(gaps: Iterable[Gap], aborted: Sequence[tuple[int, int]], compacted: bool | None) -> list[Gap]:
    """The gaps, each with its `why`.

    aborted     (first, last) offsets of aborted transactions
    compacted   whether the log was cleaned; None: not known
    """

    def why(gap: Gap) -> str:
        if gap.next_to_damage or compacted is False:
            return "lost"
        if any(first <= gap.first and gap.last <= last for first, last in aborted):
            return "aborted"
        if gap.after_transaction and gap.length == 1:
            return "control"
        return "compacted" if compacted else "unexplained"

    return [replace(gap, why=why(gap)) for gap in gaps]


def gap_summary(gaps: Sequence[Gap]) -> str:
    """A text such as `3 gaps: 2 compacted (40 offsets), 1 lost (7 offsets)`."""
    counts: Counter[str] = Counter()
    offsets: Counter[str] = Counter()
    for gap in gaps:
        counts[gap.why] += 1
        offsets[gap.why] += gap.length
    parts = [f"{counts[why]} {why} ({counted(offsets[why], 'offset')})" for why in CAUSES if counts[why]]
    return f"{counted(len(gaps), 'gap')}: {', '.join(parts)}" if parts else "no gaps"
