"""`count(spark, path)`: the number of records, by the headers of their batches.

driver   lists the files and plans the splits, as the data source does; with Spark Connect a task does it
tasks    count each split: source/header_counts.py
driver   adds the counts of each partition
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from typing import Any

from .errors import logger
from .read_functions import Splits, options_of, planned_results
from .source import description
from .source.options import ReadOptions
from .source.paths import shown


class RecordCount(int):
    """A number of records.

    partitions: "topic-number" -> its records, without partitions that have none; a file whose name has no topic is
    there with its path
    """

    partitions: dict[str, int]

    def __new__(cls, partitions: dict[str, int]) -> RecordCount:
        made = super().__new__(cls, sum(partitions.values()))
        made.partitions = partitions
        return made

    def __getnewargs__(self) -> tuple[dict[str, int]]:  # type: ignore[override]
        return (self.partitions,)


def count(spark: Any, path: str | Iterable[str], **options: Any) -> RecordCount:
    """The number of records: that of spark.read.format("kafkarec").load(path).count(), many times faster.

    path     files, folders, globs or URLs
    options  of that source, as Python values: subscribe="orders", startingOffsets, isolationLevel, includeControl, ...

    The result is an int; its `.partitions` has the records of each partition: {"orders-0": 70, ...}.

    The headers of batches have the numbers, so nothing is decompressed, except the splits with a batch that a bound of
    the offsets cuts, of magic 0 and 1, whose headers have none, and with read_committed of a producer with an aborted
    transaction there. Checksums are checked, and damage is treated as by the source: FAILFAST raises its error, the
    other modes count the records that they would return. What only decoding shows is not seen: records that do not
    agree with a header whose checksum is right.

    checkCrcs=False reads headers only, and counts the records of damaged payloads.

    >>> count(spark, "tests/vectors/segments", subscribe="txn", isolationLevel="read_committed").partitions
    {'txn-0': 176}
    """
    chosen = options_of(spark, path, options)
    _check(chosen)
    partitions: dict[str, int] = {}
    results = planned_results(spark, "count", chosen, partial(_count, chosen))
    for counts, missing in results:  # in order of the tasks, so of the partitions
        for name, records in counts.items():
            partitions[name] = partitions.get(name, 0) + records
        for each in missing:
            logger.warning("kafkarec count: %s; %s", each, description.damage_report_of(chosen))
    return RecordCount(partitions)


def _check(chosen: ReadOptions) -> None:
    """ValueError for options with which a DataFrame has rows that are no records."""
    if chosen.view != "records":
        raise ValueError(
            f"count counts records, and view={chosen.view} has none; "
            'spark.read.format("kafkarec").option("view", "batches").load(path).count() counts batches, by headers too'
        )
    if "columnNameOfCorruptRecord" in chosen.given:
        raise ValueError(
            "option columnNameOfCorruptRecord adds a row for each damaged range, and count counts records; "
            "damage_report lists the ranges"
        )


def _count(chosen: ReadOptions, splits: Splits) -> tuple[dict[str, int], list[str]]:
    """In a task: the records of each partition that has any, and what is missing in its splits."""
    from .source.header_counts import count_split
    from .source.reading import TaskCounters

    counts: dict[str, int] = {}
    with closing(TaskCounters("count")) as counters:
        for split in splits:
            name = shown(split.path) if split.partition is None else f"{split.topic}-{split.partition}"
            counts[name] = counts.get(name, 0) + count_split(split, chosen, counters)
    return {name: records for name, records in counts.items() if records}, counters.missing()
