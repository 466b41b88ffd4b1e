"""The mismatches that kafka-dump-log prints to standard error after all files"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkarec.format.java_integers import wrapped


class _Section(NamedTuple):
    """Heading and line of one kind of mismatch. descending: order by the first number; None: in order of addition."""

    heading: str
    line: str
    descending: bool | None


# In the order in which they are printed.
_SECTIONS = {
    "index_mismatch": _Section("Mismatches in :{}", "  Index offset: {}, log offset: {}", True),
    "time_mismatch": _Section("Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}", None),
    "time_order": _Section(
        "Found out of order timestamp in :{}", "  Index timestamp: {}, Previously indexed timestamp: {}", None
    ),
    "offset_missing": _Section(
        "The following indexed offsets are not found in :{}", "Indexed offset: {}, found log offset: {}", None
    ),
    "not_consecutive": _Section("Non-consecutive offsets in {}", "  {} is followed by {}", False),
}


class Mismatches:
    """All mismatches of one run, of each kind by file in the order of the run. A pair of numbers takes 16 bytes."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, tuple[array[int], array[int]]]] = {kind: {} for kind in _SECTIONS}

    def add(self, kind: str, path: str, first: int, second: int) -> None:
        """Adds the two numbers of a line under the heading of `path` (absolute)."""
        firsts, seconds = self._found[kind].setdefault(path, (array("q"), array("q")))
        firsts.append(first)
        seconds.append(second)

    def lines(self) -> Iterator[str]:
        for kind, section in _SECTIONS.items():
            for path, columns in self._found[kind].items():
                yield section.heading.format(path)
                pairs: Iterable[tuple[int, int]] = zip(*columns, strict=True)
                in_order = section.descending is None or (
                    not section.descending and all(a < b for a, b in pairwise(columns[0]))
                )
                if not in_order:  # of a number that is listed twice Kafka's TreeMap keeps the last pair
                    pairs = sorted(dict(pairs).items(), reverse=bool(section.descending))
                for first, second in pairs:
                    yield section.line.format(first, second)


class Consecutive:
    """Checks that a file's record offsets increase by one. Kafka 4.3 starts at -1, so the first record of every segment
    that does not begin at 0 is reported, too."""

    def __init__(self, mismatches: Mismatches, path: str) -> None:
        self._mismatches = mismatches
        self._path = path
        self._last = -1

    def note(self, offsets: Sequence[int]) -> None:
        last = self._last
        if list(offsets) == list(range(last + 1, last + 1 + len(offsets))):
            self._last = offsets[-1] if offsets else last
            return
        for offset in offsets:
            if offset != wrapped(last + 1, 64):
                self._mismatches.add("not_consecutive", self._path, last, offset)
            last = offset
        self._last = last
