"""The reader of `spark.readStream.format("kafkarec")`: a micro-batch is the plan of two offsets of each partition.

    new query        initialOffset, from the options, before the first batch
    each trigger     latestOffset -> (Spark writes the offsets to the checkpoint) -> partitions -> read, in the tasks
    restart          partitions for the batch that was not committed, then as above

    00000000000000000000.log  [batch][batch][batch]            a later segment exists: this one no longer grows
    00000000000000000300.log  [batch][batch][ba                the last one: half a batch or zeros are not read yet
                                            ^ the log's end: after the last batch whose frame and checksum are right

A micro-batch has the bytes from the end of the last batch before its first offset to the end of the last batch before
its end offset. So every byte, and damage with it, belongs to exactly one, whatever is written meanwhile.

A new partition begins at its log's start. A partition or offsets that no longer exist are data loss:
failOnDataLoss fails the query, otherwise reading continues at the log's current start or end. Nothing depends on
`commit` or `stop`, which Spark does not always call.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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

from . import columns, isolation, log_end, options, paths, planning, reading, selection, worker_path
from .batch import columns_of, warn_of_mode, warn_of_names
from .isolation import NO_END, Uncommitted
from .listing import Listing, lost
from .offsets import Offsets, OffsetsJson, parse, to_json
from .paths import CutPoint, OffsetRange, PartitionLog, TopicPartition
from .planning import Split

if TYPE_CHECKING:
    import kafkarec

# In a preallocated file zeros follow the last batch; the next batch is searched in this many bytes of them.
_ZEROS_SEARCHED = 1 << 20
# A file is not opened again while its size and times stay the same, once they have been so for this long: file systems
# round times, to seconds at worst.
_SETTLED_SECONDS = 3.0

_T = TypeVar("_T")
_Logs = dict[TopicPartition, "GrowingLog"]


def reader(given: Mapping[str, str], wanted: Any) -> StreamReader:
    """The reader for these options and columns; where they are wrong, one whose first use raises the ValueError: if
    Spark gets no reader, it fails when it calls `reader.stop()`, and reports that."""
    kind = StreamReader if capabilities.LIMITS.present else SimpleStreamReader
    try:
        chosen = options.parse(given, "stream")
        capabilities.check_options(chosen)
        chosen["view"] = options.VIEWS[0]
        return kind(chosen, columns_of(wanted, chosen))
    except Exception as error:
        return kind(options.SourceOptions(), (), error)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance is on the driver while the query runs; others are made for each plan and pickled to the tasks."""

    def __init__(
        self, chosen: options.SourceOptions, wanted: tuple[SparkColumn, ...], error: Exception | None = None
    ) -> None:
        self.options = chosen
        self.columns = wanted
        self._error = error
        self._listing = Listing(chosen)
        self._logs: _Logs = {}
        self._held_back: Offsets = {}
        self._target_ends: Offsets | None = None
        self._latest: Offsets | None = None

    def __reduce__(self) -> Any:
        """Pickles options and columns; the driver's state of the logs is not needed in tasks."""
        return worker_path.reduce_with_package(type(self), self.options, self.columns)

    def _begin(self) -> None:
        log_to_stderr()
        bootstrap.load()
        if self._error is not None:
            raise self._error

    def _with_logs(self, call: Callable[[_Logs], _T], *, is_first: bool = False) -> _T:
        """`call` with the logs as they are now; again while files that it opens are removed or replaced."""
        self._begin()

        def now(found: dict[TopicPartition, PartitionLog]) -> _T:
            if is_first:
                warn_of_names(self.options, found, self._listing.finder.left_out)
            listed = selection.chosen(self.options, found, must_exist=is_first)
            self._logs = {key: self._logs.get(key) or GrowingLog(self.options) for key in listed}
            for key, log in self._logs.items():
                log.update(listed[key])
            return call(self._logs)

        return self._listing.retry(now)

    # ---- offsets

    @cause_first
    def initialOffset(self) -> OffsetsJson:
        """The offsets that the options request. If that is the log's end, it may be another offset when Spark calls
        this again after a crash; so the first batch reads nothing of such partitions, and the checkpoint then has
        their offsets."""
        return self._with_logs(self._initial_offset, is_first=True)

    def _initial_offset(self, logs: _Logs) -> OffsetsJson:
        warn_of_mode(self.options, self.columns)
        starts = selection.starts(self.options, logs)
        self._held_back = {}
        return to_json({key: self._start(key, log, *starts[key]) for key, log in logs.items()})

    def _start(self, key: TopicPartition, log: GrowingLog, kind: str, requested: int) -> int:
        """The first offset of a partition; holds the first batch back there if it is the current end of the log."""
        if kind == "time":
            offset = log.paths.log.offset_for_timestamp(requested)
            if offset is not None:
                return offset
            if self.options["startingOffsetsByTimestampStrategy"] == "error":
                raise selection.no_record(key, requested)
            requested = selection.LATEST
        if requested == selection.LATEST:
            self._held_back[key] = end = log.stable_end(log.end)
            return end
        if requested == selection.EARLIEST:
            return log.start
        offset = log.available(requested, "startingOffsets asks for")
        missing = log_end.missing_at(log.paths, offset)
        if missing is not None:
            lost(self.options, f"{_name(key)}: startingOffsets asks for {offset}, {missing}")
        return offset

    @cause_first
    def latestOffset(self, start: dict, limit: ReadLimit) -> OffsetsJson:  # type: ignore[type-arg]
        """The end offsets of the next micro-batch; the object `start` itself if there is nothing new."""
        before = parse(start)
        offsets = self._with_logs(lambda logs: self._latest_from(logs, before, limit))
        self._held_back = {}
        return start if offsets == before else to_json(offsets)

    def _latest_from(
        self, logs: _Logs, before: Offsets, limit: ReadLimit | None, *, start_is_known: bool = True
    ) -> Offsets:
        self._report_missing(before, logs)
        starts, ends = {}, {}
        self._latest = {}
        for key, log in logs.items():
            known = before.get(key)
            begin = log.start if known is None else log.available(known, "the next offset is")
            end = latest = max(begin, log.stable_end(begin))
            if self._target_ends is not None:
                end = min(end, max(begin, self._target_ends.get(key, begin)))
            if known is None and end <= begin and start_is_known:
                continue  # with its offsets in the result Spark would start an empty batch
            end = max(begin, min(end, self._held_back.get(key, end)))
            starts[key], ends[key], self._latest[key] = begin, end, latest
        offsets = self._limited(starts, ends, limit)
        for key, log in logs.items():
            log.keep({each[key] for each in (before, starts, offsets) if key in each})
        return offsets

    def _limited(self, starts: Offsets, ends: Offsets, limit: ReadLimit | None) -> Offsets:
        """The end offsets of a micro-batch: the limit in proportion to the lag of each partition, at least one offset,
        as in Spark's Kafka source. A limit of bytes becomes one of offsets by their mean size."""
        lags = {key: ends[key] - start for key, start in starts.items() if ends[key] > start}
        total = sum(lags.values())
        most = total
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = sum(_bytes_in(self._logs[key].between(starts[key], ends[key])[0]) for key in lags)
            most = total * limit.max_bytes // max(1, size)
        if most >= total:
            return ends
        parts = {key: starts[key] + max(1, lag * most // total) for key, lag in lags.items()}
        return ends | {key: min(self._logs[key].uncut(starts[key], at), ends[key]) for key, at in parts.items()}

    def reportLatestOffset(self) -> OffsetsJson | None:
        """The ends of the logs at the last trigger, from which Spark and `lag` compute the query's lag."""
        return None if self._latest is None else to_json(self._latest)

    @cause_first
    def getDefaultReadLimit(self) -> ReadLimit:
        self._begin()
        if self.options["maxOffsetsPerTrigger"] is not None:
            return ReadMaxRows(self.options["maxOffsetsPerTrigger"])
        if self.options["maxBytesPerTrigger"] is not None:
            return ReadMaxBytes(self.options["maxBytesPerTrigger"])
        return ReadAllAvailable()

    @cause_first
    def prepareForTriggerAvailableNow(self) -> None:
        self._target_ends = self._with_logs(lambda logs: {key: log.end for key, log in logs.items()})
        for key, log in self._logs.items():
            incomplete = log.incomplete_end()
            if incomplete is not None:
                reading.logger.warning(
                    "%s: the log stops in mid-batch after offset %d, and this query ends there; %s from byte %d on, "
                    "%d bytes, has no whole batch",
                    *(_name(key), log.end - 1, incomplete.file, incomplete.position, incomplete.length),
                )

    # ---- batches

    @cause_first
    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        before, after = parse(start), parse(end)
        splits = self._with_logs(lambda logs: self._splits(logs, before, after))
        columns.check_key_values(splits, self.columns)
        return [planning.Task(each) for each in planning.tasks(self.options, splits)]

    def _splits(self, logs: _Logs, before: Offsets, after: Offsets) -> list[Split]:
        self._report_missing(after, logs)
        partitions: dict[TopicPartition, PartitionLog] = {}
        ranges: dict[TopicPartition, OffsetRange] = {}
        transactions: dict[TopicPartition, Uncommitted] = {}
        for key in after.keys() & logs.keys():
            log, stop = logs[key], after[key]
            begin = before.get(key, log.start)
            if begin >= stop:
                continue
            if key in before:
                begin = log.available(begin, "the batch begins at")
            stop = log.available(stop, "the batch ends at")
            if begin < stop:
                partitions[key], ranges[key] = log.between(begin, stop)
                transactions[key] = log.uncommitted(begin, stop)
        return planning.plan(self.options, dict(sorted(partitions.items())), ranges, transactions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        log_to_stderr()
        return reading.read_splits(partition.value or (), self.options, self.columns)

    # ---- what no longer exists

    def _report_missing(self, before: Offsets, logs: _Logs) -> None:
        gone = sorted(set(before) - set(logs))
        if gone:
            names = ", ".join(f"{_name(key)} (next offset {before[key]})" for key in gone)
            lost(self.options, f"{names}: no segments are left")


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
        known = self._reached is not None
        before = self._reached or {}
        offsets = self._with_logs(lambda logs: self._latest_from(logs, before, None, start_is_known=known))
        self._held_back = {}
        return to_json(offsets)

    @cause_first
    def partitions(self, start: dict, end: dict) -> list[InputPartition]:  # type: ignore[type-arg]
        tasks = super().partitions(start, end)
        self._reached = parse(end)
        return tasks

    def _splits(self, logs: _Logs, before: Offsets, after: Offsets) -> list[Split]:
        if self._reached is None:  # what was lost before the restart
            self._report_missing(before, logs)
            for key, log in logs.items():
                if before.get(key, 0) > after.get(key, 0):
                    log.available(before[key], "the next offset is")
        return super()._splits(logs, before, after)


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _bytes_in(part: PartitionLog) -> int:
    """The bytes to read; of a compressed file, whose content has an unknown size, those of the file; a remote one is
    not counted."""
    lengths = ((each.path, part.length(number)) for number, each in enumerate(part.segments))
    return sum((0 if "://" in path else os.stat(path).st_size) if size is None else size for path, size in lengths)


class _LogBatch(NamedTuple):
    """A batch in the bytes [begin, end) of a segment, with the fingerprint that tells whether it is still there. All
    are 0 for the start of a segment, before its first batch."""

    path: str
    begin: int = 0
    end: int = 0
    first_offset: int = 0
    next_offset: int = 0
    fingerprint: bytes = b""


class GrowingLog:
    """One partition's log, and what is known of it from one trigger to the next. On the driver.

    paths        its segments, as of the last update
    late         those in folders that have appeared since the update before. A folder of an archive may appear after
                 the following one; a broker adds segments at the end only, to the folder that exists
    start        the first segment's base offset
    end          the log end offset
    rewritten    the offsets before which the last segment had other batches since the last call of `keep`
    """

    def __init__(self, chosen: options.SourceOptions) -> None:
        self._options = chosen
        self._before: dict[int, _LogBatch] = {}  # offset -> the last batch that begins below it
        self._seen: Any = None
        self._seen_since, self._is_settled = 0.0, False
        self._folders: set[str] = set()
        self._aborted: dict[tuple[int, int], int] = {}
        self._transactions_of: Any = None
        self._stable = 0
        self.late: list[kafkarec.Segment] = []
        self.rewritten: set[int] = set()
        self.start = self.end = 0

    def update(self, found: PartitionLog) -> None:
        """Takes a new listing, and reads what is new at the log's end."""
        self.paths, self.start = found, found.segments[0].base_offset or 0
        known, filled = self._folders, [each for each in found.segments if each.listed_size != 0]
        self._folders = {os.path.dirname(each.path) for each in filled}
        self.late = [each for each in filled if known and os.path.dirname(each.path) not in known]
        last = found.segments[-1].path
        is_remote, now = "://" in last, time.monotonic()
        status = None if is_remote else os.stat(last)
        times = status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        seen = [(each.path, each.listed_size) for each in found.segments], times
        if self._seen != seen:
            self._seen, self._seen_since, self._is_settled = seen, now, False
        if self._is_settled:
            return
        self._forget_replaced()
        batch, end = self._last_batch(), self.end
        self.end = batch.next_offset
        if self.rewritten or self.end < end:
            self._transactions_of = None
        self._before[self.end] = batch
        self._is_settled = is_remote or now - self._seen_since > _SETTLED_SECONDS

    def _forget_replaced(self) -> None:
        """Forgets batches that are no longer there. In the last segment that is a loss of data; others may have been
        compacted or deleted."""
        existing = {each.path for each in self.paths.segments}
        gone = {at for at, batch in self._before.items() if batch.path not in existing or not self._is_there(batch)}
        last = self.paths.segments[-1].path
        self.rewritten |= {at for at in gone if self._before[at].path == last}
        self._before = {at: batch for at, batch in self._before.items() if at not in gone}

    def _is_there(self, batch: _LogBatch) -> bool:
        from kafkarec import distributed

        if not batch.fingerprint:
            return True
        with self._opened(batch.path) as opened:
            return distributed.is_unchanged(opened, batch.begin, batch.end, batch.fingerprint)

    def _opened(self, path: str) -> kafkarec.Segment:
        return paths.open_segment(path, self._options, self.paths.topic, self.paths.partition)

    def _last_batch(self) -> _LogBatch:
        """The last batch whose frame and checksum are right."""
        for segment in reversed(self.paths.segments):
            found = self._last_of(segment, NO_END, is_whole=True)
            if found.end:
                return found
        return _LogBatch(self.paths.segments[0].path, next_offset=self.start)

    def _last_of(self, segment: kafkarec.Segment, offset: int, *, is_whole: bool = False) -> _LogBatch:
        """The last batch of a segment that begins below an offset, is_whole: with a right checksum; the segment's start
        if there is none. It is searched from the last known one on, or if that may be far from an entry of the
        .index."""
        from kafkarec import distributed

        known = [each for each in self._before.values() if each.path == segment.path and each.next_offset <= offset]
        found = max(known, key=lambda each: each.end, default=_LogBatch(segment.path))
        with self._opened(segment.path) as opened:
            size = opened.size
            if is_whole and found.end and not segment.later_segment and _incomplete(opened, found.end) is None:
                size = min(size, found.end + _ZEROS_SEARCHED)
            # the last entry below the offset: at one of the offset itself, damage before that batch would be missed
            indexed = 0 if is_whole and found.end else opened.position_of(offset - 1)
            for begin in dict.fromkeys((max(found.end, indexed), found.end)):
                below = takewhile(lambda each: each.first_offset < offset, _batches(opened, begin, size))
                for batch in reversed(deque(below, None if is_whole else 1)):
                    if not is_whole or distributed.has_valid_checksum(opened, batch.begin, batch.end):
                        return batch._replace(fingerprint=distributed.fingerprint(opened, batch.begin))
        return found

    def available(self, offset: int, why: str) -> int:
        """The offset itself; if the log does not have it, reports data loss and returns the log's start or end. why:
        what asks for it, before the offset."""
        nameless = self.paths.topic is None or self.paths.partition is None
        name = self.paths.segments[0].path if nameless else f"{self.paths.topic}-{self.paths.partition}"
        late = next((each for each in self.late if (each.base_offset or 0) < offset), None)
        if late is not None:
            lost(
                self._options,
                f"{name}: {late.path} has appeared, and offsets up to {offset - 1} were read before it",
            )
        problem = None
        if offset < self.start:
            problem = f"the log begins at offset {self.start}: it was truncated"
        elif offset > self.end:
            problem = f"the log ends at offset {self.end}: it was truncated"
        elif offset in self.rewritten:
            problem = "the log was truncated before it and written again"
        if problem is not None:
            lost(self._options, f"{name}: {why} {offset}, and {problem}")
        return min(max(offset, self.start), self.end)

    def incomplete_end(self) -> kafkarec.Damage | None:
        """The incomplete batch after the log's end; None: there is none, or the file is gone."""
        last, batch = self.paths.segments[-1].path, self._before[self.end]
        try:
            with self._opened(last) as opened:
                return _incomplete(opened, batch.end if batch.path == last else 0)
        except FileNotFoundError:
            return None

    # ---- the bytes between two offsets

    def _last_below(self, offset: int) -> _LogBatch:
        """The last batch that begins below an offset."""
        if offset not in self._before:
            segment = self.paths.segments[self.paths.in_range(None, offset)[-1]]
            self._before[offset] = self._last_of(segment, offset)
        return self._before[offset]

    def between(self, start: int, stop: int) -> tuple[PartitionLog, OffsetRange]:
        """The segments with the bytes between two offsets; the offsets themselves where they are inside of a batch."""
        first, last = self._last_below(start), self._last_below(stop)
        is_cut = start < first.next_offset
        names = [each.path for each in self.paths.segments]
        chosen = self.paths.segments[names.index(first.path) : names.index(last.path) + 1]
        after_first = CutPoint(first.end, max(first.next_offset, chosen[0].base_offset or 0))
        begin = CutPoint(first.begin, start) if is_cut else after_first
        ranges = start if is_cut else None, stop if stop < last.next_offset else None
        return self.paths._replace(segments=chosen, begin=begin, end=CutPoint(last.end, stop)), ranges

    def uncut(self, start: int, stop: int) -> int:
        """The offset at or below `stop` at which no batch is cut, which would be decompressed twice. One that begins at
        `start` or below is cut; if it is damaged, which would be reported twice, it is the offset after it."""
        from kafkarec import distributed

        batch = self._last_below(stop)
        if batch.next_offset <= stop:
            return stop
        if batch.first_offset > start:
            return batch.first_offset
        with self._opened(batch.path) as opened:
            return stop if distributed.has_valid_checksum(opened, batch.begin, batch.end) else batch.next_offset

    def keep(self, offsets: set[int]) -> None:
        """Forgets all batches but those at these offsets and at the ends, and the aborted transactions before them."""
        self._before = {
            at: batch for at, batch in self._before.items() if at in offsets or at in (self.end, self._stable)
        }
        self.rewritten.clear()
        first = min(offsets, default=0)
        self._aborted = {ids: begin for ids, begin in self._aborted.items() if ids[1] >= first}

    # ---- transactions

    def stable_end(self, start: int) -> int:
        """Where reading from `start` on ends: with read_committed at the last stable offset."""
        if planning.is_read_committed(self._options) and self._transactions_of != (self._seen, self.end):
            # all transactions that began before the last stable offset have ended
            if self._transactions_of is None:
                self._aborted.clear()
                found = isolation.read_transactions(self.paths, self._options, start)
            else:
                found = isolation.read_transactions(self.between(self._stable, self.end)[0], self._options, None)
            for producer, first, marker in found.aborted:
                self._aborted[producer, marker] = min(first, self._aborted.get((producer, marker), first))
            self._stable = min(found.last_stable_offset, self.end)
            self._transactions_of = self._seen, self.end
        return self.end if self._transactions_of is None else self._stable

    def uncommitted(self, start: int, stop: int) -> Uncommitted:
        """What read_committed leaves out between two offsets."""
        self.stable_end(start)
        spans = sorted((producer, first, marker) for (producer, marker), first in self._aborted.items())
        return Uncommitted(tuple(each for each in spans if each[1] < stop and each[2] >= start), stop)


def _incomplete(opened: kafkarec.Segment, position: int) -> kafkarec.Damage | None:
    """The incomplete batch from a position to the file's end; None: there is nothing, or zeros (preallocated)."""
    from kafkarec import distributed

    return distributed.incomplete_end(opened, position, max(0, opened.size - position), None)


def _batches(opened: kafkarec.Segment, begin: int, end: int) -> Iterator[_LogBatch]:
    """The batches in these bytes, in order. A wrapper message has no first offset; the next offset of the batch before
    it is used."""
    before = opened.base_offset or 0
    part = opened.between(min(begin, end), end).copy(later_segment=False)
    with closing(part.scan_pieces(errors="skip")) as tables:
        for table in tables:
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "next_offset")
            for position, size, base, last, following in zip(*map(table.column, names), strict=True):
                first = min(before, last) if base is None else base
                yield _LogBatch(opened.path, position, position + size, first, following)
                before = following
