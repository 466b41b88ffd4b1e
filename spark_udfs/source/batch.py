"""The reader of `spark.read.format("kafkarec")`.

load()        schema: checks the options, expands the paths
first action  reader, partitions: lists folders, looks up offsets and transactions, splits segments
tasks         read: the splits of one InputPartition each
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from spark_udfs.capabilities import DataSourceReader, InputPartition
from spark_udfs.errors import logger, report_cause_first
from spark_udfs.schema import Columns, SparkColumn

from . import columns, gaps, options, paths, planning, reading, selection
from .listing import Listing
from .paths import Partitions
from .planning import Split


def schema(given: options.Given) -> Any:
    """The StructType of the columns that the options select."""
    chosen = options.parse(given, "read or stream")
    return columns.spark_schema(columns.select_columns(chosen, paths.key_types(chosen)))


def requested_columns(wanted: Any, chosen: options.ReadOptions) -> Columns:
    """The columns of a StructType; looks for key=value folders if it has other names than those of the source."""
    keys: paths.KeyTypes = ()
    if not set(wanted.fieldNames()) <= columns.fixed_columns(chosen).keys():
        keys = paths.key_types(chosen)
    return columns.from_schema(wanted, chosen, keys)


class BatchReader(DataSourceReader):
    """On the driver Spark calls `partitions`; pickled to each task, `read`."""

    def __init__(self, chosen: options.ReadOptions, wanted: Columns) -> None:
        self.options = chosen
        self.columns = wanted

    def plan_tasks(self, *, logs_gaps: bool = True) -> list[tuple[Split, ...]]:
        """The splits of each task; planned again if a file disappears meanwhile, since a broker may rename it at any
        time. logs_gaps: logs what is missing between segments, which these tasks cannot tell the driver"""
        listing = Listing(self.options)

        def planned(found: Partitions) -> list[Split]:
            listed = select_and_warn(listing, found)
            return planning.plan_splits(self.options, selection.with_ranges(self.options, listed))

        splits = listing.retry(planned)
        columns.check_key_values(splits, self.columns)
        if logs_gaps:
            gaps.warn_of_gaps(self.options, splits)
        return planning.group_into_tasks(self.options, splits)

    @report_cause_first
    def partitions(self) -> list[InputPartition]:
        warn_of_mode(self.options, self.columns)
        tasks = self.plan_tasks()
        logger.info("kafkarec planned %s", planning.plan_text(self.options, tasks))
        return [InputPartition(each) for each in tasks]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """The record batches of one task. Without any partition Spark calls this with InputPartition(None), before 4.2
        with None."""
        splits = partition.value if partition is not None else None
        return reading.read_splits(splits or (), self.options, self.columns)


def select_and_warn(listing: Listing, found: Partitions, *, must_exist: bool = True) -> Partitions:
    """The partitions that the options select. Logs, on the driver, that there are no segments, which folders have no
    topic in their names, and which with segments are left out for their names. must_exist: as for
    selection.select_partitions; while a stream runs nothing is logged."""
    if must_exist:
        if not found:
            logger.warning("there are no segments below %s: no rows", planning.paths_text(listing.options))
        nameless = {os.path.dirname(paths.display_url(key[0])) for key, each in found.items() if each.topic is None}
        no_topic = "the rows of folders that are not named TOPIC-PARTITION have no topic, which the option topic sets"
        not_read = "folders are left out, as they are not named TOPIC-PARTITION; load them by their paths"
        unread = set(filter(paths.has_segments, listing.finder.left_out))
        for what, folders in ((no_topic, nameless), (not_read, unread)):
            if folders:
                logger.warning("%s: %s", what, selection.some_names(sorted(folders)))
    return selection.select_partitions(listing.options, found, must_exist=must_exist)


def warn_of_mode(chosen: options.ReadOptions, wanted: Iterable[SparkColumn]) -> None:
    """Logs, on the driver, what the mode makes of damage that no row will show."""
    column = "columnNameOfCorruptRecord"
    if chosen.mode == "FAILFAST":
        if column in chosen.given:
            logger.warning("option %s has no effect in mode FAILFAST, which ends at damage; set PERMISSIVE", column)
    elif chosen.mode == "DROPMALFORMED" or chosen.columnNameOfCorruptRecord not in [each.name for each in wanted]:
        logger.warning(
            "mode %s leaves damage out, and only the executors' logs have it: PERMISSIVE with the option %s has a row "
            "for each range, and %s lists them",
            *(chosen.mode, column, planning.damage_report_call(chosen)),
        )


def reader(given: options.Given, wanted: Any, cores: int | None) -> DataSourceReader:
    """The reader of the columns in `wanted`, a StructType. It has no pushFilters: see docs/explanation/design.md."""
    chosen = options.parse(given, "read", cores)
    return BatchReader(chosen, requested_columns(wanted, chosen))
