"""The findings of the checks of side files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
_LISTED = 5


@dataclass(frozen=True, slots=True)
class SideFileFinding:
    """A finding about one file.

    severity   "error": a reader or a broker that uses the file gets wrong results; "warning": reading is slower, or a
               broker corrects the file at its next start; "note": it differs from the log's batches, but is harmless
    check      a key of `CHECKS`
    file       the file's name
    entry      the entry's number from 0 in a binary file, the line from 1 in a text file; None: the whole file
    expected   value according to the batches or the format, as text; None: there is none
    found      value in the file, as text
    sentence   one line, complete with the file's name
    more       number of further findings of the same check in the same file
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
        return f"{self.severity}: {self.file}: {self.sentence}" + (
            f" (and {self.more} more like this)" if self.more else ""
        )


# The checks. The keys are public, like those of errors.REASONS: users' scripts depend on them.
CHECKS = {
    "read_failure": "the file can be opened and read",
    "unreadable": "the file follows its format, and its checksum is right",
    "index_missing": "a segment with one of .index and .timeindex has both",
    "preallocated": "the index of a closed segment does not end in preallocated zeros",
    "index_order": "entries of .index ascend in offset and position",
    "index_position": "every entry of .index points at the start of a batch",
    "index_offset": "that batch has the entry's offset, and all earlier batches end below it",
    "index_append": "the offset is the last one of that batch, not of a whole append of several batches",
    "index_coverage": "the entries of .index reach to the end of the log",
    "time_order": "entries of .timeindex ascend in timestamp and do not descend in offset",
    "time_offset": "the offset of an entry of .timeindex is within the segment",
    "time_largest": "the timestamp is the largest of all batches up to that offset",
    "time_end": "the last entry of a closed segment's .timeindex has the segment's largest timestamp",
    "transaction_missing": "every aborted transaction whose marker is in the segment is in .txnindex",
    "transaction_unknown": "every entry of .txnindex has its ABORT marker in the segment",
    "transaction_differs": "first offset and last stable offset of an entry of .txnindex are those of the batches",
    "producer_differs": "epoch, sequence, offset, open transaction of a producer in .snapshot are those of the batches",
    "producer_unknown": "a producer in .snapshot has batches in the log",
    "epoch_order": "entries of leader-epoch-checkpoint ascend in epoch and start offset",
    "epoch_differs": "each batch has the leader epoch that leader-epoch-checkpoint has for its offset",
    "log_missing": "a partition in a *-checkpoint file has a folder",
}


class SideFileFindings:
    """Collects findings. The first few of one check in one file are kept; further ones are counted."""

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
            kept.append(SideFileFinding(severity, check, file, entry, sides[0], sides[1], sentence))
        else:
            kept[-1] = replace(kept[-1], more=kept[-1].more + 1)

    def __iter__(self) -> Iterator[SideFileFinding]:
        """Yields the findings, worst first; within one severity in the order in which they were added."""
        for severity in SEVERITIES:
            for (_, _, kind), kept in self._kept.items():
                if kind == severity:
                    yield from kept

    def __bool__(self) -> bool:
        return bool(self._kept)
