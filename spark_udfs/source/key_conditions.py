"""The option `where`: which key=value folders are read. The others are not even listed.

    date >= '2026-11-01' AND date < '2026-12-01' AND hour = 5

Comparisons of SQL, joined by AND. A key whose folders are whole numbers or dates is compared as such, any other as
text; as in SQL a null fulfils no comparison.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import key_folders
from .key_folders import TYPES

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(
    r"""\s* (?P<name>[^\W\d]\w*|`[^`]+`)
    \s* (?P<sign><=|>=|<>|=|<|>)
    \s* (?P<literal>'(?:[^']|'')*'|"(?:[^"]|"")*"|[+-]?\d[\w:.-]*)
    \s* (?P<more>AND\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_EXAMPLE = "expected comparisons (= <> < <= > >=) joined by AND, such as date >= '2026-11-01' AND date < '2026-12-01'"


class Condition(NamedTuple):
    """One comparison. sign: a key of _COMPARE"""

    name: str
    sign: str
    literal: str

    def is_for(self, key: str) -> bool:
        return self.name.lower() == key.lower()

    def holds(self, value: str | None, kind: str, path: str) -> bool:
        """Whether a folder's value fulfils the condition. kind: the type of the key's values. ValueError for a literal
        that is not of that type."""
        if value is None:
            return False
        read, what = TYPES["bigint" if kind == "int" else kind]
        try:
            literal = read(self.literal)
        except ValueError:
            raise ValueError(
                f"option where: {self.literal!r} is not {what}, and the folders of {self.name} are such: {path}"
            ) from None
        return _COMPARE[self.sign](read(value), literal)


def allows(conditions: tuple[Condition, ...], key: str, value: str | None, path: str) -> bool:
    """Whether the conditions allow one value of a key, by its own type."""
    kind = key_folders.inferred([value])
    return all(each.holds(value, kind, path) for each in conditions if each.is_for(key))


def read_folders(
    names: Iterable[str], conditions: tuple[Condition, ...], above: str
) -> dict[str, tuple[str, str | None]]:
    """The key folders among the folders `names` of one folder `above`, that the conditions do not exclude: name ->
    (key, value). A value is compared by the type that it has together with the others."""
    parsed = {name: key for name in names if (key := key_folders.parse(name))}
    if not conditions or not parsed:
        return parsed
    kinds = {
        key: key_folders.inferred(value for other, value in parsed.values() if other == key)
        for key, _ in parsed.values()
    }
    return {
        name: (key, value)
        for name, (key, value) in parsed.items()
        if all(each.holds(value, kinds[key], f"{above}/{name}") for each in conditions if each.is_for(key))
    }


def parse(given: str) -> tuple[Condition, ...]:
    """The conditions of the option's text. ValueError: from where on it is no comparison"""
    conditions: list[Condition] = []
    position, more = 0, True
    while more:
        found = _CONDITION.match(given, position)
        if found is None:
            raise ValueError(f"{given[position:].strip()!r} cannot be read; {_EXAMPLE}")
        literal = found["literal"]
        if literal[0] in "'\"":
            literal = literal[1:-1].replace(literal[0] * 2, literal[0])
        conditions.append(Condition(found["name"].strip("`"), found["sign"], literal))
        position, more = found.end(), bool(found["more"])
    return tuple(conditions)
