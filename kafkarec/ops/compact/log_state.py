"""The state of a log before it is cleaned, from batch headers and transaction markers; the same walk reads its keys

    producers       last data offset and epoch: the batch that holds a producer's last sequence must be kept
    transactions    aborted ones, and the first offset of the first open one: nothing is cleaned from there on
    keys            steps -> waiting keys -> OffsetMap: in the log's order, batch by batch, once it is known that they
                    belong there

Follows ProducerStateManager, LogCleanerManager.cleanableOffsets and Cleaner.buildOffsetMap.

Keys of committed records below the first uncleanable offset belong in the OffsetMap. That is known of a batch when all
transactions that began at or before it have ended.

Memory: the steps that wait for the end of a transaction are kept, about 256 MiB at most. If there are more, all of them
are dropped, and keys are read from there on in a walk of their own, when all transactions are known: up to where the
log can be cleaned, so none if the transaction hangs. What follows damage is read that way, too: damage is an error only
in what can be cleaned, and not in the payloads of aborted transactions.

Kafka's SkimpyOffsetMap hashes keys to 16 bytes (MD5) and stores 24 bytes per key in a buffer of
log.cleaner.dedupe.buffer.size bytes; when it is full, a run of the cleaner ends. Here whole keys are stored, so there
are no collisions. A key takes its length + 1 bytes plus 21 to 43: some 50 bytes for keys of 16, so 20 million of them
take 1 GB.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec._verbs import LastOffsets
from kafkarec.errors import KafkaRecordError, LimitExceededError
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.ops.rewrite import Progress, steps
from kafkarec.read.decode_options import checked_record_limit, request
from kafkarec.read.walk import MARKERS, walk_request
from kafkarec.recover.steps import MARKER_COLUMNS, Step
from kafkarec.sidecars import txn_index
from kafkarec.state.producers import CLEANER, ProducerStates, producers_at_log_start

DAY_MS = 86_400_000
LAST_OFFSET = 2**63 - 1


class CleanerSettings(NamedTuple):
    """See `compact`. An offset that is not given is 0 or LAST_OFFSET."""

    now: int
    delete_retention_ms: int
    producer_expiration_ms: int
    first_uncleanable_offset: int
    check_crcs: bool | str
    max_decompressed_bytes: int
    max_decompressed_message_bytes: int | None

    def check(self) -> None:
        """ValueError for a number out of range."""
        for name, value in zip(self._fields[:4], self, strict=False):
            if not isinstance(value, int) or not 0 <= value <= LAST_OFFSET:
                raise ValueError(f"{name} {value!r}: 0 to 2^63-1")
        checked_record_limit(self.max_decompressed_message_bytes)


_MOST_WAITING = 256 << 20
_OBJECTS = 1024  # bytes of the Python objects of a step that waits, about
_BATCH, _ROW = 104, 25  # bytes of a batch's header; of a record without its key and value
_STATE = walk_request(MARKERS, restore=False)
_Span = tuple[int, int, int]


class _WaitingStep:
    """aborted: transactions that may be in it; size: in bytes."""

    def __init__(self, step: Step, segment: int) -> None:
        self.rows, self.last_offset, self.segment = step.rows, step.last_offset, segment
        self.aborted: list[_Span] = []
        self.chunk, self.size = step.chunk, _OBJECTS + _BATCH * len(self.rows)
        if self.chunk is not None:
            self.size += _ROW * len(self.chunk) + self.chunk.size_of(0, len(self.chunk))


class OffsetMap:
    """The last offset of each key of a log, read in the log's order.

    messages_read   records that were read for it
    unread          (segment, position) from which on `read_rest` has to read; None: all keys are read
    """

    def __init__(self, settings: CleanerSettings) -> None:
        self.last, self.messages_read = LastOffsets(), 0
        self._end_offset = settings.first_uncleanable_offset  # from which on batches do not belong there
        self.unread: tuple[int, int] | None = None
        self._request = request(
            columns=("offset", *MARKER_COLUMNS),
            control=True,
            check_crcs=settings.check_crcs,
            max_decompressed_bytes=settings.max_decompressed_bytes,
        )
        self._is_reading = True
        self._waiting: deque[_WaitingStep] = deque()
        self._start = self._size = 0  # the first undecided batch of the first waiting step; bytes of all

    def steps(self, segment: Any, number: int, progress: Progress) -> Iterator[Step]:
        """The steps of a segment with the records of its control batches; `put_decided` is called after each that has
        batches. KafkaRecordError if batches cannot be delimited or control batches cannot be read."""
        position = 0
        if self._is_reading:
            try:
                for step in steps(segment, self._request, progress):
                    if len(step):
                        self._add_waiting(step, number)
                        position = step.rows.byte_range(len(step) - 1)[1]
                    yield step
                    if not self._is_reading:
                        break
                else:
                    return
            except KafkaRecordError:
                self._is_reading, self.unread = False, (number, position)
        yield from steps(segment, _STATE, progress, start=position)

    def _add_waiting(self, step: Step, segment: int) -> None:
        self._waiting.append(_WaitingStep(step, segment))
        self._size += self._waiting[-1].size

    def put_decided(self, aborted: Iterable[AbortedTransaction], first_open: int | None) -> None:
        """Puts the keys that are decided after a step. aborted: the transactions that it ended; first_open: the first
        offset of the oldest open one."""
        for one in aborted:
            for step in reversed(self._waiting):
                if step.last_offset < one.first_offset:
                    break
                step.aborted.append((one.producer_id, one.first_offset, one.last_offset))
        end_offset = self._end_offset if first_open is None else min(first_open, self._end_offset)
        while self._waiting:
            step = self._waiting[0]
            self._start, spans = step.rows.committed_rows(step.chunk, step.aborted, self._start, end_offset)
            try:
                if step.chunk is not None:
                    self.last.put(step.chunk, spans)
            except MemoryError:
                text = f"no memory for more than {len(self.last)} keys ({self.last.nbytes} bytes)"
                raise LimitExceededError(text, reason="out_of_memory") from None
            self.messages_read += sum(stop - first for first, stop in spans)
            if self._start == len(step.rows):
                self._size -= self._waiting.popleft().size
                self._start = 0
            elif self._size > _MOST_WAITING:
                self._drop_waiting((step.segment, step.rows.byte_range(self._start)[0]))
            else:
                self._is_reading = self._is_reading and self._waiting[-1].last_offset < self._end_offset
                return

    def _drop_waiting(self, unread: tuple[int, int] | None) -> None:
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
        options = options._replace(aborted=tuple(aborted), control=False)
        self._drop_waiting((0, 0))
        for segment, stop in list(zip(segments, stops, strict=True))[number:]:
            if stop is None or start < stop:
                for step in steps(segment, self._request._replace(options=options), progress, stop, start=start):
                    if len(step):
                        self._add_waiting(step, number)
                        self.put_decided((), None)
                    if self.unread is None:
                        return
            start = 0


class Aborted(NamedTuple):
    """An aborted transaction.

    first_offset   of the data that is left; that of the marker if none is left
    entry          for the new .txnindex; its first offset may be lower, from the old one
    """

    producer_id: int
    first_offset: int
    last_offset: int
    entry: AbortedTransaction


@dataclass(slots=True)
class LogState:
    """start_offsets: first offset of each segment; steps: of each segment, last offset and position of each step, one
    after the other; producers: those that did not expire, by id; remaining: bytes after the last batches."""

    start_offsets: list[int]
    steps: list[array[int]]
    next_offset: int
    last_stable_offset: int
    aborted: list[Aborted]
    producers: dict[int, SnapshotEntry]
    remaining: int


def read_log_state(segments: Sequence[Any], settings: CleanerSettings, keys: OffsetMap, progress: Progress) -> LogState:
    """Reads a log and its keys. KafkaRecordError if batches cannot be delimited or control batches cannot be read."""
    states = ProducerStates()
    if segments:
        states = producers_at_log_start(segments[0].sidecar, segments[0].base_offset or 0, CLEANER).states
    state = LogState([], [], 0, 0, [], {}, 0)
    for number, segment in enumerate(segments):
        if segment.base_offset is not None:
            state.start_offsets.append(segment.base_offset)
            state.next_offset = max(state.next_offset, segment.base_offset)
        state.steps.append(array("q"))
        markers: dict[tuple[int, int], AbortedTransaction | None] = {}
        tail = None
        for step in keys.steps(segment, number, progress):
            tail = step.tail
            if not len(step):
                continue
            if len(state.start_offsets) == number:
                state.start_offsets.append(step.first_offsets(0)[0])
            taken = states.take(step)
            markers |= {(one.producer_id, one.last_offset): one for one in taken.aborted}
            markers |= dict.fromkeys(taken.empty_aborts)
            state.next_offset = step.last_offset + 1
            state.steps[number].extend((step.last_offset, step.rows.byte_range(0)[0]))
            keys.put_decided(taken.aborted, states.first_undecided_offset)
        state.remaining += tail[1] if tail else 0
        if len(state.start_offsets) == number:
            state.start_offsets.append(state.next_offset)
        state.aborted += _aborted(segment, markers)
    first_open = states.first_undecided_offset
    state.last_stable_offset = state.next_offset if first_open is None else first_open
    state.producers = {
        one.producer_id: one
        for one in states.entries()
        # the opposite of ProducerStateManager.isProducerExpired
        if one.current_txn_first_offset >= 0 or settings.now - one.timestamp < settings.producer_expiration_ms
    }
    return state


def _aborted(source: Any, markers: dict[tuple[int, int], AbortedTransaction | None]) -> Iterator[Aborted]:
    """The aborted transactions whose markers are in a segment. An entry of its .txnindex is used only if the marker
    exists, and its first offset only in the new .txnindex: a wrong index must not remove data."""
    entries = {}
    with suppress(KafkaRecordError, OSError):
        for entry in txn_index.read(source.sidecar(txn_index.SUFFIX) or b""):
            entries[entry.producer_id, entry.last_offset] = entry
    for (producer_id, offset), ended in sorted(markers.items(), key=lambda one: one[0][1]):  # as in the log
        known = entries.get((producer_id, offset))
        if ended is not None:
            yield Aborted(producer_id, ended.first_offset, offset, known or ended)
        elif known is not None:
            yield Aborted(producer_id, offset, offset, known)
