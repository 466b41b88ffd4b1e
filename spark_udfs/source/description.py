"""A read in one line: how much it reads, from where, with which options; for logs, plans and tables.

    2 tasks, 3 splits, 18016 bytes: path=/backup/kafka subscribe=txn

Values of storageOptions, which may be secret, and of URLs beyond the path are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .offsets import to_json
from .options import ReadOptions, StorageOptions
from .paths import shown
from .planning import Split


def of_tasks(chosen: ReadOptions, tasks: Sequence[Sequence[Split]]) -> str:
    """tasks: the splits of each."""
    splits = [split for task in tasks for split in task]
    sizes = [None if split.end is None else split.end - split.begin for split in splits]
    unknown = "" if None not in sizes else f" and {amount_of(sizes.count(None), 'file')} of unknown size"
    amount = (
        f"{amount_of(len(tasks), 'task')}, {amount_of(len(splits), 'split')}, {sum(filter(None, sizes))} bytes{unknown}"
    )
    return f"{amount}: {of_options(chosen)}"


def of_options(chosen: ReadOptions) -> str:
    """The options that were given, with paths, in the order of the table of options."""
    return " ".join(f"{name}={_text(name, value)}" for name, value in chosen.given.items())


def damage_report_of(chosen: ReadOptions) -> str:
    """The call that lists the damage of what is read."""
    return f"spark_udfs.damage_report(spark, {paths_of(chosen)})"


def paths_of(chosen: ReadOptions) -> str:
    """The path that is read, or the list of them, as Python writes it."""
    return repr(shown(chosen.path) if chosen.path else [*map(shown, chosen.paths)])


def _text(name: str, value: Any) -> str:
    if isinstance(value, StorageOptions):
        return str(value)
    if name in ("path", "paths"):
        return ",".join(map(shown, [value] if isinstance(value, str) else value))
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(value)
    by_partition = isinstance(value, dict) and any(isinstance(key, tuple) for key in value)
    return json.dumps(to_json(value) if by_partition else value)


def amount_of(count: int, one: str, several: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{count} {one if count == 1 else several or one + 's'}"
