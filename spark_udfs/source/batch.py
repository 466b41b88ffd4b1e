"""The reader of `spark.read.format("kafkarec")`.

load()        schema: checks the options, expands the paths
first action  reader, partitions: lists folders, looks up offsets and transactions, splits segments
tasks         read: one Task each
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_udfs import bootstrap
from spark_udfs.schema import SparkColumn

from . import columns, options, paths, planning, selection
from .listing import Listing
from .paths import PartitionPaths, TopicPartition
from .planning import Split
from .selection import OffsetRange

_TRIES = 10


def schema(given: Mapping[str, str]) -> Any:
    """The StructType of what the options ask for."""
    chosen = options.parse(given, "read or stream")
    bootstrap.load()
    paths.existing(chosen)
    return columns.struct(columns.chosen(chosen))


class BatchReader(DataSourceReader):
    """On the driver it makes the `partitions`; pickled to each task it does `read`."""

    def __init__(self, chosen: options.SourceOptions, wanted: tuple[SparkColumn, ...]) -> None:
        self.options = chosen
        self.columns = wanted

    def chosen(self, listed: dict[TopicPartition, PartitionPaths]) -> dict[TopicPartition, PartitionPaths]:
        return selection.chosen(self.options, listed)

    def ranges(self, listed: dict[TopicPartition, PartitionPaths]) -> dict[TopicPartition, OffsetRange]:
        return selection.ranges(self.options, listed)

    def splits(self) -> list[Split]:
        """The splits; planned again where a file disappears meanwhile: a broker may rename it at any time."""
        bootstrap.load()
        listing = Listing(self.options)
        for tries in range(_TRIES):
            listed = self.chosen(listing.current())
            try:
                return planning.plan(self.options, listed, self.ranges(listed))
            except FileNotFoundError:
                if tries == _TRIES - 1:
                    raise
        return []

    def partitions(self) -> list[InputPartition]:
        return [planning.Task(each) for each in planning.tasks(self.options, self.splits())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of one task. Without any partition Spark calls this with InputPartition(None)."""
        from . import reading

        reading.log_to_stderr()
        return reading.read_splits(partition.value or (), self.options, self.columns)
