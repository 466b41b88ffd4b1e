"""`offsets_at(spark, path, time)`: the offset of the first record at or after a time, in each partition.

It is the offset at which `startingTimestamp` begins to read, found through the .timeindex where there is one, otherwise
by the headers of the batches. The driver looks; with Spark Connect a task does.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from . import bootstrap, cluster, shipping
from .read_functions import only, texts, time_text
from .source import options, selection
from .source.listing import Listing

OPTIONS = ("subscribe", "subscribePattern", "assign", "storageOptions", "basePath", "where", "failOnDataLoss")


def offsets_at(
    spark: Any, path: str | Iterable[str], time: int | str | date, **given: Any
) -> dict[str, dict[int, int]]:
    """See `spark_udfs.offsets_at`."""
    only("offsets_at", given, OPTIONS)
    since = _milliseconds(time)
    chosen = options.parse(texts(path, given), "read")
    if cluster.is_connect(spark):
        shipping.ship(spark)
    found: dict[str, dict[int, int]] = {}
    for topic, partition, offset in cluster.call_where_files_are(spark, look_up, chosen, since):
        found.setdefault(topic, {})[partition] = offset
    return found


def look_up(chosen: options.ReadOptions, since: int) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of each partition; must run on a machine that can read the files."""
    bootstrap.load()
    offsets = Listing(chosen).retry(lambda found: selection.offsets_at(chosen, selection.chosen(chosen, found), since))
    return [(*key, offset) for key, offset in offsets.items()]


def _milliseconds(time: int | str | date) -> int:
    text = time_text(time) if isinstance(time, date) else str(time)
    try:
        return options.instant(text)
    except ValueError as error:
        raise ValueError(f"time {time!r}: {error}") from None
