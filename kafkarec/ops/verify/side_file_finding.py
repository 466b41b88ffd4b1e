"""The findings of the side file checks"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
_LISTED = 5


@dataclass(frozen=True, slots=True)
class SideFileFinding:
    """A finding about one file.

    severity   "error": a reader or a broker that uses the file gets wrong results; "warning": it costs time, or a
               broker corrects it at its next start; "note": different from the log's batches, but harmless
    check      a key of `CHECKS`: what was compared
    file       the file's name
    entry      the entry's number from 0 in a binary file, the line from 1 in a text file; None: the whole file
    expected   value by the batches or the format, as text; None if there is none
    found      value in the file, as text
    sentence   one line, complete without the other fields
    more       how many findings of the same check in the same file are not listed
    """

    severity: str
    check: str
    file: str
    entry: int | None
    expected: str | None
    found: str | None
    sentence: str
    more: int = 0

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence}" + (f" (and {self.more} more like this)" if self.more else "")


# What is compared. The keys are public, like those of errors.REASONS: users' scripts depend on them.
CHECKS = {
    "unreadable": "the file follows its format, and its checksum holds",
    "index_missing": "a segment with one of .index and .timeindex has both",
    "preallocated": "a closed file does not end in zeros made in advance",
    "index_order": "entries of .index rise in offset and position",
    "index_position": "every entry of .index points at the beginning of a batch",
    "index_offset": "that batch holds the entry's offset, and all before it are below",
    "index_append": "the offset is the last one of that batch, not of the whole append that brought it",
    "index_coverage": "the entries of .index reach to the end of the log",
    "time_order": "entries of .timeindex rise in timestamp and do not fall in offset",
    "time_offset": "the offset of an entry of .timeindex lies within the segment",
    "time_largest": "the timestamp is the largest of all batches up to that offset",
    "time_end": "the last entry of a closed .timeindex is the segment's largest timestamp",
    "transaction_missing": "every aborted transaction whose marker is in the segment is in .txnindex",
    "transaction_unknown": "every entry of .txnindex has its ABORT marker in the segment",
    "transaction_differs": "first offset and last stable offset of an entry of .txnindex",
    "producer_differs": "epoch, sequence, offset and open transaction of a producer in .snapshot",
    "producer_unknown": "a producer in .snapshot has batches in the log",
    "epoch_order": "entries of leader-epoch-checkpoint rise in epoch and start offset",
    "epoch_differs": "the leader epoch in each batch is the one the file has for its offset",
    "offset_beyond_log": "an offset in a *-checkpoint file lies within its log",
    "log_missing": "a partition in a *-checkpoint file has a folder",
}


class Findings:
    """Collects findings: of one check in one file the first few are kept, further ones are counted."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], list[SideFileFinding]] = {}

    def add(
        self,
        severity: str,
        check: str,
        file: str,
        sentence: str,
        *,
        entry: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        sides = [None if side is None else str(side) for side in (expected, found)]
        kept = self._kept.setdefault((file, check, severity), [])
        if len(kept) < _LISTED:
            kept.append(SideFileFinding(severity, check, file, entry, sides[0], sides[1], f"{file}: {sentence}"))
        else:
            kept[-1] = replace(kept[-1], more=kept[-1].more + 1)

    def __iter__(self) -> Iterator[SideFileFinding]:
        """Worst first; within one severity in the order of addition."""
        for severity in SEVERITIES:
            for (_, _, kind), kept in self._kept.items():
                if kind == severity:
                    yield from kept

    def __bool__(self) -> bool:
        return bool(self._kept)
