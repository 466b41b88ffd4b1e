"""Folders named key=value, as Hive, Spark and Kafka Connect name them: keys, values, conditions on them. No I/O.

    arch/date=2026-11-01/hour=05/ev-0/00000000000000000000.log      date 2026-11-01, hour 05, topic ev, partition 0
    arch/ev-0/date=2026-11-01/00000000000000000000.log              date 2026-11-01, topic ev, partition 0
    arch/topic=ev/partition=0/00000000000000000000.log              topic ev, partition 0

Names and values are read as Spark's file sources read them, and so are the types, except that Spark also knows
decimals, doubles and timestamps, which are strings here: a double turns `version=1.10` into 1.1, and a timestamp needs
the session's time zone. `topic` and `partition` name the log.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache, partial
from typing import Any, NamedTuple

from kafkarec.support.partitioned_files import NULL

Keys = dict[str, str | None]
"""Name -> value of each key folder of a path, outermost first; None: null."""
KeyValues = dict[str, list[str | None]]
"""The same of several paths."""


class ParameterError(ValueError):
    """What is wrong with a parameter of `find`, in parts, for who has another name for it.

    parameter       where or base_path
    value           None: the message does not show it
    before, after   the rest of the message
    """

    def __init__(self, parameter: str, after: str, value: str | None = None, before: str = "") -> None:
        super().__init__(parameter, after, value, before)
        self.parameter, self.after, self.value, self.before = parameter, after, value, before

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value!r}"
        return f"{self.before}{self.parameter}{value}{self.after}"


class UnknownKeyError(ParameterError):
    """A condition is on a key that no folder has."""


_ESCAPED = re.compile(r"%([0-9a-fA-F]{2})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@lru_cache(1 << 14)
def key_of(name: str) -> tuple[str, str | None] | None:
    """(key, value) of a folder's name, percent-decoded, the value None for null; None for any other name. ValueError
    for a name without a key or without a value, as in Spark."""
    key, sign, value = name.partition("=")
    if not sign:
        return None
    if not key or not value:
        missing = "value" if key else "name"
        raise ValueError(f"the folder {name!r} has no {missing}: expected <name>=<value>; a null is <name>={NULL}")
    return _decoded(key), None if value == NULL else _decoded(value)


def _decoded(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def with_key(keys: Keys, key: tuple[str, str | None], path: str) -> Keys:
    """The keys of a folder and of one below it. ValueError for a key that stands twice in a path; Spark does not
    distinguish a and A."""
    if key[0].lower() in map(str.lower, keys):
        raise ValueError(f"the folders of {path} have the key {key[0]} twice")
    return {**keys, key[0]: key[1]}


def keys_below(path: str, base: str) -> Keys:
    """The keys of a path's own folders below `base`. ValueError if the path is not below it."""
    parts, above = _path_names(path), _path_names(base)
    if parts[: len(above)] != above:
        raise ParameterError("base_path", f": {path} is not below it", base)
    keys: Keys = {}
    for part in parts[len(above) :]:
        if key := key_of(part):
            keys = with_key(keys, key, path)
    return keys


def _path_names(path: str) -> list[str]:
    """The names in a path; of a URL the bucket first, as s3:// and s3a:// are the same, and without a signature."""
    scheme, _, rest = path.rpartition("://")
    rest = rest.partition("?")[0] if scheme.startswith("http") else rest
    return [part for part in rest.split("/") if part]


def topic_partition_of_keys(path: str) -> tuple[str | None, int | None]:
    """(topic, partition) of the last folders topic=... and partition=... in a path; None: there is none."""
    keys = dict(
        key for part in _path_names(path) if part.startswith(("topic=", "partition=")) and (key := key_of(part))
    )
    number = keys.get("partition")
    if number is not None and not (number.isascii() and number.isdecimal() and int(number) < 1 << 31):
        raise ValueError(f"{path}: partition={number} is no number of a partition")
    return keys.get("topic"), None if number is None else int(number)


# ---- types ------------------------------------------------------------------------------------------------------


def _date(text: str) -> date:
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return date.fromisoformat(text)


