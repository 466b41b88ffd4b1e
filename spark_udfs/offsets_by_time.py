"""`offsets_at(spark, path, time)`: the offset of the first record at or after a time, in each partition.

It is the offset at which `startingTimestamp` begins to read, found through the .timeindex where there is one, otherwise
by the headers of the batches. The driver looks; with Spark Connect a task does.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from . import cluster
from .read_functions import only, texts, time_text
from .source import selection
from .source.listing import Listing
from .source.options import ReadOptions, instant, parse
from .source.paths import TopicPartition

OPTIONS = ("subscribe", "subscribePattern", "assign", "storageOptions", "basePath", "where", "failOnDataLoss")


def offsets_at(
    spark: Any, path: str | Iterable[str], time: int | str | date, **options: Any
) -> dict[str, dict[int, int]]:
    """The offset of the first record at or after a time: {"orders": {0: 42, 1: 57}}.

    path     files, folders, globs or URLs
    time     milliseconds since 1970, an aware datetime, a date, or a text such as 2026-11-01T12:30+02:00 (UTC without a
             zone), as the option startingTimestamp takes it
    options  of the data source: subscribe, subscribePattern, assign, storageOptions, basePath, where, failOnDataLoss

    A partition without a record that late has its end: the offset of the next record that is written. So each number is
    valid in startingOffsets and endingOffsets: `.option("endingOffsets", json.dumps(offsets_at(...)))`.

    It is what KafkaConsumer.offsetsForTimes has: the record may be a transaction marker, and if times do not rise with
    offsets, later records may be older than `time`.

    >>> offsets_at(spark, "tests/vectors/segments", "2023-11-14T22:13:20.300Z", subscribe="txn")
    {'txn': {0: 30}}
    """
    only("offsets_at", options, OPTIONS)
    try:
        since = instant(time_text(time) if isinstance(time, date) else str(time))
    except ValueError as error:
        raise ValueError(f"time {time!r}: {error}") from None
    chosen = parse(texts(path, options), "read")
    if cluster.is_connect(spark):
        cluster.ship(spark)
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in cluster.call_where_files_are(spark, look_up, chosen, since).items():
        found.setdefault(topic, {})[partition] = offset
    return found


def look_up(chosen: ReadOptions, since: int) -> dict[TopicPartition, int]:
    """The offset of each partition; must run on a machine that can read the files."""
    return Listing(chosen).retry(lambda found: selection.offsets_at(selection.chosen(chosen, found), since))
