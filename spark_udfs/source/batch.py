"""The reader of `spark.read.format("kafkarec")`.

    load()        schema: options checked, paths looked for
    first action  reader, partitions: folders listed, offsets and transactions looked up, segments cut
    tasks         read: one Task each
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_udfs import bootstrap
from spark_udfs.schema import Column

from . import columns, options, paths, planning, selection
from .listing import Listing
from .paths import Key, PartitionPaths
from .planning import Split
from .selection import Range

_TRIES = 10


def schema(given: Mapping[str, str]) -> Any:
    """The StructType of what the options ask for."""
    chosen = options.parse(given, "read or stream")
    bootstrap.load()
    paths.expanded(chosen)
    return columns.struct(columns.chosen(chosen))


class Reader(DataSourceReader):
    """Lives on the driver for `partitions`, and travels to each task for `read`."""

    def __init__(self, chosen: options.Options, wanted: tuple[Column, ...]) -> None:
        self.options = chosen
        self.columns = wanted

    def chosen(self, there: dict[Key, PartitionPaths]) -> dict[Key, PartitionPaths]:
        return selection.chosen(self.options, there)

    def ranges(self, there: dict[Key, PartitionPaths]) -> dict[Key, Range]:
        return selection.ranges(self.options, there)

    def splits(self) -> list[Split]:
        """Listed anew where a file goes while they are made: a broker deletes and renames at any time."""
        bootstrap.load()
        listing = Listing(self.options)
        for tries in range(_TRIES):
            there = self.chosen(listing.look())
            try:
                return planning.plan(self.options, there, self.ranges(there))
            except FileNotFoundError:
                if tries == _TRIES - 1:
                    raise
        return []

    def partitions(self) -> list[InputPartition]:
        return [planning.Task(each) for each in planning.tasks(self.options, self.splits())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Spark makes InputPartition(None) of no partitions at all."""
        from . import reading

        reading.log_to_stderr()
        return reading.read_splits(partition.value or (), self.options, self.columns)