def _integer(limit: int, text: str) -> int:
    if _INTEGER.fullmatch(text) is None or not -limit <= int(text) < limit:
        raise ValueError(text)
    return int(text)


# SQL type -> (the function that reads a value or raises ValueError, what it is in a message), narrowest first.
_TYPES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "int": (partial(_integer, 1 << 31), "a whole number below 2^31"),
    "bigint": (partial(_integer, 1 << 63), "a whole number"),
    "date": (_date, "a date such as 2026-11-01"),
    "string": (str, "a text"),
}


def key_value(text: str, kind: str) -> Any:
    """The value of a key of a SQL type (int, bigint, date, string). ValueError says what it is not."""
    read, what = _TYPES[kind]
    try:
        return read(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {what}") from None


def inferred_type(values: Iterable[str | None]) -> str:
    """The first of these types that all values have, as Spark infers it; string if all are null."""
    texts = [value for value in values if value is not None]
    for name, (read, _) in _TYPES.items():
        with suppress(ValueError):
            if list(map(read, texts)):
                return name
    return "string"


def values_by_key(keys: Iterable[tuple[str, str | None]]) -> KeyValues:
    values: KeyValues = {}
    for name, value in keys:
        values.setdefault(name, []).append(value)
    return values


# ---- conditions -------------------------------------------------------------------------------------------------

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


class _Condition(NamedTuple):
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
        kind = "bigint" if kind == "int" else kind
        try:
            literal = key_value(self.literal, kind)
        except ValueError as error:
            why = f": {error}, and the folders of {self.name} are such: {path}"
            raise ParameterError("where", why) from None
        return _COMPARE[self.sign](key_value(value, kind), literal)


class FolderFilter:
    """Which key=value folders are read; the others are not even listed.

        date >= '2026-11-01' AND date < '2026-12-01' AND hour = 5

    Comparisons of SQL, joined by AND. A key whose folders are whole numbers or dates is compared as such, any other as
    text; as in SQL a null fulfils no comparison. None: all folders. ValueError: from where on it is no comparison
    """

    def __init__(self, text: str | None = None) -> None:
        self._conditions: list[_Condition] = []
        self._seen: set[str] = set()
        position, more = 0, text is not None
        while more and text is not None:
            found = _CONDITION.match(text, position)
            if found is None:
                raise ParameterError("where", f": {text[position:].strip()!r} cannot be read; {_EXAMPLE}", text)
            literal = found["literal"]
            if literal[0] in "'\"":
                literal = literal[1:-1].replace(literal[0] * 2, literal[0])
            self._conditions.append(_Condition(found["name"].strip("`"), found["sign"], literal))
            position, more = found.end(), bool(found["more"])

    def allows_keys(self, keys: Keys, path: str) -> bool:
        """Whether the conditions allow these keys, each value by its own type."""
        self._seen.update(keys)
        return all(self._allows_value(key, value, inferred_type([value]), path) for key, value in keys.items())

    def _allows_value(self, key: str, value: str | None, kind: str, path: str) -> bool:
        return all(each.holds(value, kind, path) for each in self._conditions if each.is_for(key))

    def allowed(self, folders: Iterable[str], above: str) -> dict[str, tuple[str, str | None]]:
        """The key folders among the `folders` of one folder `above`, without those that are excluded: name -> (key,
        value). A value is compared by the type that it has together with the others."""
        parsed = {folder: key for folder in folders if (key := key_of(folder))}
        self._seen.update(name for name, _ in parsed.values())
        if not self._conditions:
            return parsed
        kinds = {name: inferred_type(values) for name, values in values_by_key(parsed.values()).items()}
        return {
            folder: (name, value)
            for folder, (name, value) in parsed.items()
            if self._allows_value(name, value, kinds[name], f"{above}/{folder}")
        }

    def check_names(self) -> None:
        """ValueError for a condition on a key that none of the folders has that were asked about so far."""
        known = sorted(self._seen)
        for condition in self._conditions:
            if any(map(condition.is_for, known)):
                continue
            why = f": no folder has the key {condition.name!r}; there are: {', '.join(known)}"
            if not known:
                why = f": no folder {condition.name}=... is below the path. It chooses folders, and no records"
            raise UnknownKeyError("where", why)
