"""Producers' sequences along a log, by the broker's own rules (KIP-98; ProducerStateManager, ProducerAppendInfo).

Per producer id the broker remembers an epoch and the last five batches of it. A batch of the same epoch that equals
one of the five is a duplicate; any other must begin with the sequence behind the last one, 0 behind 2^31-1. A new
epoch begins with 0. A marker may raise the epoch (KIP-890 does so at each transaction's end); an epoch never goes
down. Where offsets are missing or bytes are damaged between two batches of a producer, a jump is no news.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .notes import Notebook, Place
from .rows import Rows

_REMEMBERED = 5
_MOST_PRODUCERS = 200_000
_WRAP = 1 << 31


@dataclass(slots=True)
class _Producer:
    """last: its last sequence in this epoch, None: none yet; seen: where its last batch ended."""

    epoch: int
    last: int | None = None
    seen: int = -1
    batches: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


_COLUMNS = (
    "producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset", "last_offset", "is_control",
    "record_count",
)  # fmt: skip


class Sequences:
    """Follows all producers of one log; `findings` has what was found, file by file."""

    def __init__(self) -> None:
        self.notes = Notebook()
        self._producers: dict[int, _Producer] = {}
        self._next: int | None = None
        self._gap_ends = -1
        self._file: str | None = None

    @property
    def producers(self) -> int:
        return len(self._producers)

    def follow(self, file: str, rows: Rows) -> None:
        """The good batches of one piece, in order."""
        self._file = file
        bases, nexts = rows["base_offset"], rows["next_offset"]
        if not any(producer is not None for producer in rows["producer_id"]):
            if list(bases[1:]) != list(nexts[:-1]) or bases[0] != self._next:
                self._gap_ends = nexts[-1]
            self._next = nexts[-1]
            return
        for row, values in enumerate(zip(*(rows[name] for name in _COLUMNS), strict=True)):
            producer, epoch, first, last, base, end, is_control, _ = values
            if self._next is not None and base != self._next:
                self._gap_ends = end if base is None else base
            self._next = end + 1
            if producer is None or producer < 0 or epoch is None:
                continue
            place = rows.place(row)
            if is_control:
                self._marker(producer, epoch, end)
            elif first is not None and first >= 0:
                self._data(producer, epoch, first, last, end, place)

    def _state(self, producer: int, epoch: int) -> tuple[_Producer, bool]:
        """(what is remembered of the producer, whether it was known)"""
        known = self._producers.get(producer)
        if known is None:
            if len(self._producers) >= _MOST_PRODUCERS:
                del self._producers[next(iter(self._producers))]
            known = self._producers[producer] = _Producer(epoch)
            return known, False
        return known, True

    def _marker(self, producer: int, epoch: int, end: int) -> None:
        state, _ = self._state(producer, epoch)
        if epoch > state.epoch:
            state.epoch, state.last = epoch, None
            state.batches.clear()
        state.seen = end

    def _data(self, producer: int, epoch: int, first: int, last: int, end: int, place: Place) -> None:
        state, known = self._state(producer, epoch)
        who = f"producer {producer} epoch {epoch}: sequences {first} to {last}"
        excused = self._gap_ends > state.seen
        if known and epoch < state.epoch:
            self._tell("producer_epoch_goes_back", f"{who} behind epoch {state.epoch}", place)
            return
        if known and epoch == state.epoch and (first, last) in state.batches:
            self._tell("sequence_duplicate", f"{who} are there already", place)
            return
        fresh = epoch > state.epoch or (known and state.last is None)
        if known and not excused:
            expected = 0 if fresh or state.last is None else (state.last + 1) % _WRAP
            if first != expected:
                ahead = (first - expected) % _WRAP < _WRAP // 2
                kind = "sequence_gap" if ahead else "sequence_order"
                self._tell(kind, f"{who} where {expected} is expected", place)
        if epoch > state.epoch:
            state.batches.clear()
        state.epoch, state.last, state.seen = epoch, last, end
        state.batches.append((first, last))

    def _tell(self, kind: str, detail: str, place: Place) -> None:
        self.notes.add(kind, detail, place, file=self._file)
