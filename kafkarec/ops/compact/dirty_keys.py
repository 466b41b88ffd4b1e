"""The keys of the dirty part of a log, read in one walk with its state (Kafka: Cleaner.buildOffsetMap)

    steps -> waiting keys -> OffsetMap    in the log's order, batch by batch, once it is known that they belong there

Keys of committed records below the first uncleanable offset belong there. That is known of a batch when all
transactions that began at or before it have ended.

Memory: of the steps that wait for the end of a transaction only headers, keys and offsets are kept, about 64 MiB at
most. If there are more, all of them are dropped, and keys are read from there on in a walk of their own, when all
transactions are known: up to where the log can be cleaned, so none if the transaction hangs. What follows damage is
read that way, too: damage is an error only in what can be cleaned, and not in the payloads of aborted transactions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite.batches import Progress, steps
from kafkarec.read.decode_options import request
from kafkarec.read.walk import MARKERS, asked
from kafkarec.recover.steps import MARKER_COLUMNS, Step

from .cleaner_settings import CleanerSettings
from .offset_map import OffsetMap

_MOST_WAITING = 64 << 20
_OBJECTS = 1024  # bytes of the Python objects of a step that waits, about
_STATE = asked(MARKERS, restore=False)
_Span = tuple[int, int, int]


def first_at(found: Iterable[Step], offset: int) -> int | None:
    """The position of the first batch with this last offset or a later one; None: there is none."""
    for step in found:
        for row, last in enumerate(step.column("last_offset")):
            if last >= offset:
                return step.rows.span(row)[0]
    return None


class _Waiting:
    """The keys and offsets of a step, copied: its chunk has values, too. aborted: transactions that may be in it."""

    def __init__(self, step: Step, segment: int) -> None:
        self.rows, self.last_offset, self.segment = step.rows, step.last_offset, segment
        self.aborted: list[_Span] = []
        chunk = step.chunk
        parts = () if chunk is None else (chunk.runs(), chunk.column(0, 8)[1], *chunk.column(1, 0))
        copies: list[Any] = [None if part is None else bytes(part) for part in parts] or [b"", b""]
        self.runs, self.offsets, self.keys = copies[0], memoryview(copies[1]).cast("q"), tuple(copies[2:])
        self.size = _OBJECTS + self.rows.raw().nbytes + sum(len(part) for part in copies if part)


class DirtyKeys:
    """Puts the keys of a log into an OffsetMap.

    end_offset   batches with this offset or a later one do not belong there
    unread       (segment, position) from which on `read_rest` has to read; None: all keys are read
    """

    def __init__(self, offsets: OffsetMap, settings: CleanerSettings) -> None:
        self.end_offset = settings.first_uncleanable_offset
        self.unread: tuple[int, int] | None = None
        self._offsets, self._first_dirty = offsets, settings.first_dirty_offset
        self._request = request(
            columns=("offset", *MARKER_COLUMNS),
            control=True,
            check_crcs=settings.check_crcs,
            max_decompressed_bytes=settings.max_decompressed_bytes,
        )
        self._is_reading, self._is_dirty = True, self._first_dirty == 0  # whether the dirty part has begun
        self._waiting: deque[_Waiting] = deque()
        self._start = self._size = 0  # the first undecided batch of the first waiting step; bytes of all

    def steps(self, segment: Any, number: int, progress: Progress) -> Iterator[Step]:
        """The steps of a segment with the records of its control batches; `settle` is called after each that has
        batches. KafkaRecordError if batches cannot be delimited or control batches cannot be read."""
        position = 0
        if not self._is_dirty:
            for step in steps(segment, _STATE, progress):
                if len(step) and step.last_offset >= self._first_dirty:
                    break
                yield step
            else:
                return
            self._is_dirty, position = True, first_at([step], self._first_dirty) or 0
            yield from steps(segment, _STATE, progress, position, start=step.rows.span(0)[0])
        if self._is_reading:
            try:
                for step in steps(segment, self._request, progress, start=position):
                    if len(step):
                        self._add(step, number)
                        position = step.rows.span(len(step) - 1)[1]
                    yield step
                    if not self._is_reading:
                        break
                else:
                    return
            except KafkaRecordError:
                self._is_reading, self.unread = False, (number, position)
        yield from steps(segment, _STATE, progress, start=position)

    def _add(self, step: Step, segment: int) -> None:
        self._waiting.append(_Waiting(step, segment))
        self._size += self._waiting[-1].size

    def settle(self, aborted: Iterable[AbortedTransaction], first_open: int | None) -> None:
        """Puts the keys that are decided after a step. aborted: the transactions that it ended; first_open: the first
        offset of the oldest open one."""
        for one in aborted:
            for step in reversed(self._waiting):
                if step.last_offset < one.first_offset:
                    break
                step.aborted.append((one.producer_id, one.first_offset, one.last_offset))
        end_offset = self.end_offset if first_open is None else min(first_open, self.end_offset)
        while self._waiting:
            step = self._waiting[0]
            self._put(step, end_offset)
            if self._start == len(step.rows):
                self._size -= self._waiting.popleft().size
                self._start = 0
            elif self._size > _MOST_WAITING:
                self._leave((step.segment, step.rows.span(self._start)[0]))
            else:
                self._is_reading = self._is_reading and self._waiting[-1].last_offset < self.end_offset
                return

    def _put(self, step: _Waiting, end_offset: int) -> None:
        """Puts the batches of the first waiting step below an offset."""
        self._start, _, spans = step.rows.committed(step.runs, step.aborted, self._start, end_offset)
        if spans and step.offsets[spans[0][0]] < self._first_dirty:
            spans = [(bisect_left(step.offsets, self._first_dirty, *rows), rows[1]) for rows in spans]
        if spans:
            self._offsets.put(step.keys, step.offsets, spans)

    def _leave(self, unread: tuple[int, int] | None) -> None:
        self._is_reading, self.unread = False, unread
        self._waiting.clear()
        self._start = self._size = 0

    def read_rest(
        self, segments: Sequence[Any], stops: Sequence[int | None], aborted: Iterable[_Span], progress: Progress
    ) -> None:
        """Reads the keys from `unread` on as read_committed does, of each segment up to its position in `stops`. Raises
        damage."""
        assert self.unread is not None
        number, start = self.unread
        options = self._request.options
        options = options._replace(aborted=tuple(aborted), offsets=(self._first_dirty, None), control=False)
        self._leave((0, 0))
        for segment, stop in list(zip(segments, stops, strict=True))[number:]:
            if stop is None or start < stop:
                for step in steps(segment, self._request._replace(options=options), progress, stop, start=start):
                    if len(step):
                        self._add(step, number)
                        self.settle((), None)
                    if self.unread is None:
                        return
            start = 0
