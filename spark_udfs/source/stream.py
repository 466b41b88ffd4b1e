"""The reader of `spark.readStream.format("kafkarec")`: follows partition folders while somebody writes to them.

    new query        initialOffset, from the options, before the first batch
    each trigger     latestOffset -> (Spark writes the offsets to the checkpoint) -> partitions -> read, in the tasks
    restart          partitions for the batch that was not committed, then as above

A new partition begins at its log's start. A partition that is gone, or offsets that do not exist any more, are data
loss: failOnDataLoss fails the query, otherwise reading goes on at the log's current start or end. Nothing depends on
`commit` or `stop`, which Spark does not always call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_udfs import bootstrap
from spark_udfs.schema import SparkColumn

from . import columns, options, paths, planning, reading, selection, worker_path
from .admission import Limit, end_offsets
from .listing import DataLoss, Listing
from .offsets import Offsets, OffsetsJson, parse, to_json
from .paths import PartitionPaths, TopicPartition
from .planning import Split
from .tails import Tail

# A broker may delete or rename a file after it was listed; then the folder is listed again.
_TRIES = 5
_T = TypeVar("_T")


def reader(given: Mapping[str, str], wanted: Any) -> StreamReader:
    """ValueError for a wrong option."""
    chosen = options.parse(given, "stream")
    chosen["view"] = options.VIEWS[0]
    return StreamReader(chosen, columns.of_schema(wanted, chosen))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance lives on the driver as long as the query; others are made for each plan and pickled to the tasks."""

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
        """Pickles options and columns; what the driver knows of the logs is not needed in tasks."""
        return worker_path.reduce_with_package(StreamReader, self.options, self.columns)

    # ---- offsets

    def initialOffset(self) -> OffsetsJson:
        """The offsets that the options ask for. Where that is the log's end, it may be another one when Spark asks
        again after a crash; so the first batch reads nothing of such partitions, and the checkpoint then has their
        offsets."""
        bootstrap.load()
        listed = selection.chosen(self.options, self._listed())
        starts = selection.starts(self.options, listed)
        asked = {key: at for key, (kind, at) in starts.items() if kind == "offset" and at != selection.EARLIEST}
        tails = self._updated_tails(listed, {}, asked)
        found = {key: self._start(key, tails[key], *starts[key]) for key in listed}
        self._held_back = {key: offset for key, (offset, held) in found.items() if held}
        return to_json({key: offset for key, (offset, _) in found.items()})

    def _start(self, key: TopicPartition, tail: Tail, kind: str, asked: int) -> tuple[int, bool]:
        """The first offset of a partition, and whether it is the current end of the log."""
        if kind == "time":
            found = paths.log_of(tail.paths, self.options).offset_for_timestamp(asked)
            if found is not None:
                return found, False
            if self.options["startingOffsetsByTimestampStrategy"] == "error":
                raise ValueError(
                    f"{_name(key)} has no record at or after {asked} ms; "
                    f"startingOffsetsByTimestampStrategy=latest takes its end then"
                )
            asked = selection.LATEST
        if asked == selection.LATEST:
            return tail.stable_end, True
        if asked == selection.EARLIEST:
            return tail.start, False
        return self._available(key, tail, asked, "startingOffsets asks for"), False

    def latestOffset(self, start: dict, limit: ReadLimit) -> OffsetsJson:  # type: ignore[type-arg]
        """The end of the next micro-batch; the very object `start` where there is nothing new."""
        reading.log_to_stderr()
        bootstrap.load()
        before = parse(start)
        found = _retry_listing(lambda: self._latest_from(before, limit))
        self._held_back = {}
        self._round_number += 1
        return start if found == before else to_json(found)

    def _latest_from(self, before: Offsets, limit: ReadLimit) -> Offsets:
        listed = self._subscribed(self._listed())
        self._report_missing(before, listed)
        tails = self._updated_tails(listed, before)
        starts, ends = {}, {}
        self._latest = {}
        for key, tail in tails.items():
            known = before.get(key)
            begin = tail.start if known is None else self._available(key, tail, known, "the next offset is")
            end = latest = max(begin, tail.stable_end)
            if self._target_ends is not None:
                end = min(end, max(begin, self._target_ends.get(key, begin)))
            if known is None and end <= begin:
                continue  # with its offsets Spark would start an empty batch
            starts[key], ends[key], self._latest[key] = begin, end, latest
        for key in ends.keys() & (self._held_back or {}).keys():
            ends[key] = max(starts[key], min(ends[key], (self._held_back or {})[key]))
        found = end_offsets(
            starts, ends, _limit(limit), lambda key, *span: tails[key].pending_batches(*span), self._round_number + 1
        )
        for key, tail in tails.items():
            tail.keep(*{each[key] for each in (before, starts, found) if key in each}, tail.end)
        return found

    def reportLatestOffset(self) -> OffsetsJson | None:
        """The ends of the logs at the last trigger, from which Spark (and `lag`) computes the query's lag."""
        return None if self._latest is None else to_json(self._latest)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(self.options["maxOffsetsPerTrigger"])
        if self.options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self.options["maxBytesPerTrigger"])
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        bootstrap.load()
        tails = self._updated_tails(self._subscribed(self._listed()), {}, committed=False)
        self._target_ends = {key: tail.end for key, tail in tails.items()}

    # ---- batches

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        """Tasks with exactly the bytes between two offsets, so that what is written meanwhile makes no difference."""
        reading.log_to_stderr()
        bootstrap.load()
        before, after = parse(start), parse(end)
        splits = _retry_listing(lambda: self._splits(before, after))
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
        reading.log_to_stderr()
        return reading.read_splits(partition.value or (), self.options, self.columns)

    def _cut(self, splits: list[Split], tails: Mapping[TopicPartition, Tail]) -> list[Split]:
        """Cuts large splits, as for a batch."""
        bases = {each.path: each.base_offset for tail in tails.values() for each in tail.paths.segments}
        total = sum((split.end or 0) - split.begin for split in splits)
        most = max(1, min(self.options["maxPartitionBytes"], -(-total // self.options["minPartitions"])))
        found: list[Split] = []
        for split in splits:
            if (split.end or 0) - split.begin <= most:
                found.append(split)
            else:
                found += planning.cut(self.options, split, bases[split.path], most)
        return found

    # ---- listings and tails

    def _listed(self) -> dict[TopicPartition, PartitionPaths]:
        if self._listing is None:
            self._listing = Listing(self.options)
        return self._listing.current()

    def _subscribed(self, listed: dict[TopicPartition, PartitionPaths]) -> dict[TopicPartition, PartitionPaths]:
        """As selection.chosen, but without an error for missing topics: they may appear and disappear while a query
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
        asked: Mapping[TopicPartition, int] | None = None,
        committed: bool = True,
    ) -> dict[TopicPartition, Tail]:
        """Updates the Tail of each partition.

        before: offsets of a checkpoint; every transaction that began before them has ended
        asked: offsets from the options, for which that is not known
        """
        committed = committed and planning.committed(self.options)
        found = {}
        for key in listed:
            tail = self._tails.setdefault(key, Tail(self.options))
            for tries in range(_TRIES):
                try:
                    tail.update(listed[key], before.get(key), committed, (asked or {}).get(key))
                    break
                except FileNotFoundError:
                    if tries == _TRIES - 1:
                        raise
                    again = self._listed()
                    listed = {**listed, key: again.get(key, listed[key])}
            found[key] = tail
        self._tails = dict(found)
        return found

    def _available(self, key: TopicPartition, tail: Tail, offset: int, why: str) -> int:
        """The offset itself; where the log does not have it, data loss, and then the log's current start or end."""
        if offset < tail.start:
            self._lost(f"{_name(key)}: {why} {offset}, and the log begins at offset {tail.start}: it was cut there")
            return tail.start
        if offset > tail.end:
            self._lost(f"{_name(key)}: {why} {offset}, and the log ends at offset {tail.end}: it was cut there")
            return tail.end
        if tail.was_rewritten(offset):
            self._lost(f"{_name(key)}: {why} {offset}, and the log was cut in front of it and rewritten since")
        return offset

    def _report_missing(self, before: Offsets, listed: Iterable[TopicPartition]) -> None:
        gone = sorted(set(before) - set(listed))
        if gone:
            names = ", ".join(f"{_name(key)} (next offset {before[key]})" for key in gone)
            self._lost(f"{names}: there are no segments any more")

    def _lost(self, what: str) -> None:
        if self.options["failOnDataLoss"]:
            raise DataLoss(f"data loss in {what}. failOnDataLoss=false goes on with what there is")
        reading.logger.warning("data loss in %s; failOnDataLoss is false", what)


def _retry_listing(ask: Callable[[], _T]) -> _T:
    """The result of `ask`, which is repeated where a file disappears meanwhile."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            return ask()
    return ask()


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _limit(given: ReadLimit) -> Limit | None:
    if isinstance(given, ReadMaxRows):
        return Limit("offsets", given.max_rows)
    if isinstance(given, ReadMaxBytes):
        return Limit("bytes", given.max_bytes)
    return None
