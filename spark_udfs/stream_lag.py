"""`lag(query)`: how many offsets a stream has still to read, from its progress.

    "sources": [{"endOffset": {"clicks": {"0": 30}}, "latestOffset": {"clicks": {"0": 100}}, ...}]      70 behind

Spark has no metrics of a source that is written in Python (only PythonMicroBatchStream, which is none that
ReportsSourceMetrics); Spark's Kafka source has, and they are made of the same two offsets. So this knows both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ENDS = ("endOffset", "latestOffset")


@dataclass(frozen=True)
class Lag:
    """partitions: "topic-number" -> offsets behind the log's end (read_committed: the last stable offset) as the last
    micro-batch saw it. Offsets are not records: compacted logs have fewer."""

    partitions: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    @property
    def metrics(self) -> dict[str, str]:
        """Under the names that Spark's Kafka source uses in a progress, as text."""
        behind = list(self.partitions.values()) or [0]
        average = sum(behind) / len(behind)
        named = {"min": min(behind), "max": max(behind), "avg": average}
        return {f"{name}OffsetsBehindLatest": str(value) for name, value in named.items()}

    def __str__(self) -> str:
        worst = sorted(self.partitions.items(), key=lambda each: -each[1])[:3]
        told = ", ".join(f"{name} {behind}" for name, behind in worst if behind)
        count = len(self.partitions)
        where = "1 partition" if count == 1 else f"{count} partitions"
        return f"{self.total} offsets behind in {where}" + (f" ({told})" if told else "")


def lag(of: Any) -> Lag | None:
    """See `spark_udfs.lag`."""
    progress = _progress(of)
    if progress is None:
        return None
    found: dict[str, int] = {}
    for source in progress["sources"]:
        found |= dict(_behind(*(_offsets(source.get(name)) for name in _ENDS)))
    return Lag(found)


def _progress(of: Any) -> dict[str, Any] | None:
    if hasattr(of, "lastProgress"):
        of = of.lastProgress
    elif hasattr(of, "progress"):
        of = of.progress
    if of is None:
        return None
    text = of if isinstance(of, str) else getattr(of, "json", None)
    told = json.loads(text) if isinstance(text, str) else of
    if not isinstance(told, dict) or "sources" not in told:
        raise TypeError(f"{type(of).__name__} is no query, no progress of one and no event that has it")
    return told


def _offsets(told: Any) -> dict[str, dict[str, int]]:
    """Of one source; nothing where they are another kind of source's."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
        return {}
    return told


def _behind(done: dict[str, dict[str, int]], latest: dict[str, dict[str, int]]) -> Iterator[tuple[str, int]]:
    for topic, each in latest.items():
        for number, end in each.items():
            at = done.get(topic, {}).get(number)
            if at is not None:
                yield f"{topic}-{number}", max(0, end - at)
