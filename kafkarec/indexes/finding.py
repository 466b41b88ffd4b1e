"""What a check of a partition's small files says: one finding, one sentence"""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found in one file.

    severity   "error": a reader or a broker that trusts the file goes wrong; "warning": it costs time, or a broker
               mends it at its next start; "note": different from the log's batches, and no harm
    check      a snake_case word of `check.CHECKS`: what was compared
    file       the file's name
    entry      the entry's number from 0 in a binary file, the line from 1 in a text file; None: the whole file
    expected   what the batches (or the format) ask for, as text; None where there is no other side
    found      what the file holds, as text
    sentence   one line for people, complete without the other fields
    """

    severity: str
    check: str
    file: str
    entry: int | None
    expected: str | None
    found: str | None
    sentence: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence}"
