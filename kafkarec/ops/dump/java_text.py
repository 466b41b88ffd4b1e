"""Java behaviour that the text depends on: overflow, java.io.File's paths, the order of a HashMap of strings"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kafkarec.errors import InvalidRecordError
from kafkarec.format.java_integers import wrapped


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def java_path(path: str) -> str:
    """java.io.File.toString on a Unix system: no repeated and no trailing slash."""
    short = re.sub("/+", "/", path)
    return short.rstrip("/") if len(short) > 1 else short


def absolute_path(path: str) -> str:
    """java.io.File.getAbsolutePath: `..` and links stay as they are."""
    display_path = java_path(path)
    return display_path if display_path.startswith("/") else f"{os.getcwd().rstrip('/')}/{display_path}"


def parse_long(text: str) -> int:
    """Long.parseLong; InvalidRecordError for its NumberFormatException."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        value = int(text)
        if value == wrapped(value, 64):
            return value
    raise InvalidRecordError(f"the file's name does not begin with an offset: {text[:40]!r}")


def string_hash(text: str) -> int:
    """String.hashCode, over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = value * 31 + (units[at] << 8 | units[at + 1]) & 0xFFFFFFFF
    return value


class HashMapOrder:
    """The iteration order of a java.util.HashMap<String, ...> that is filled by computeIfAbsent.

    A call puts a new key first in its bucket. If the map has more than 0.75 * capacity keys, it doubles the capacity
    before that, whether the key is new or not.
    """

    def __init__(self) -> None:
        self._capacity = 16
        self._keys: dict[str, int] = {}

    def compute_if_absent(self, key: str) -> None:
        if len(self._keys) * 4 > self._capacity * 3:
            self._capacity *= 2
        if key not in self._keys:
            hashed = string_hash(key)
            self._keys[key] = hashed ^ hashed >> 16

    def __iter__(self) -> Iterator[str]:
        newest_first = list(self._keys)[::-1]
        return iter(sorted(newest_first, key=lambda key: self._keys[key] & (self._capacity - 1)))
