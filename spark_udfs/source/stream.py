"""The reader of `spark.readStream.format("kafkarec")`: follows partition folders while brokers write to them.

    new query        initialOffset, from the options, before the first batch
    each trigger     latestOffset -> (Spark writes the offsets to the checkpoint) -> partitions -> read, in the tasks
    restart          partitions for the batch that was not committed, then as above

A new partition begins at its log's start. A partition or offsets that no longer exist are data loss:
failOnDataLoss fails the query, otherwise reading continues at the log's current start or end. Nothing depends on
`commit` or `stop`, which Spark does not always call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from spark_udfs import bootstrap, capabilities
from spark_udfs.capabilities import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from spark_udfs.schema import SparkColumn
from spark_udfs.task_log import log_to_stderr
from spark_udfs.worker_errors import cause_first

from . import key_folders, options, paths, planning, reading, selection, worker_path
from .admission import Limit, end_offsets
from .batch import columns_of
from .listing import DataLoss, Listing, retry
from .offsets import Offsets, OffsetsJson, parse, to_json
from .paths import PartitionPaths, TopicPartition
from .planning import Split
from .tails import Tail

_T = TypeVar("_T")


def reader(given: Mapping[str, str], wanted: Any) -> StreamReader:
    """The reader for these options and columns; where they are wrong, one whose first use raises the ValueError."""
    kind = StreamReader if capabilities.LIMITS.present else SimpleStreamReader
    try:
        chosen = options.parse(given, "stream")
        capabilities.check_options(chosen)
        chosen["view"] = options.VIEWS[0]
        return kind(chosen, columns_of(wanted, chosen))
    except Exception as error:
        return _refused(kind, error)


def _refused(kind: type[StreamReader], error: Exception) -> StreamReader:
    """If Spark gets no reader, it fails when it calls `reader.stop()`, and reports that."""

    @cause_first
    def fail(self: StreamReader, *arguments: Any) -> Any:
        raise error

    names = ("initialOffset", "latestOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow", "partitions")
    made: StreamReader = object.__new__(type(f"Refused{kind.__name__}", (kind,), dict.fromkeys(names, fail)))
    return made


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance is on the driver while the query runs; others are made for each plan and pickled to the tasks."""

    def __init__(self, chosen: options.SourceOptions, wanted: tuple[SparkColumn, ...]) -> None:
        self.options = chosen
        self.columns = wanted
        self._listing: Listing | None = None
        self._tails: dict[TopicPartition, Tail] = {}
        self._held_back: Offsets | None = None
        self._target_ends: Offsets | None = None
        self._latest: Offsets | None = None
        self._round_number = 0

    def __reduce__(self) -> Any:
        """Pickles options and columns; the driver's state of the logs is not needed in tasks."""
        return worker_path.reduce_with_package(type(self), self.options, self.columns)

    # ---- offsets

    @cause_first
    def initialOffset(self) -> OffsetsJson:
        """The offsets that the options request. If that is the log's end, it may be another offset when Spark calls
        this again after a crash; so the first batch reads nothing of such partitions, and the checkpoint then has
        their offsets."""
        bootstrap.load()
        return self._retry(self._initial_offset)

    def _initial_offset(self) -> OffsetsJson:
        listed = selection.chosen(self.options, self._listed())
        starts = selection.starts(self.options, listed)
        requested = {key: at for key, (kind, at) in starts.items() if kind == "offset" and at != selection.EARLIEST}
        tails = self._updated_tails(listed, {}, requested)
        offsets = {key: self._start(key, tails[key], *starts[key]) for key in listed}
        self._held_back = {key: offset for key, (offset, held) in offsets.items() if held}
        return to_json({key: offset for key, (offset, _) in offsets.items()})

    def _start(self, key: TopicPartition, tail: Tail, kind: str, requested: int) -> tuple[int, bool]:
        """The first offset of a partition, and whether it is the current end of the log."""
        if kind == "time":
            offset = paths.log_of(tail.paths, self.options).offset_for_timestamp(requested)
            if offset is not None:
                return offset, False
            if self.options["startingOffsetsByTimestampStrategy"] == "error":
                raise ValueError(
                    f"{_name(key)} has no record at or after {requested} ms; "
                    f"startingOffsetsByTimestampStrategy=latest starts at its end then"
                )
            requested = selection.LATEST
        if requested == selection.LATEST:
            return tail.stable_end, True
        if requested == selection.EARLIEST:
            return tail.start, False
        return self._available(key, tail, requested, "startingOffsets asks for"), False

    @cause_first
    def latestOffset(self, start: dict, limit: ReadLimit) -> OffsetsJson:  # type: ignore[type-arg]
        """The end offsets of the next micro-batch; the object `start` itself if there is nothing new."""
        log_to_stderr()
        bootstrap.load()
        before = parse(start)
        offsets = self._retry(lambda: self._latest_from(before, limit))
        self._held_back = {}
        self._round_number += 1
        return start if offsets == before else to_json(offsets)

    def _latest_from(self, before: Offsets, limit: ReadLimit | None, *, start_is_known: bool = True) -> Offsets:
        listed = self._subscribed(self._listed())
        self._report_missing(before, listed)
        tails = self._updated_tails(listed, before)
        starts, ends = {}, {}
        self._latest = {}
        for key, tail in tails.items():
            known = before.get(key)
            if known is not None and (late := tail.late_segments(known)):
                self._lost(f"{_name(key)}: {late[0]} has appeared, and offsets up to {known - 1} were read before it")
            begin = tail.start if known is None else self._available(key, tail, known, "the next offset is")
            end = latest = max(begin, tail.stable_end)
            if self._target_ends is not None:
                end = min(end, max(begin, self._target_ends.get(key, begin)))
            if known is None and end <= begin and start_is_known:
                continue  # with its offsets in the result Spark would start an empty batch
            starts[key], ends[key], self._latest[key] = begin, end, latest
        for key in ends.keys() & (self._held_back or {}).keys():
            ends[key] = max(starts[key], min(ends[key], (self._held_back or {})[key]))
        offsets = end_offsets(
            starts, ends, _limit(limit), lambda key, *span: tails[key].pending_batches(*span), self._round_number + 1
        )
        for key, tail in tails.items():
            tail.keep(*{each[key] for each in (before, starts, offsets) if key in each}, tail.end)
        return offsets

    def reportLatestOffset(self) -> OffsetsJson | None:
        """The ends of the logs at the last trigger, from which Spark and `lag` compute the query's lag."""
        return None if self._latest is None else to_json(self._latest)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(self.options["maxOffsetsPerTrigger"])
        if self.options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self.options["maxBytesPerTrigger"])
        return ReadAllAvailable()

    @cause_first
    def prepareForTriggerAvailableNow(self) -> None:
        log_to_stderr()
        bootstrap.load()
        tails = self._retry(lambda: self._updated_tails(self._subscribed(self._listed()), {}, committed=False))
        self._target_ends = {key: tail.end for key, tail in tails.items()}
        for key, tail in tails.items():
            unread = tail.unread_end()
            if unread is not None:
                reading.logger.warning(
                    "%s: the log stops in mid-batch after offset %d, and this query ends there; %s from byte %d on, "
                    "%d bytes, has no whole batch",
                    *(_name(key), tail.end - 1, *unread),
                )

    # ---- batches

    @cause_first
    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        """Tasks with exactly the bytes between two offsets, so that what is written meanwhile does not change them."""
        log_to_stderr()
        bootstrap.load()
        before, after = parse(start), parse(end)
        splits = self._retry(lambda: self._splits(before, after))
        key_folders.check_values(splits, self.columns)
        return [planning.Task(each) for each in planning.tasks(self.options, splits)]

    def _splits(self, before: Offsets, after: Offsets) -> list[Split]:
        listed = self._subscribed(self._listed())
        self._report_missing(after, listed)
        tails = self._updated_tails(listed, before)
        splits: list[Split] = []
        for key, stop in after.items():
            if key not in tails:
                continue
            tail = tails[key]
            begin = before.get(key, tail.start)
            if begin >= stop:
                continue
            if key in before:
                begin = self._available(key, tail, begin, "the batch begins at")
            stop = self._available(key, tail, stop, "the batch ends at")
            if begin < stop:
                splits += tail.splits(begin, stop)
        return self._cut(splits, tails)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        log_to_stderr()
        return reading.read_splits(partition.value or (), self.options, self.columns)

    def _cut(self, splits: list[Split], tails: Mapping[TopicPartition, Tail]) -> list[Split]:
        """Cuts large splits, as in a batch query."""
        bases = {each.path: each.base_offset for tail in tails.values() for each in tail.paths.segments}
        total = sum((split.end or 0) - split.begin for split in splits)
        most = max(1, min(self.options["maxPartitionBytes"], -(-total // self.options["minPartitions"])))
        parts: list[Split] = []
        for split in splits:
            if (split.end or 0) - split.begin <= most:
                parts.append(split)
            else:
                parts += planning.cut(self.options, split, bases[split.path], most)
        return parts

    # ---- listings and tails

    def _listed(self) -> dict[TopicPartition, PartitionPaths]:
        if self._listing is None:
            self._listing = Listing(self.options)
        return self._listing.current()

    def _retry(self, call: Callable[[], _T]) -> _T:
        def with_own_listing() -> _T:
            try:
                return call()
            except FileNotFoundError:
                self._listing = None
                raise

        return retry(with_own_listing)

    def _subscribed(self, listed: dict[TopicPartition, PartitionPaths]) -> dict[TopicPartition, PartitionPaths]:
        """As selection.chosen, but without an error for missing topics: they may appear or disappear while a query
        runs."""
        topics, pattern, assigned = (self.options[name] for name in ("subscribe", "subscribePattern", "assign"))
        if topics is not None:
            return {key: each for key, each in listed.items() if key[0] in topics}
        if pattern is not None:
            return {key: each for key, each in listed.items() if re.fullmatch(pattern, key[0])}
        if assigned is not None:
            return {key: each for key, each in listed.items() if key[1] in assigned.get(key[0], ())}
        return listed

    def _updated_tails(
        self,
        listed: dict[TopicPartition, PartitionPaths],
        before: Offsets,
        requested: Mapping[TopicPartition, int] | None = None,
        committed: bool = True,
    ) -> dict[TopicPartition, Tail]:
        """Updates the Tail of each partition.

        before: offsets of a checkpoint; every transaction that began before them has ended
        requested: offsets from the options, where transactions may be open
        """
        committed = committed and planning.is_read_committed(self.options)
        tails = {}
        for key in listed:
            tail = self._tails.setdefault(key, Tail(self.options))
            tail.update(listed[key], before.get(key), committed, (requested or {}).get(key))
            tails[key] = tail
        self._tails = dict(tails)
        return tails

    def _available(self, key: TopicPartition, tail: Tail, offset: int, why: str) -> int:
        """The offset itself; if the log does not have it, reports data loss and returns the log's start or end."""
        if offset < tail.start:
            self._lost(f"{_name(key)}: {why} {offset}, and the log begins at offset {tail.start}: it was truncated")
            return tail.start
        if offset > tail.end:
            self._lost(f"{_name(key)}: {why} {offset}, and the log ends at offset {tail.end}: it was truncated")
            return tail.end
        if tail.was_rewritten(offset):
            self._lost(f"{_name(key)}: {why} {offset}, and the log was truncated before it and written again")
        return offset

    def _report_missing(self, before: Offsets, listed: Iterable[TopicPartition]) -> None:
        gone = sorted(set(before) - set(listed))
        if gone:
            names = ", ".join(f"{_name(key)} (next offset {before[key]})" for key in gone)
            self._lost(f"{names}: no segments are left")

    def _lost(self, what: str) -> None:
        if self.options["failOnDataLoss"]:
            raise DataLoss(f"data loss in {what}. failOnDataLoss=false continues with the records that exist")
        reading.logger.warning("data loss in %s; failOnDataLoss is false", what)


class SimpleStreamReader(StreamReader):
    """For a Spark without limits of micro-batches (4.0, 4.1): it asks for the logs' ends, and does not say where the
    batch begins. Known are the offsets that Spark got here before; after a restart only `partitions` has the start."""

    _reached: Offsets | None = None

    @cause_first
    def initialOffset(self) -> OffsetsJson:
        offsets = super().initialOffset()
        self._reached = parse(offsets)
        return offsets

    @cause_first
    def latestOffset(self) -> OffsetsJson:  # type: ignore[override]
        log_to_stderr()
        bootstrap.load()
        known = self._reached is not None
        offsets = self._retry(lambda: self._latest_from(self._reached or {}, None, start_is_known=known))
        self._held_back = {}
        return to_json(offsets)

    @cause_first
    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        tasks = super().partitions(start, end)
        self._reached = parse(end)
        return tasks

    def _splits(self, before: Offsets, after: Offsets) -> list[Split]:
        if self._reached is None:
            self._report_lost_since_the_restart(before, after)
        return super()._splits(before, after)

    def _report_lost_since_the_restart(self, before: Offsets, after: Offsets) -> None:
        listed = self._subscribed(self._listed())
        self._report_missing(before, listed)
        for key, tail in self._updated_tails(listed, before).items():
            if before.get(key, 0) > after.get(key, 0):
                self._available(key, tail, before[key], "the next offset is")


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _limit(given: ReadLimit | None) -> Limit | None:
    if isinstance(given, ReadMaxRows):
        return Limit("offsets", given.max_rows)
    if isinstance(given, ReadMaxBytes):
        return Limit("bytes", given.max_bytes)
    return None
