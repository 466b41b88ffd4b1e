"""Finding: one kind of problem at one or more positions; FindingNotes collects and counts them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .finding_kinds import KINDS, NOTE


class FindingPlace(NamedTuple):
    """Position in the file and offset in the log; None if not applicable."""

    position: int | None = None
    offset: int | None = None


NOWHERE = FindingPlace()


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of problem, with all its positions.

    kind: str                   a key of `kafkarec.ops.verify.KINDS`
    severity: str               error, anomaly or note
    detail: str                 one sentence about the first position; never contains bytes of a key, value or header
    file: str | None            the file, None: the partition or folder as a whole
    position, offset: int | None   the first one: position in the file, offset in the log
    count: int                  number of positions
    more: tuple[int, ...]       a few more positions
    """

    kind: str
    severity: str
    detail: str
    file: str | None = None
    position: int | None = None
    offset: int | None = None
    count: int = 1
    more: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in self.__slots__}
        kind = KINDS[self.kind]
        return shown | {"more": list(self.more), "meaning": kind.sentence, "advice": kind.advice}

    def __str__(self) -> str:
        times = f" ({self.count} places)" if self.count > 1 else ""
        return f"{self.severity}: {self.detail} [{self.kind}]{times}"


class FindingNotes:
    """Collects the findings of one file or log by kind: the detail of the first, the number of all, a few positions."""

    _KEPT = 5

    def __init__(self, file: str | None = None) -> None:
        self._file = file
        self._found: dict[tuple[str, str, str | None], Finding] = {}

    def add(
        self,
        kind: str,
        detail: str,
        at: FindingPlace = NOWHERE,
        *,
        severity: str | None = None,
        count: int = 1,
        file: str | None = None,
    ) -> None:
        """Adds a finding of `kind`; `detail` is used only for the first one."""
        severity = severity or KINDS[kind].severity
        where = file or self._file
        key = kind, severity, where
        old = self._found.get(key)
        if old is None:
            self._found[key] = Finding(kind, severity, detail, where, at.position, at.offset, count)
            return
        more = old.more
        if at.position is not None and len(more) < self._KEPT:
            more = (*more, at.position)
        self._found[key] = Finding(
            kind, severity, old.detail, old.file, old.position, old.offset, old.count + count, more
        )

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __contains__(self, kind: str) -> bool:
        return any(known == kind for known, _, _ in self._found)

    def take(self, other: FindingNotes, as_notes: Collection[str] = ()) -> None:
        """Adds all findings of `other`; those of the kinds `as_notes` with severity note."""
        for (kind, severity, file), one in other._found.items():
            if kind in as_notes:
                self._found[kind, NOTE, file] = replace(one, severity=NOTE)
            else:
                self._found[kind, severity, file] = one


_PLURALS = {"good batch": "good batches", "oddity": "oddities", "file or folder": "files or folders"}


def counted(count: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {what if count == 1 else _PLURALS.get(what, f'{what}s')}"
