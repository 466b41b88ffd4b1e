"""What kafka-dump-log says on standard error when all files are printed: what does not fit together.

Files come in the order of a java.util.HashMap over their absolute paths, which is what Kafka's tool keeps them in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .java_text import HashMapOrder, wrapped


class Pairs:
    """Pairs of longs, as a TreeMap by the first would keep them: one per key, the last one wins. 16 bytes each."""

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
    """A heading over each file's lines; `sorted`: None as they came, else by their first number, descending or not."""

    heading: str
    line: str
    descending: bool | None


# In the order of their appearance.
_SECTIONS = {
    "index_mismatch": _Section("Mismatches in :{}", "  Index offset: {}, log offset: {}", True),
    "time_mismatch": _Section(
        "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}", None
    ),
    "time_order": _Section(
        "Found out of order timestamp in :{}", "  Index timestamp: {}, Previously indexed timestamp: {}", None
    ),
    "offset_missing": _Section(
        "The following indexed offsets are not found in :{}", "Indexed offset: {}, found log offset: {}", None
    ),
    "not_consecutive": _Section("Non-consecutive offsets in {}", "  {} is followed by {}", False),
}


class Mismatches:
    """All findings of one run."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Pairs | list[tuple[int, int]]]] = {kind: {} for kind in _SECTIONS}
        self._order = {kind: HashMapOrder() for kind in _SECTIONS}

    def add(self, kind: str, path: str, first: int, second: int) -> None:
        """`path`: absolute, as it will be printed."""
        files = self._found[kind]
        self._order[kind].compute_if_absent(path)
        if path not in files:
            descending = _SECTIONS[kind].descending
            files[path] = [] if descending is None else Pairs(descending)
        pairs = files[path]
        if isinstance(pairs, Pairs):
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
    """Watches that a file's record offsets count up by one. Kafka 4.3 begins to count at -1, so the first record of
    every segment but the first of a log is reported, too."""

    def __init__(self, complaints: Mismatches, path: str) -> None:
        self._complaints = complaints
        self._path = path
        self._last = -1

    def note(self, offsets: Sequence[int]) -> None:
        last = self._last
        if list(offsets) == list(range(last + 1, last + 1 + len(offsets))):
            self._last = offsets[-1] if offsets else last
            return
        for offset in offsets:
            if offset != wrapped(last + 1, 64):
                self._complaints.add("not_consecutive", self._path, last, offset)
            last = offset
        self._last = last
