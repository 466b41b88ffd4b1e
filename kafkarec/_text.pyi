"""Types of the compiled module that writes rows as lines of text. Private."""

from collections.abc import Mapping
from typing import Any, final

_Texts = tuple[bytes, bytes, bytes, bytes, bytes]

@final
class Escapes:
    def __new__(cls, texts: Mapping[int, bytes | None]) -> Escapes: ...

_Column = tuple[str, Escapes | None, bool, _Texts, tuple[Any, ...] | None, list[bytes | None] | None]

def lines(columns: list[_Column], end: bytes, start: int, stop: int, rows: Any = None) -> bytes: ...
