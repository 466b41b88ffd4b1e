"""The mismatches that kafka-dump-log prints to standard error after all files.

Files are in the order of a java.util.HashMap by their absolute paths, as in Kafka's tool.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkarec.format.java_integers import wrapped

from .java_text import HashMapOrder


class LongPairs:
    """Pairs of longs like a TreeMap with the first as key: the last value of a key is kept. 16 bytes per pair."""

    def __init__(self, descending: bool = False) -> None:
        self._first, self._second = array("q"), array("q")
        self._descending = descending

    def add(self, first: int, second: int) -> None:
        self._first.append(first)
        self._second.append(second)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        if all(a < b for a, b in pairwise(self._first)) and not self._descending:
            return zip(self._first, self._second, strict=True)
        kept = dict(zip(self._first, self._second, strict=True))
        return iter(sorted(kept.items(), reverse=self._descending))


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
    """All mismatches of one run."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, LongPairs | list[tuple[int, int]]]] = {kind: {} for kind in _SECTIONS}
        self._order = {kind: HashMapOrder() for kind in _SECTIONS}

    def add(self, kind: str, path: str, first: int, second: int) -> None:
        """Adds the two numbers of a line under the heading of `path` (absolute)."""
        files = self._found[kind]
        self._order[kind].compute_if_absent(path)
        if path not in files:
            descending = _SECTIONS[kind].descending
            files[path] = [] if descending is None else LongPairs(descending)
        pairs = files[path]
        if isinstance(pairs, LongPairs):
            pairs.add(first, second)
        else:
            pairs.append((first, second))

    def lines(self) -> Iterator[str]:
        for kind, section in _SECTIONS.items():
            files = self._found[kind]
            for path in self._order[kind]:
                yield section.heading.format(path)
                pairs: Iterable[tuple[int, int]] = files[path]
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
