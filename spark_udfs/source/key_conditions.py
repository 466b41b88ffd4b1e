"""The option `where`: which key=value folders are read. The others are not even listed.

    date = '2026-11-01'
    date >= '2026-11-01' AND date < '2026-12-01' AND hour IN (5, 6)
    date BETWEEN '2026-11-01' AND '2026-11-30' AND region IS NOT NULL

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
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<bare>[+-]?\d[\w:.-]*)
    | (?P<name>[^\W\d]\w*|`[^`]+`)
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_WORDS = ("and", "between", "in", "is", "not", "null", "or", "like")
_EXAMPLE = "expected comparisons such as date >= '2026-11-01' AND date < '2026-12-01' AND hour IN (5, 6)"


class Condition(NamedTuple):
    """One comparison. operation: a key of _COMPARE, "between", "in", "is null" or "is not null"."""

    name: str
    operation: str
    literals: tuple[str, ...] = ()

    def is_for(self, key: str) -> bool:
        return self.name.lower() == key.lower()

    def holds(self, value: str | None, kind: str, path: str) -> bool:
        """Whether a folder's value fulfils the condition. kind: the type of the key's values. ValueError for a literal
        that is not of that type."""
        if self.operation in ("is null", "is not null"):
            return (value is None) == (self.operation == "is null")
        if value is None:
            return False
        found, wanted = TYPES[kind][0](value), [self._literal(text, kind, path) for text in self.literals]
        if self.operation == "in":
            return found in wanted
        if self.operation == "between":
            return bool(wanted[0] <= found <= wanted[1])
        return _COMPARE[self.operation](found, wanted[0])

    def _literal(self, text: str, kind: str, path: str) -> Any:
        kind = "bigint" if kind == "int" else kind
        read, what = TYPES[kind]
        try:
            return read(text)
        except ValueError:
            raise ValueError(
                f"option where: {text!r} is not {what}, and the folders of {self.name} are such: {path}"
            ) from None


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
    """The conditions of the option's text; ValueError says what was expected and where."""
    tokens = _Tokens(given)
    conditions = [_condition(tokens)]
    while not tokens.at_end:
        tokens.expect("AND")
        conditions.append(_condition(tokens))
    return tuple(conditions)


class _Tokens:
    """The tokens of a text, as (kind, value), from the left."""

    def __init__(self, given: str) -> None:
        self._left: list[tuple[str, str]] = []
        position = 0
        while given[position:].strip():
            match = _TOKEN.match(given, position)
            if match is None:
                raise ValueError(f"{given[position:].strip()!r} cannot be read; {_EXAMPLE}")
            kind = match.lastgroup or ""
            self._left.append((kind, match[kind]))
            position = match.end()

    @property
    def at_end(self) -> bool:
        return not self._left

    def take(self, what: str) -> tuple[str, str]:
        if not self._left:
            raise ValueError(f"ends where {what} is expected; {_EXAMPLE}")
        return self._left.pop(0)

    def takes(self, *words: str) -> bool:
        """Takes these words, if they are next."""
        if [value.lower() for _, value in self._left[: len(words)]] != list(words):
            return False
        del self._left[: len(words)]
        return True

    def expect(self, sign: str) -> None:
        _, value = self.take(sign)
        if value.lower() != sign.lower():
            hint = "; for one of several values: hour IN (5, 6)" if value.lower() == "or" else ""
            raise ValueError(f"has {value!r} where {sign} is expected{hint}; {_EXAMPLE}")

    def literal(self) -> str:
        self.takes("date")  # DATE '2026-11-01'
        kind, value = self.take("a value")
        if kind == "text":
            quote = value[0]
            return value[1:-1].replace(quote * 2, quote)
        if kind != "bare":
            raise ValueError(f"has {value!r} where a value is expected: write texts in quotes; {_EXAMPLE}")
        return value


def _condition(tokens: _Tokens) -> Condition:
    kind, value = tokens.take("the name of a key")
    if kind != "name" or value.lower() in _WORDS:
        raise ValueError(f"has {value!r} where the name of a key is expected; {_EXAMPLE}")
    name = value.strip("`")
    if tokens.takes("is", "null"):
        return Condition(name, "is null")
    if tokens.takes("is", "not", "null"):
        return Condition(name, "is not null")
    if tokens.takes("between"):
        low = tokens.literal()
        tokens.expect("AND")
        return Condition(name, "between", (low, tokens.literal()))
    if tokens.takes("in"):
        tokens.expect("(")
        literals = [tokens.literal()]
        while not tokens.takes(")"):
            tokens.expect(",")
            literals.append(tokens.literal())
        return Condition(name, "in", tuple(literals))
    kind, sign = tokens.take("a comparison")
    if sign not in _COMPARE:
        raise ValueError(f"has {sign!r} where one of {' '.join(_COMPARE)} IN BETWEEN IS is expected; {_EXAMPLE}")
    return Condition(name, sign, (tokens.literal(),))
