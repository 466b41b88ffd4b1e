"""Types of the compiled module that keeps the last offset of each key. Private."""

from collections.abc import Iterable
from typing import Any, final

_Keys = tuple[Any, ...]  # validity bits or None, offsets, bytes or None

@final
class LastOffsets:
    nbytes: int
    def __len__(self) -> int: ...
    def put(self, keys: _Keys, offsets: Any, rows: int, spans: Iterable[tuple[int, int]] | None = None) -> None: ...
    def latest(self, keys: _Keys, offsets: Any, rows: int) -> bytearray: ...
