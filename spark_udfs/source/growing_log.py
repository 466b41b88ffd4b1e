"""One partition's log while it grows: what is new, and whether what was read is still there. On the driver.

    00000000000000000000.log  [batch][batch][batch]            a later segment exists: this one no longer grows
    00000000000000000300.log  [batch][batch][ba                the last one: half a batch or zeros are not read yet
                                            ^ the log's end: after the last batch whose frame and checksum are right

A stream and `write_table` read from one offset to another one: the bytes from the end of the last batch before the
first of them to the end of the last batch before the other. So every byte, and damage with it, is read exactly once,
whatever is written meanwhile. A last batch whose offsets do not rise waits for the one behind it, which may prove
others.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from spark_udfs import decoding
from spark_udfs.bootstrap import distributed, kafkarec
from spark_udfs.errors import logger, warn_of_some

from . import gaps, log_batches, options, paths, planning
from .listing import report_loss
from .log_batches import LogBatch
from .paths import NO_END, PartitionLog, Partitions, TopicPartition, Uncommitted

# In a preallocated file zeros follow the last batch; the next batch is searched in this many bytes of them.
_ZEROS_SEARCHED = 1 << 20
# So many batches in a row whose offsets do not rise may be before an offset.
_MISFITS = 64
# So many last batches wait if each is behind a gap: more than one may be damaged.
_GAPS = 2
# A file is not opened again while its size and times stay the same, once they have been so for this long: file systems
# round times, to seconds at worst.
_SETTLED_SECONDS = 3.0


class GrowingLog:
    """One partition's log, and what is known of it from one listing to the next.

    listed_log   its segments, as of the last update
    late         those in folders that have appeared since the last call of `forget_except`. A folder of an archive may
                 appear after the following one; a broker adds segments at the end only, to the folder that exists
    start        the first segment's base offset
    end          the offset after the last batch; `clamp_reporting_loss` knows a last segment without batches, too
    waiting      the last batch if it is not read yet, and why
    rewritten    the offsets before which the last segment had other batches since then
    """

    def __init__(self, chosen: options.ReadOptions) -> None:
        self._options = chosen
        # offset -> the last batch that begins below it, of one that was read to the last one read: a damaged offset may
        # have looked higher then, and what is behind that batch is still to be read
        self._before: dict[int, LogBatch] = {}
        self._ends: dict[tuple[str, int | None], int] = {}  # path and size of a segment before the last one -> its end
        self._seen: Any = None
        self._seen_since, self._is_settled = 0.0, False
        self._aborted: dict[tuple[int, int], int] = {}
        self._is_damaged = False
        self._warned: set[str] = set()  # about undecided transactions
        self._transactions_of: Any = None
        self._stable = 0
        self.waiting: tuple[LogBatch, str] | None = None
        self._last = LogBatch("")
        self._placed = -1  # the offset that was last compared with the batches around it
        self._packed: set[str] = set()
        self.late: list[kafkarec.Segment] = []
        self.rewritten: set[int] = set()
        self.listed_log = PartitionLog(None, None, (), {})
        self.start = self.end = 0

    def update(self, found: PartitionLog) -> None:
        """Takes a new listing, and reads what is new at the log's end."""
        known = {os.path.dirname(each.path) for each in self.listed_log.segments if each.listed_size != 0}
        bases = {each.base_offset for each in self.listed_log.segments}
        added = min((each.base_offset or 0 for each in found.segments if each.base_offset not in bases), default=NO_END)
        self.listed_log, self.start = found, found.segments[0].base_offset or 0
        filled = [each for each in found.segments if each.listed_size != 0]
        self.late += [each for each in filled if known and os.path.dirname(each.path) not in known]
        last = found.segments[-1].path
        is_remote, now = "://" in last, time.monotonic()
        status = None if is_remote else os.stat(last)
        times = status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        seen = [(each.path, each.listed_size) for each in found.segments], times
        if self._seen != seen:
            self._seen, self._seen_since, self._is_settled = seen, now, False
        if self._is_settled:
            return
        # forgets batches that are no longer there: in the last segment that is a loss of data; others may have been
        # compacted or deleted, but then no new segment begins below an offset that was read
        existing = {each.path for each in found.segments}
        for at, batch in [*self._before.items()]:
            is_there = batch.path in existing
            if is_there and batch.fingerprint:
                with self._open_segment(batch.path) as opened:
                    is_there = distributed.is_unchanged(opened, batch.begin, batch.end, batch.fingerprint)
                    if is_there and batch.path == self._last.path != last:
                        next_base = self._next_base(batch.path)
                        every = log_batches.batches(opened, batch.context_begin, opened.size, next_base)
                        self._before[at] = batch.as_proven_by(every)
            if not is_there:
                del self._before[at]
                if batch.path == last or added < at:
                    self.rewritten.add(at)
        waiting, self.waiting = self.waiting, None
        ends = (self._find_last_batch(each, NO_END, is_whole=True) for each in reversed(found.segments))
        nothing = LogBatch(found.segments[0].path, next_offset=self.start)
        batch, end = next((each for each in ends if each.end), nothing), self.end
        if not batch.end:
            self._warn_of_gzip(filled)
        if self.waiting is not None and self.waiting != waiting:
            logger.warning("%s", self.waiting[1])
        self.end = batch.next_offset
        # a last batch that waits, and a last segment without one whose predecessors were compacted away, are no loss
        known_end = max(
            self.end, found.segments[-1].base_offset or 0, self.waiting[0].next_offset if self.waiting else 0
        )
        if known_end < end:
            logger.warning(
                "%s: the log ended at offset %d, and ends at %d now: it was truncated, and what this query has not "
                "read of the rest is lost",
                paths.display_url(last),
                end,
                known_end,
            )
        if self.rewritten or self.end < end:
            self._transactions_of = None
        self._last = batch
        self._before.setdefault(self.end, batch)
        self._is_settled = is_remote or now - self._seen_since > _SETTLED_SECONDS

    def _warn_of_gzip(self, filled: Sequence[kafkarec.Segment]) -> None:
        """Logs once which files of a log without batches have content that is compressed as a whole."""
        for path in [each.path for each in filled if each.listed_size is not None and each.path not in self._packed]:
            with self._open_segment(path) as opened:
                if opened.raw(0, len(decoding.GZIP)) == decoding.GZIP:
                    self._packed.add(path)
                    logger.warning("%s: no batch is read of it; %s", paths.display_url(path), decoding.GZIP_FILE_NOTE)

    def _open_segment(self, path: str) -> kafkarec.Segment:
        return paths.open_segment(path, self._options.storageOptions, self.listed_log.topic, self.listed_log.partition)

    def _find_last_batch(self, segment: kafkarec.Segment, offset: int, *, is_whole: bool = False) -> LogBatch:
        """The last batch of a segment that begins below an offset, is_whole: with a right checksum; the segment's start
        if there is none. It is searched from the last known one on, or if that may be far from an entry of the
        .index."""
        known = [each for each in self._before.values() if each.path == segment.path and each.next_offset <= offset]
        found = max(known, key=lambda each: each.end, default=LogBatch(segment.path))
        next_base = self._next_base(segment.path)
        with self._open_segment(segment.path) as opened:
            size = opened.size
            if is_whole and found.end and not segment.later_segment and _incomplete_batch(opened, found.end) is None:
                size = min(size, found.end + _ZEROS_SEARCHED)
            # the last entry below the offset: at one of the offset itself, damage before that batch would be missed
            indexed = 0 if is_whole and found.end else opened.position_of(offset - 1)
            if is_whole and indexed:  # from the entry before it, as the last batch is compared with the one before it
                indexed = opened.position_of((distributed.first_offset(opened, indexed) or 0) - 1)
            # with the known one, to which the offsets behind it have to rise
            start = found.context_begin
            for begin in dict.fromkeys((max(start, indexed), start)):
                every = log_batches.batches(opened, begin, size, next_base)
                if is_whole:
                    below = deque(every)
                    now = found.as_proven_by(below)
                    self._before |= {at: now for at, batch in self._before.items() if batch is found}
                    found = now
                    self._hold_back(opened, below, next_base)
                else:
                    below = deque(takewhile(lambda each: each.is_misfit or each.first_offset < offset, every), _MISFITS)
                    # behind a batch that ends at the offset none is below it: it is not known which of the two is wrong
                    while len(below) > 1 and below[-2].next_offset >= offset and not below[-2].is_misfit:
                        below.pop()
                for batch in reversed(below):
                    if batch.end <= found.end:
                        return found
                    if batch.is_misfit:
                        found = found._replace(context=start)
                    elif not is_whole or batch.restored or distributed.has_valid_checksum(opened, *batch[1:3]):
                        return batch._replace(fingerprint=distributed.fingerprint(opened, batch.begin))
        return found

    def _next_base(self, path: str) -> int | None:
        return self.listed_log.next_base_offset(self._number(path))

    def _number(self, path: str) -> int:
        return [each.path for each in self.listed_log.segments].index(path)

    def _hold_back(self, opened: kafkarec.Segment, found: deque[LogBatch], next_base: int | None) -> None:
        """Removes the last batches if their offsets do not rise up to the next segment's; in FAILFAST mode, where
        nothing is restored, that is a CorruptRecordError. In the last segment also a batch that does not continue the
        one before it: if its offset is damaged, the right ones follow it, maybe below an offset that was passed."""
        held_back, why, gaps_left = list[LogBatch](), "", 0 if next_base is not None else _GAPS
        while found:
            last = found[-1]
            low = last.first_offset if opened.base_offset is None else opened.base_offset
            before = found[-2] if len(found) > 1 else LogBatch("", next_offset=low)
            if last.is_misfit or last.next_offset > (NO_END if next_base is None else next_base):
                error = planning.order_error(last.path, last.begin, last.first_offset)
                if self._options.mode == "FAILFAST":
                    raise error
                why = why or str(error)
            elif gaps_left and last.begin == before.end and last.first_offset != before.next_offset:
                # of a compacted log others are behind gaps, too; but of two that fall either one may be damaged
                gaps_left -= last.first_offset > before.next_offset
                file, offsets = paths.display_url(last.path), f"{last.first_offset}, and not {before.next_offset}"
                why = why or f"{file}: the batch at byte {last.begin} begins at offset {offsets}"
            else:
                break
            held_back.append(found.pop())
        if held_back and self.waiting is None:
            self.waiting = held_back[0], f"{why}; it is not read before one behind it proves its offset"

    def clamp_reporting_loss(self, offset: int, why: str, *, is_end: bool = False) -> int:
        """The offset itself, which may be one up to a last batch that waits; if the log does not have it, reports data
        loss and returns the log's start or end. why: what asks for it, before the offset. is_end: as the end of what is
        read; it may be missing between segments, and a batch that waits is not read."""
        nameless = self.listed_log.topic is None or self.listed_log.partition is None
        name = self.listed_log.segments[0].path if nameless else f"{self.listed_log.topic}-{self.listed_log.partition}"
        late = next((each for each in self.late if (each.base_offset or 0) < offset), None)
        if late is not None:
            report_loss(
                self._options,
                f"{name}: {late.path} has appeared, and offsets up to {offset - 1} were read before it",
            )
        # the last segment, a broker's new one, may be empty, and what was before it compacted away
        problem, end = None, max(self.end, self.listed_log.segments[-1].base_offset or 0)
        known_end = end if self.waiting is None or is_end else max(end, self.waiting[0].next_offset)
        if offset < self.start:
            allowed = ", or where leaves its first folders out" if self._options.where else ""
            problem = f"and the log begins at offset {self.start}: it was truncated{allowed}"
        elif offset > known_end:
            problem = f"and the log ends at offset {end}: it was truncated"
        elif offset in self.rewritten:
            problem = "and the log was truncated before it and written again"
        elif not is_end and self._gap_end(offset) is not None:
            problem = gaps.missing_offset_text(self.listed_log, offset)
        if problem is not None:
            report_loss(self._options, f"{name}: {why} {offset}, {problem}")
        elif not is_end and offset not in self._before and offset != self._placed:  # as in a new process
            self._placed = offset
            self._warn_of_place(offset, f"{name}: {why} {offset}")
        return end if offset > known_end else max(offset, self.start)

    def _warn_of_place(self, offset: int, what: str) -> None:
        """Logs that an offset is no border of batches, nor in a batch whose offsets are proven, or that two end there:
        then it is not known which batches were read up to it."""
        batch = self._find_batch_below(offset)
        if batch.next_offset > offset and batch.may_cut:
            return
        if batch.next_offset <= offset:
            with self._open_segment(batch.path) as opened:
                behind = next(log_batches.batches(opened, batch.end, opened.size, self._next_base(batch.path)), None)
                if behind is None or opened.base_offset == offset:
                    return
            if batch.next_offset == offset:  # of two that end there either one may be damaged
                if behind.next_offset != offset or behind.restored or behind.is_misfit:
                    return
            elif behind.may_cut and behind.first_offset == offset:
                return
        owner = self.listed_log.topic, self.listed_log.partition
        if batch.next_offset == offset or not distributed.is_compacted(batch.path, *owner):
            logger.warning(
                "%s, where no batch of %s begins or ends, or two end, from byte %d on: unless the topic is compacted, "
                "an offset is damaged there, and records may be read twice, or not at all",
                *(what, paths.display_url(batch.path), batch.begin),
            )

    def _gap_end(self, offset: int) -> int | None:
        """Of an offset after the last batch of a segment and before the next segment: where that begins; else None."""
        number = self.listed_log.segments_in_range(None, offset + 1)[-1]
        segment, after = self.listed_log.segments[number], self.listed_log.next_base_offset(number)
        if after is None or after <= offset:
            return None
        key = segment.path, segment.listed_size
        if key not in self._ends:
            last = self._find_last_batch(segment, after)
            self._ends[key] = last.next_offset if last.may_cut or last.end else after
        return after if self._ends[key] <= offset else None

    def incomplete_end(self) -> kafkarec.Damage | None:
        """The incomplete batch after the log's end; None: there is none, or the file is gone."""
        last, batch = self.listed_log.segments[-1].path, self.waiting[0] if self.waiting else self._last
        try:
            with self._open_segment(last) as opened:
                return _incomplete_batch(opened, batch.end if batch.path == last else 0)
        except FileNotFoundError:
            return None

    # ---- the bytes between two offsets

    def _last_batch_below(self, offset: int) -> LogBatch:
        """The last batch that begins below an offset; of one up to which this process has read, the last one read."""
        if offset not in self._before:
            self._before[offset] = self._find_batch_below(offset)
        return self._before[offset]

    def _find_batch_below(self, offset: int) -> LogBatch:
        segment = self.listed_log.segments[self.listed_log.segments_in_range(None, offset)[-1]]
        return self._find_last_batch(segment, offset)

    def between_offsets(self, start: int, stop: int) -> PartitionLog:
        """The segments with the bytes between two offsets, which are `wanted` where they are inside of a batch."""
        first, last = self._last_batch_below(start), self._last_batch_below(stop)
        is_cut = start < first.next_offset
        chosen = [*self.listed_log.segments[self._number(first.path) : self._number(last.path) + 1]]
        first_offset = start if is_cut else max(first.next_offset, chosen[0].base_offset or 0)
        chosen[0] = chosen[0].copy(begin=first.begin if is_cut else first.end)
        chosen[-1] = chosen[-1].copy(end=last.end)
        wanted = start if is_cut else None, stop if stop < last.next_offset else None
        if self._options.mode == "FAILFAST":  # where nothing is restored
            first = first._replace(context=None)
            for each in (first, last) if is_cut else (last,):
                if "base_offset" in each.restored:
                    raise planning.order_error(each.path, each.begin, each.first_offset)
        return self.listed_log._replace(
            segments=tuple(chosen), first_offset=first_offset, wanted=wanted, context=first.context
        )

    def end_between_batches(self, start: int, stop: int) -> int:
        """The offset at or below `stop` at which no batch is cut, which would be decompressed twice. One that begins at
        `start` or below is cut, unless it is damaged, which would be reported twice, or damaged ones are read with it,
        whose offsets may be above the cut. Between two segments it is the start of the second one: a batch that began
        before it would look as if data were lost. Otherwise, as beside a restored batch, it is the first one behind
        that at which a cut leaves what proves it; of a segment without one the start of the next one, or the log's
        end."""
        first, batch = self._last_batch_below(start), self._last_batch_below(stop)
        if batch.may_cut and batch.next_offset > start:
            if batch.next_offset <= stop:
                return self._gap_end(stop) or batch.next_offset
            if batch.first_offset > start:
                return batch.first_offset
            with self._open_segment(batch.path) as opened:
                is_good = distributed.has_valid_checksum(opened, batch.begin, batch.end)
            lengths = map(paths.read_length, self.between_offsets(start, stop).segments)
            if is_good and first.may_cut and [*filter(None, lengths)] == [batch.end - batch.begin]:
                return stop
        elif first.may_cut and first.next_offset > start:
            return first.next_offset
        next_base = self._next_base(batch.path)
        with self._open_segment(batch.path) as opened:
            every = log_batches.batches(opened, batch.context_begin, opened.size, next_base)
            behind = (each for each in every if each.begin >= batch.end)
            for each in islice(behind, int(batch.next_offset <= start), None):  # a micro-batch has at least one
                if each.may_cut and each.first_offset > start:
                    return each.first_offset
        return self.end if next_base is None else next_base

    def forget_except(self, offsets: set[int]) -> None:
        """Forgets all batches but those at these offsets and at the ends, and the aborted transactions before them."""
        self._before = {
            at: batch for at, batch in self._before.items() if at in offsets or at in (self.end, self._stable)
        }
        self.rewritten.clear()
        self.late.clear()
        first = 0 if self._is_damaged else min(offsets, default=0)
        self._aborted = {ids: begin for ids, begin in self._aborted.items() if ids[1] >= first}

    # ---- transactions

    def stable_end(self, start: int) -> int:
        """Where reading from `start` on ends: with read_committed at the last stable offset."""
        if self._options.is_read_committed and self._transactions_of != (self._seen, self.end):
            # all transactions that began before the last stable offset have ended
            is_first = self._transactions_of is None
            if is_first:
                self._aborted.clear()
                self._is_damaged = False
            # up to the end: no marker of a batch that waits for others to prove its offset
            if is_first:
                *earlier, last = self.listed_log.segments[: self._number(self._last.path) + 1]
                part = self.listed_log._replace(segments=(*earlier, last.copy(end=self._last.end)))
            else:
                part = self.between_offsets(self._stable, self.end)
            found = planning.read_transactions(part, self._options, start if is_first else None)
            self._is_damaged |= found.is_damaged
            warn_of_some([one for one in found.undecided if one not in self._warned], "more undecided transactions")
            self._warned.update(found.undecided)
            for producer, first, marker in found.aborted:
                self._aborted[producer, marker] = min(first, self._aborted.get((producer, marker), first))
            self._stable = min(found.last_stable_offset, self.end)
            self._transactions_of = self._seen, self.end
        return self.end if self._transactions_of is None else self._stable

    def uncommitted(self, start: int, stop: int) -> Uncommitted:
        """What read_committed leaves out between two offsets. Their bytes are read, and so a batch of these with a
        damaged offset that is not between them."""
        self.stable_end(start)
        spans = sorted((producer, first, marker) for (producer, marker), first in self._aborted.items())
        if not self._is_damaged:
            spans = [each for each in spans if each[1] < stop and each[2] >= start]
        return Uncommitted(tuple(spans), NO_END, self._is_damaged)


def plan_splits(
    chosen: options.ReadOptions, spans: Mapping[TopicPartition, tuple[GrowingLog, int, int]]
) -> list[planning.Split]:
    """The splits of what each partition's log has between two offsets, in order of the partitions."""
    parts: Partitions = {}
    for key in sorted(spans):
        log, begin, end = spans[key]
        if begin < end:
            parts[key] = log.between_offsets(begin, end)._replace(uncommitted=log.uncommitted(begin, end))
    return planning.plan_splits(chosen, parts)


def _incomplete_batch(opened: kafkarec.Segment, position: int) -> kafkarec.Damage | None:
    """The incomplete batch from a position to the file's end; None: there is nothing, or zeros (preallocated)."""
    return distributed.incomplete_end(opened, position, max(0, opened.size - position), None)
