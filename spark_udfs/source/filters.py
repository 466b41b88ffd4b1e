"""pushDownFilters=true: filters on topic, partition, offset and timestamp choose what is read at all.

All filters are also returned to Spark, which applies them to the rows: a pushed filter only prunes. Spark calls
`pushFilters` only where the session sets spark.sql.python.filterPushdown.enabled=true; without that setting it refuses
every reader that has the method. Hence a class of its own.

Spark 4.3.0 keeps the reader with the last pushed filters in the DataFrame's source (PythonScanBuilder.pushFilters), and
takes it for every later use of that DataFrame, with other filters or none: so each use needs a load() of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from . import columns, options
from .batch import BatchReader
from .paths import PartitionPaths, TopicPartition
from .planning import Split

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bounds(NamedTuple):
    """Integers from least to most, both inclusive; None: no bound."""

    least: int | None = None
    most: int | None = None

    def both(self, other: Bounds) -> Bounds:
        leasts = [each for each in (self.least, other.least) if each is not None]
        mosts = [each for each in (self.most, other.most) if each is not None]
        return Bounds(max(leasts, default=None), min(mosts, default=None))


# The bounds that a comparison with an integer sets for a column of integers.
_COMPARISONS: dict[type[Filter], Callable[[int], Bounds]] = {
    EqualTo: lambda value: Bounds(value, value),
    GreaterThan: lambda value: Bounds(value + 1),
    GreaterThanOrEqual: lambda value: Bounds(value),
    LessThan: lambda value: Bounds(None, value - 1),
    LessThanOrEqual: lambda value: Bounds(None, value),
}


class PruningReader(BatchReader):
    """A BatchReader that leaves out partitions, offsets and times for which no row passes the filters."""

    topics: set[str] | None = None
    numbers = offsets = micros = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            self._take(each)
        return filters

    def _take(self, given: Any) -> None:
        column = given.attribute[0] if len(getattr(given, "attribute", ())) == 1 else None
        if column == "topic" and isinstance(given, EqualTo | In):
            values = {given.value} if isinstance(given, EqualTo) else set(given.value)
            self.topics = values if self.topics is None else self.topics & values
            return
        bounds = _bounds(given)
        if bounds is None:
            return
        if column == "partition":
            self.numbers = self.numbers.both(bounds)
        elif column == "offset":
            self.offsets = self.offsets.both(bounds)
        elif column == "timestamp":
            self.micros = self.micros.both(bounds)

    def chosen(self, listed: dict[TopicPartition, PartitionPaths]) -> dict[TopicPartition, PartitionPaths]:
        least, most = self.numbers
        return {
            key: each
            for key, each in super().chosen(listed).items()
            if (self.topics is None or each.topic in self.topics)
            and (least is None or (each.partition is not None and each.partition >= least))
            and (most is None or (each.partition is not None and each.partition <= most))
        }

    def ranges(
        self, listed: dict[TopicPartition, PartitionPaths]
    ) -> dict[TopicPartition, tuple[int | None, int | None]]:
        found = {}
        for key, (start, end) in super().ranges(listed).items():
            asked = Bounds(start, None if end is None else end - 1).both(self.offsets)
            found[key] = (_int64(asked.least), _int64(None if asked.most is None else asked.most + 1))
        return found

    def splits(self) -> list[Split]:
        """Splits with bounds in ms, the end exclusive. No column of the batches view has the name timestamp."""
        start = None if self.micros.least is None else self.micros.least // 1000
        end = None if self.micros.most is None else self.micros.most // 1000 + 1
        return [each._replace(start_timestamp=start, end_timestamp=end) for each in super().splits()]


def _bounds(given: Any) -> Bounds | None:
    """The bounds that a filter sets for a column of integers (times: microseconds); None: none that is used here."""
    if isinstance(given, In):
        values = [_whole(each) for each in given.value]
        known = [each for each in values if each is not None]
        return Bounds(min(known), max(known)) if known and len(known) == len(values) else None
    comparison = _COMPARISONS.get(type(given))
    value = None if comparison is None else _whole(given.value)
    return None if comparison is None or value is None else comparison(value)


def _whole(value: Any) -> int | None:
    if isinstance(value, datetime):
        aware = value.astimezone(UTC) if value.tzinfo is None else value
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return value if type(value) is int else None


def _int64(value: int | None) -> int | None:
    return None if value is None else max(-(2**63), min(value, 2**63 - 1))


def reader(given: Mapping[str, str], wanted: Any) -> DataSourceReader:
    """A BatchReader; with pushDownFilters a PruningReader, since Spark may refuse a reader that has `pushFilters`."""
    chosen = options.parse(given, "read")
    found = columns.of_schema(wanted, chosen)
    if chosen["pushDownFilters"]:
        return PruningReader(chosen, found)
    return BatchReader(chosen, found)
