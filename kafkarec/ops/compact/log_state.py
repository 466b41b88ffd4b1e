"""The state of a log before it is cleaned, from batch headers and transaction markers; then the last offset of each key

    producers       last data offset and epoch: the batch that holds a producer's last sequence must be kept
    transactions    aborted ones, and the first offset of the first open one: nothing is cleaned from there on
    keys            of committed records below the first uncleanable offset

Follows ProducerStateManager, LogCleanerManager.cleanableOffsets and Cleaner.buildOffsetMap.

The first walk decompresses no records, so it takes a hundredth of the time. When keys are read, all transactions are
known: damage is an error only in what can be cleaned, and not in the payloads of aborted transactions.

Kafka's SkimpyOffsetMap hashes keys to 16 bytes (MD5) and stores 24 bytes per key in a buffer of
log.cleaner.dedupe.buffer.size bytes; when it is full, a run of the cleaner ends. Here whole keys are stored, so there
are no collisions. A key takes its length + 1 bytes plus 21 to 43: some 50 bytes for keys of 16, so 20 million of them
take 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkarec._verbs import LastOffsets
from kafkarec.errors import KafkaRecordError, LimitExceededError
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.ops.rewrite import Progress, steps
from kafkarec.read.decode_options import checked_record_limit, request
from kafkarec.read.walk import MARKERS, walk, walk_request
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


_Span = tuple[int, int, int]


def read_last_offsets(
    segments: Sequence[Any],
    stops: Iterable[int | None],
    aborted: Iterable[_Span],
    settings: CleanerSettings,
    progress: Progress,
) -> tuple[LastOffsets, int]:
    """The last offset of each key of what can be cleaned, of each segment up to its position in `stops` (None: to its
    end), as read_committed gets it; and the number of records that were read for it. KafkaRecordError for damage there.
    """
    found, records = LastOffsets(), 0
    of_keys = request(
        columns=("key", "offset"),
        check_crcs=settings.check_crcs,
        max_decompressed_bytes=settings.max_decompressed_bytes,
    )
    committed = of_keys.with_options(aborted=tuple(aborted))
    for segment, stop in zip(segments, stops, strict=True):
        for step in steps(segment, committed, progress, stop) if stop != 0 else ():
            chunk = step.chunk
            if chunk is None:
                continue
            try:
                found.put(chunk, [(0, len(chunk))])
            except MemoryError:
                text = f"no memory for more than {len(found)} keys ({found.nbytes} bytes)"
                raise LimitExceededError(text, reason="out_of_memory") from None
            records += len(chunk)
    return found, records


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
    """start_offsets: first offset of each segment; highest_offsets: the highest last offset of a batch in each, below
    its first offset if it has none; producers: those that did not expire, by id; remaining: bytes after the last
    batches."""

    start_offsets: list[int]
    highest_offsets: list[int]
    next_offset: int
    last_stable_offset: int
    aborted: list[Aborted]
    producers: dict[int, SnapshotEntry]
    remaining: int


def read_log_state(segments: Sequence[Any], settings: CleanerSettings) -> LogState:
    """Reads the headers and markers of a log. KafkaRecordError if batches cannot be delimited or control batches cannot
    be read."""
    states = ProducerStates()
    if segments:
        states = producers_at_log_start(segments[0], segments[0].base_offset or 0, CLEANER).states
    state = LogState([], [], 0, 0, [], {}, 0)
    for number, segment in enumerate(segments):
        if segment.base_offset is not None:
            state.start_offsets.append(segment.base_offset)
            state.next_offset = max(state.next_offset, segment.base_offset)
        markers: dict[tuple[int, int], AbortedTransaction | None] = {}
        highest: list[int] = []
        tail = None
        for step in walk([segment], walk_request(MARKERS, restore=False)):
            tail = step.tail
            if not len(step):
                continue
            if len(state.start_offsets) == number:
                state.start_offsets.append(step.first_offsets(0)[0])
            taken = states.take(step)
            markers |= {(one.producer_id, one.last_offset): one for one in taken.aborted}
            for place in taken.empty_aborts:
                markers.setdefault(place)  # a marker may be there twice
            state.next_offset = step.last_offset + 1
            highest.append(max(step.column("last_offset")))
        state.remaining += tail[1] if tail else 0
        if len(state.start_offsets) == number:
            state.start_offsets.append(state.next_offset)
        state.highest_offsets.append(max(highest, default=state.start_offsets[number] - 1))
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
        entries = {(one.producer_id, one.last_offset): one for one in source.transaction_evidence.aborted() or ()}
    for (producer_id, offset), ended in sorted(markers.items(), key=lambda one: one[0][1]):  # as in the log
        known = entries.get((producer_id, offset))
        if ended is not None:
            yield Aborted(producer_id, ended.first_offset, offset, known or ended)
        elif known is not None:
            yield Aborted(producer_id, offset, offset, known)
