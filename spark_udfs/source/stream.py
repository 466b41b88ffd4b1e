"""The reader of `spark.readStream.format("kafkarec")`: a micro-batch is the plan of two offsets of each partition.

    new query        initialOffset, from the options, before the first batch
    each trigger     latestOffset -> (Spark writes the offsets to the checkpoint) -> partitions -> read, in the tasks
    restart          partitions for the batch that was not committed, then as above

A new partition begins at its log's start. A partition or offsets that no longer exist are data loss:
failOnDataLoss fails the query, otherwise reading continues at the log's current start or end. Nothing depends on
`commit` or `stop`, which Spark does not always call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

from spark_udfs import capabilities
from spark_udfs.capabilities import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from spark_udfs.errors import logger, report_cause_first
from spark_udfs.schema import Columns

from . import columns, gaps, growing_log, options, planning, reading, selection, worker_path
from .batch import requested_columns, select_and_warn, warn_of_mode
from .growing_log import GrowingLog
from .listing import Listing, report_loss
from .options import EARLIEST, Offsets, OffsetsJson, offsets_from_json, offsets_to_json
from .paths import Partitions, TopicPartition, read_length
from .planning import Split

_T = TypeVar("_T")
_Logs = dict[TopicPartition, GrowingLog]


def reader(given: options.Given, wanted: Any) -> StreamReader:
    """The reader for these options and columns; where they are wrong, one whose first use raises the ValueError: if
    Spark gets no reader, it fails when it calls `reader.stop()`, and reports that."""
    try:
        chosen = options.parse(given, "stream")
        return StreamReader(chosen, requested_columns(wanted, chosen))
    except Exception as error:
        return StreamReader(options.ReadOptions(), (), error)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance is on the driver while the query runs; others are made for each plan and pickled to the tasks.

    A Spark without limits of micro-batches (4.0, 4.1) does not say where the next one begins. Known are the offsets
    that it got here before; after a restart only `partitions` has the start.
    """

    def __init__(self, chosen: options.ReadOptions, wanted: Columns, error: Exception | None = None) -> None:
        self.options = chosen
        self.columns = wanted
        self._error = error
        self._listing = Listing(chosen)
        self._logs: _Logs = {}
        self._held_back: Offsets = {}
        self._target_ends: Offsets | None = None
        self._latest: Offsets | None = None
        self._reached: Offsets | None = None  # the end of the last micro-batch that this process has planned

    def __reduce__(self) -> Any:
        """Pickles options and columns; the driver's state of the logs is not needed in tasks."""
        return worker_path.reduce_with_package(type(self), self.options, self.columns)

    def _set_up(self) -> None:
        if self._error is not None:
            raise self._error

    def _with_logs(self, call: Callable[[_Logs], _T], *, is_first: bool = False) -> _T:
        """`call` with the logs as they are now; again while files that it opens are removed or replaced."""
        self._set_up()

        def call_with_logs(found: Partitions) -> _T:
            listed = select_and_warn(self._listing, found, must_exist=is_first)
            self._logs = {key: self._logs.get(key) or GrowingLog(self.options) for key in listed}
            for key, log in self._logs.items():
                log.update(listed[key])
            return call(self._logs)

        return self._listing.retry(call_with_logs)

    # ---- offsets

    @report_cause_first
    def initialOffset(self) -> OffsetsJson:
        """The offsets that the options request. If that is the log's end, it may be another offset when Spark calls
        this again after a crash; so the first batch reads nothing of such partitions, and the checkpoint then has
        their offsets."""

        def start_offsets(logs: _Logs) -> OffsetsJson:
            warn_of_mode(self.options, self.columns)
            fallback = "error" if self.options.startingOffsetsByTimestampStrategy == "error" else "no bound"
            requested = selection.requested_bounds(self.options, logs, "starting")
            starts, self._held_back = {}, {}
            for key, log in logs.items():
                if requested[key] == ("offset", EARLIEST):
                    starts[key] = log.start
                    continue
                offset = selection.resolved_offset(self.options, log.listed_log.log, requested[key], key, fallback)
                if offset is None:
                    self._held_back[key] = offset = log.stable_end(log.end)
                elif requested[key][0] == "offset":
                    offset = log.clamp_reporting_loss(offset, "startingOffsets asks for")
                starts[key] = offset
            self._reached = starts
            return offsets_to_json(starts)

        return self._with_logs(start_offsets, is_first=True)

    @report_cause_first
    def latestOffset(self, start: OffsetsJson | None = None, limit: ReadLimit | None = None) -> OffsetsJson:
        """The end offsets of the next micro-batch; the object `start` itself if there is nothing new."""
        before = self._reached if start is None else offsets_from_json(start)
        offsets = self._with_logs(lambda logs: self._latest_from(logs, before, limit))
        return start if start is not None and offsets == before else offsets_to_json(offsets)

    def _latest_from(self, logs: _Logs, start: Offsets | None, limit: ReadLimit | None) -> Offsets:
        before = start or {}
        self._report_missing(before, logs)
        starts, ends = {}, {}
        self._latest = {}
        for key, log in logs.items():
            known = before.get(key)
            begin = log.start if known is None else log.clamp_reporting_loss(known, "the next offset is")
            end = latest = max(begin, log.stable_end(begin))
            if self._target_ends is not None:
                end = min(end, max(begin, self._target_ends.get(key, begin)))
            if known is None and end <= begin and start is not None:
                continue  # with its offsets in the result Spark would start an empty batch
            end = max(begin, min(end, self._held_back.get(key, end)))
            starts[key], ends[key], self._latest[key] = begin, end, latest
        offsets = self._ends_within_limit(starts, ends, limit)
        for key, log in logs.items():
            log.forget_except({each[key] for each in (before, starts, offsets) if key in each})
        self._held_back = {}
        return offsets

    def _ends_within_limit(self, starts: Offsets, ends: Offsets, limit: ReadLimit | None) -> Offsets:
        """The end offsets of a micro-batch: the limit in proportion to the lag of each partition, at least one offset,
        as in Spark's Kafka source. A limit of bytes becomes one of offsets by their mean size."""
        lags = {key: ends[key] - start for key, start in starts.items() if ends[key] > start}
        total = sum(lags.values())
        most = total
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = 0
            for segment in chain.from_iterable(
                self._logs[key].between_offsets(starts[key], ends[key]).segments for key in lags
            ):
                length = read_length(segment)
                if length is None and "://" not in segment.path:  # compressed as a whole; a remote one is not counted
                    length = os.stat(segment.path).st_size
                size += length or 0
            most = total * limit.max_bytes // max(1, size)
        if most >= total:
            return ends
        parts = {key: starts[key] + max(1, lag * most // total) for key, lag in lags.items()}
        return ends | {
            key: min(self._logs[key].end_between_batches(starts[key], at), ends[key]) for key, at in parts.items()
        }

    def reportLatestOffset(self) -> OffsetsJson | None:
        """The ends of the logs at the last trigger, from which Spark and `lag` compute the query's lag."""
        return None if self._latest is None else offsets_to_json(self._latest)

    @report_cause_first
    def getDefaultReadLimit(self) -> ReadLimit:
        self._set_up()
        if self.options.maxOffsetsPerTrigger is not None:
            return ReadMaxRows(self.options.maxOffsetsPerTrigger)
        if self.options.maxBytesPerTrigger is not None:
            return ReadMaxBytes(self.options.maxBytesPerTrigger)
        return ReadAllAvailable()

    @report_cause_first
    def prepareForTriggerAvailableNow(self) -> None:
        self._target_ends = self._with_logs(lambda logs: {key: log.end for key, log in logs.items()})
        for key, log in self._logs.items():
            incomplete = log.incomplete_end()
            if incomplete is not None:
                logger.warning(
                    "%s: the log stops in mid-batch after offset %d, and this query ends there; %s from byte %d on, "
                    "%d bytes, has no whole batch",
                    *(f"{key[0]}-{key[1]}", log.end - 1, incomplete.file, incomplete.position, incomplete.length),
                )

    # ---- batches

    @report_cause_first
    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        before, after = offsets_from_json(start), offsets_from_json(end)
        splits = self._with_logs(lambda logs: self._plan_splits(logs, before, after))
        columns.check_key_values(splits, self.columns)
        gaps.warn_of_gaps(self.options, splits)
        self._reached = after
        return [InputPartition(each) for each in planning.group_into_tasks(self.options, splits)]

    def _plan_splits(self, logs: _Logs, before: Offsets, after: Offsets) -> list[Split]:
        if self._reached is None and not capabilities.LIMITS.present:  # what was lost before the restart
            self._report_missing(before, logs)
            for key, log in logs.items():
                if before.get(key, 0) > after.get(key, 0):
                    log.clamp_reporting_loss(before[key], "the next offset is")
        self._report_missing(after, logs)
        spans = {}
        for key in after.keys() & logs.keys():
            log, stop = logs[key], after[key]
            begin = before.get(key, log.start)
            if begin >= stop:
                continue
            if key in before:
                begin = log.clamp_reporting_loss(begin, "the batch begins at")
            spans[key] = log, begin, log.clamp_reporting_loss(stop, "the batch ends at", is_end=True)
        return growing_log.plan_splits(self.options, spans)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return reading.read_splits(partition.value or (), self.options, self.columns)

    # ---- what no longer exists

    def _report_missing(self, before: Offsets, logs: _Logs) -> None:
        gone = sorted(set(before) - set(logs))
        if gone:
            names = ", ".join(f"{key[0]}-{key[1]} (next offset {before[key]})" for key in gone)
            report_loss(self.options, f"{names}: no segments are left")
