"""`lag(query)`: how many offsets a stream has still to read, computed from its progress.

    "sources": [{"endOffset": {"clicks": {"0": 30}}, "latestOffset": {"clicks": {"0": 100}}, ...}]      70 behind

Spark reports no metrics for a source that is written in Python (its PythonMicroBatchStream does not implement
ReportsSourceMetrics). Those of Spark's Kafka source are computed from the same two offsets, so `lag` accepts the
queries of both sources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .source.description import amount_of
from .source.offsets import Offsets, parse


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
        return f"{self.total} offsets behind in {amount_of(len(self.partitions), 'partition')}" + (
            f" ({largest})" if largest else ""
        )


def lag(of: Any) -> Lag | None:
    """The lag of a stream in offsets. Printable. None if the query has made no progress report yet.

    of: a StreamingQuery, or one of its progress reports, as in `recentProgress` or a listener's event

    `.partitions` is {"clicks-0": 70, ...}, `.total` their sum. Queries that read from Spark's Kafka source are accepted
    too.
    """
    progress = getattr(of, "lastProgress", of)
    if progress is None:
        return None
    lags: dict[str, int] = {}
    for source in progress["sources"]:
        done, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        lags |= {f"{key[0]}-{key[1]}": max(0, end - done[key]) for key, end in latest.items() if key in done}
    return Lag(lags)


def _offsets(progress: Any) -> Offsets:
    """The offsets of one source; none for another kind of source."""
    try:
        return parse(json.loads(progress) if isinstance(progress, str) else progress)
    except ValueError:
        return {}
