"""The last offset of each key (Kafka: OffsetMap, SkimpyOffsetMap, Cleaner.buildOffsetMap)

Kafka hashes keys to 16 bytes (MD5) and keeps 24 bytes a key in a buffer of fixed size; where that is full, a run of the
cleaner ends. Here keys are kept as they are, in one dict, and a run always takes the whole log: no two keys are taken
for one. Measured: a key of 16 bytes costs about 150 bytes, 10 million of them 1.5 GB.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import ge

from ..request import Request
from ..table import cells
from .inputs import Input

COLUMNS = ("key", "offset")
_NEVER = 2**63 - 1


class OffsetMap:
    """Built in one pass over the dirty part of a log; read for each part of it."""

    def __init__(self) -> None:
        self._last: dict[bytes | None, int] = {}
        self.messages_read = 0

    def __len__(self) -> int:
        return len(self._last)

    def read(self, source: Input, asked: Request, stop: int | None) -> None:
        """Takes the keys of a segment's first bytes; the request leaves out what does not count (inputs.hiding)."""
        for part in source.parts(asked, 0, stop):
            for chunk in part.chunks:
                count = len(chunk)
                _, offsets, _ = chunk.column(1, 8)
                self._last.update(zip(cells(chunk, 0, "z", 0, count), offsets.cast("q")[:count].tolist(), strict=True))
                self.messages_read += count
        self._last.pop(None, None)

    def latest(self, keys: Iterable[bytes | None], offsets: Iterable[int]) -> bytearray:
        """One byte a row: 1 where no later offset of the same key is known; 0 without a key."""
        self._last[None] = _NEVER
        try:
            return bytearray(map(ge, offsets, map(self._last.get, keys, repeat(-1))))
        finally:
            del self._last[None]
