"""Folders named key=value, as Hive, Spark and Kafka Connect name them: their keys, values and types. No I/O.

    arch/date=2026-11-01/hour=05/ev-0/00000000000000000000.log      date 2026-11-01, hour 5, topic ev, partition 0
    arch/ev-0/date=2026-11-01/00000000000000000000.log              date 2026-11-01, topic ev, partition 0
    arch/topic=ev/partition=0/00000000000000000000.log              topic ev, partition 0

Names and values are read as Spark's file sources read them, and so are the types, except that Spark also knows
decimals, doubles and timestamps, which are strings here (decision 0035). `topic` and `partition` are the source's own
columns: these two keys name the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from typing import Any, Protocol

from spark_udfs.schema import SparkColumn

Keys = tuple[tuple[str, str | None], ...]
"""(name, value) of each key folder of a path, outermost first; None: null."""
KeyTypes = tuple[tuple[str, str], ...]
"""(name, SQL type) of each key, outermost first."""

NULL = "__HIVE_DEFAULT_PARTITION__"
TOPIC, PARTITION = "topic", "partition"
_ESCAPED = re.compile(r"%([0-9a-fA-F]{2})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class HasKeys(Protocol):
    """A split."""

    @property
    def path(self) -> str: ...
    @property
    def keys(self) -> Keys: ...


@lru_cache(1 << 14)
def parse(name: str) -> tuple[str, str | None] | None:
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


def of_path(path: str, base: str | None) -> Keys:
    """The keys of a path's own folders below `base`; none without a base. ValueError if the path is not below it."""
    if base is None:
        return ()
    parts, above = _parts(path), _parts(base)
    if parts[: len(above)] != above:
        raise ValueError(f"option basePath={base!r}: {path} is not below it")
    return tuple(key for part in parts[len(above) :] if (key := parse(part)))


def _parts(path: str) -> list[str]:
    """The names in a path; of a URL the bucket first, as s3:// and s3a:// are the same, and without a signature."""
    scheme, _, rest = path.rpartition("://")
    rest = rest.partition("?")[0] if scheme.startswith("http") else rest
    return [part for part in rest.split("/") if part]


def check_names(names: Iterable[str], path: str) -> None:
    """ValueError for a key that stands twice in a path; Spark does not distinguish a and A."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ValueError(f"the folders of {path} have the key {name} twice")
        seen.add(name.lower())


def without_keys(path: str) -> str:
    """A path without its key folders: its last name is the partition's folder, if that one is above them."""
    return "/".join(part for part in _parts(path) if "=" not in part)


def log_name(path: str) -> tuple[str | None, int | None]:
    """(topic, partition) of the last folders topic=... and partition=... in a path; None: there is none."""
    keys = dict(
        key for part in _parts(path) if part.startswith((f"{TOPIC}=", f"{PARTITION}=")) and (key := parse(part))
    )
    number = keys.get(PARTITION)
    if number is not None and not (number.isascii() and number.isdecimal() and int(number) < 1 << 31):
        raise ValueError(f"{path}: {PARTITION}={number} is no number of a partition")
    return keys.get(TOPIC), None if number is None else int(number)


# ---- types and values -----------------------------------------------------------------------------------------


def _date(text: str) -> date:
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return date.fromisoformat(text)


def _integer(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) is None or not -(1 << (bits - 1)) <= int(text) < 1 << (bits - 1):
            raise ValueError(text)
        return int(text)

    return read


# SQL type -> (the function that reads a value or raises ValueError, what it is in a message), narrowest first.
TYPES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "int": (_integer(32), "a whole number below 2^31"),
    "bigint": (_integer(64), "a whole number"),
    "date": (_date, "a date such as 2026-11-01"),
    "string": (str, "a text"),
}


def inferred(values: Iterable[str | None]) -> str:
    """The first type that all values have, as Spark infers it; string if all are null."""
    texts = [value for value in values if value is not None]
    if not texts:
        return "string"
    return next(name for name, (read, _) in TYPES.items() if all(_reads(read, text) for text in texts))


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def values(keys: Keys, columns: Iterable[SparkColumn], path: str) -> dict[str, Any]:
    """The values of those keys that are among the columns, by name, as Python objects. ValueError for a value that its
    column's type cannot hold."""
    types = {column.name: column.type for column in columns if column.source is None}
    found: dict[str, Any] = {}
    for name, text in keys:
        if name not in types or name in (TOPIC, PARTITION):
            continue
        read, what = TYPES[types[name]]
        try:
            found[name] = None if text is None else read(text)
        except ValueError:
            raise ValueError(
                f"the column {name} is {types[name]}, as in the first folder, and {text!r} is not {what}: {path}. "
                f'.schema("offset long, {name} string, ...") reads all values as texts'
            ) from None
    return found


def check_values(splits: Iterable[HasKeys], columns: tuple[SparkColumn, ...]) -> None:
    """ValueError for a folder whose value does not fit its column, before a task finds it."""
    checked: set[Keys] = set()
    for split in splits:
        if split.keys not in checked:
            checked.add(split.keys)
            values(split.keys, columns, split.path)
