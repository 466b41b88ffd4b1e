"""`lag(query)`: how many offsets a stream has still to read, computed from its progress.

    "sources": [{"endOffset": {"clicks": {"0": 30}}, "latestOffset": {"clicks": {"0": 100}}, ...}]      70 behind

Spark reports no metrics for a source that is written in Python (its PythonMicroBatchStream does not implement
ReportsSourceMetrics). Spark's Kafka source has metrics that are computed from the same two offsets, so `lag`
accepts the queries of both sources.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from .source.options import Offsets, offsets_from_json
from .source.planning import counted


@dataclass(frozen=True)
class Lag:
    """The lag of a stream's partitions. Printable.

    partitions: "topic-number" -> number of offsets to the log's end (read_committed: to the last stable offset) at the
    last micro-batch. A compacted log has fewer records than offsets.
    """

    partitions: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    def __str__(self) -> str:
        worst = sorted(self.partitions.items(), key=lambda each: -each[1])[:3]
        largest = ", ".join(f"{name} {offsets}" for name, offsets in worst if offsets)
        return f"{self.total} offsets behind in {counted(len(self.partitions), 'partition')}" + (
            f" ({largest})" if largest else ""
        )

    __repr__ = __str__


def lag(of: Any) -> Lag | None:
    """The lag of a stream in offsets. Printable. None if the query has made no progress report yet.

    of: a StreamingQuery, one of its progress reports (also as dict or JSON), or the event of a StreamingQueryListener

    `.partitions` is {"clicks-0": 70, ...}, `.total` their sum. Queries that read from Spark's Kafka source are accepted
    too.
    """
    found = getattr(of, "lastProgress", getattr(of, "progress", of))
    if found is None:
        return None
    progress = getattr(found, "json", found)
    with contextlib.suppress(ValueError):
        progress = json.loads(progress) if isinstance(progress, str) else progress
    if not isinstance(progress, dict) or "sources" not in progress:
        raise TypeError(f"{type(found).__name__} is not a query, a progress report or an event with one")
    lags: dict[str, int] = {}
    for source in progress["sources"]:
        done, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        lags |= {f"{key[0]}-{key[1]}": max(0, end - done[key]) for key, end in latest.items() if key in done}
    return Lag(lags)


def _offsets(progress: Any) -> Offsets:
    """The offsets of one source; none for another kind of source."""
    try:
        return offsets_from_json(json.loads(progress) if isinstance(progress, str) else progress)
    except ValueError:
        return {}
