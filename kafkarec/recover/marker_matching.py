"""Matches markers to transactions along the steps of a walk, over one segment or many (KIP-98, KIP-890).

    data of 7 (epoch 3)   data of 9   data of 7 ...   ABORT or COMMIT of 7 (epoch 4)
    ^ first offset                                    ^ marker's offset: ends the open transaction of producer id 7

Matched by producer id alone: with transaction.version 2 a marker has the epoch after that of its data (KIP-890). The
log cleaner leaves empty control batches; they end no transaction (Kafka: ProducerAppendInfo). A marker without an open
transaction belongs to one that began before the input or has no data in it.

Damage may have a marker in it. A transaction that is open before such a hole is held: data behind the hole begins a new
one, and when the producer's next marker is known, `marker_evidence.RULES` decides whether the two are one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from kafkarec._core import Producers
from kafkarec._lazy import cached_property
from kafkarec.damage import Damage, Restored, error
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry

from .aborted_index import AbortedIndex
from .holes import EndMarker, Hole, HoleFinder
from .marker_evidence import (
    ABORTED,
    AHEAD,
    COMMITTED,
    CONTINUES,
    LEGIBLE,
    LISTED,
    MISPLACED,
    RULES,
    UNDECIDED,
    Decision,
    Rule,
    SplitCase,
    decision_by_rule,
)
from .steps import (
    ABORT,
    COMMIT,
    UNREADABLE_MARKER,
    EndedRow,
    Oddity,
    Step,
    TransactionData,
    as_stored,
    columns_of,
    rows_of,
)

# reason -> meaning: contradictions in a log or between it and its index
NOTES = {
    "txnindex_unreadable": "the .txnindex cannot be read: only the markers count",
    "txnindex_differs": "the .txnindex differs from the markers: the markers count",
    "txnindex_ahead": "the .txnindex has an ABORT marker outside of its segment's offsets: it is ignored",
    "marker_missing": "a marker is missing in the input",
    "marker_decided": "a marker is lost in damage: how its transaction ended, and what proves it",
    "marker_unreadable": "a marker that cannot be read ends no transaction",
    "begun_before": "a transaction that began before the log has neither data nor a marker in the log",
    "snapshot_unreadable": "the producer snapshot cannot be read: transactions begun before the log are unknown",
}


class Note(NamedTuple):
    """A contradiction in a log. reason: a key of NOTES; file: None for a buffer; offset: where it is."""

    reason: str
    file: str | None
    offset: int | None
    producer_id: int | None
    detail: str


_MARKER_OFFSET = attrgetter("last_offset")  # of an entry


@dataclass(slots=True)
class _HeldTransaction:
    """A transaction that was open before a hole, and where its marker may be.

    data      before the hole
    holes     that one, and the last of the further ones for any marker that have no data of the producer before them
    up_to     the last hole for any marker that `holes` takes into account; None: there was none
    """

    data: TransactionData
    holes: list[Hole]
    up_to: Hole | None


class MatchedTransactions:
    """The transactions of a log, matched with its markers: `take` with each step, then `finish`.

    segments            those of the steps, each with its TransactionEvidence
    open                producer id -> the data of its open transaction, after `finish`
    ended               EndedRows as consecutive int64, in the order of the markers
    without_data        the same for markers of transactions without data in the input
    decisions           the transactions whose markers are lost in damage
    wrong_offsets       the batches whose base offset was restored, with their right last offset
    known_holes         holes of a log whose damaged bytes were removed, in order
    ahead               producer id -> its .txnindex entry after the log's last batch
    first_offset, next_offset   of the input; None: there is no batch
    falls, has_misplaced   whether offsets fall somewhere, or would, but for batches that were left out as misplaced
    """

    def __init__(self, raises: bool = False, known_holes: Sequence[Hole] = ()) -> None:
        self.raises = raises
        self.segments: list[Any] = []
        self.open: dict[int, TransactionData] = {}
        self.ended, self.without_data = array("q"), array("q")
        self.first_offset: int | None = None
        self.next_offset: int | None = None
        self.notes: list[Note] = []
        self.damage: list[Damage] = []
        self.wrong_offsets: list[tuple[Restored, int]] = []
        self.decisions: list[Decision] = []
        self.ahead: dict[int, AbortedTransaction] = {}
        self.falls = self.has_misplaced = False
        self._producers = Producers(kind=TransactionData)
        self._highest_misplaced = -1  # base offset
        self._input: tuple[int, str | None] | None = None  # number and path of the last segment, as its steps have them
        self._segment_start: int | None = None  # the first offset of the last segment
        # of each segment its .txnindex; None: there is none, or it cannot be read
        self._indexes: list[AbortedIndex | None] = []
        # (producer id, marker's offset) -> entry of the last segment's index, until the marker is reached, or what is
        # behind its place
        self._unmatched: dict[tuple[int, int], AbortedTransaction] = {}
        # such entries of segments before the last one, until a batch is reached
        self._unmatched_before: list[AbortedTransaction] = []
        self._doubted: list[AbortedTransaction] = []  # entries of places where other batches are
        # entries whose markers are in holes: see `_producers_of_listed_markers`; none leaves
        self._explained: set[AbortedTransaction] = set()
        self._hole_finder = HoleFinder(known_holes)
        self._holes: list[Hole] = []  # all, in order
        self._hole_for_any_marker: Hole | None = None  # the last one that may have that of any open transaction
        # producer id -> its transactions that were open before holes, in order, until its next marker is known
        self._held: dict[int, list[_HeldTransaction]] = {}

    # ---- for callers

    @property
    def max_timestamp(self) -> int:
        """Of all batches in ms; -1: none has one."""
        return self._producers.max_timestamp

    @property
    def is_out_of_order(self) -> bool:
        """Whether offsets fall in files of one log; in a buffer they may."""
        return self.falls and self.segments[-1].base_offset is not None

    @property
    def highest_base(self) -> int:
        """The highest base offset of all batches; the least int64: there is none."""
        return max(self._producers.highest_base, self._highest_misplaced)

    def take(self, step: Step) -> None:
        """The next step of a walk with the MARKER_COLUMNS of control batches."""
        # A log that grows is opened again and again; of segments that are walked one by one each is number 0.
        read = step.number, step.segment.path
        if read != self._input:
            self._input = read
            self._unmatched_before += self._unmatched.values()
            self.segments.append(step.segment)
            self._segment_start = None
            self._read_index()
        self.damage += step.damage
        for one in step.restored:
            if "base_offset" in one.fields and one.position in step.column("position"):
                row = step.start + step.column("position").index(one.position)
                self.wrong_offsets.append((one, step.cell("last_offset", row)))
        self.falls = self.falls or not step.rows.rise_from(self.next_offset or 0)
        holes = self._hole_finder.holes_in(step, self._segment_number, self.next_offset)
        if not len(step):
            return
        if self.first_offset is None:
            self.first_offset = step.first_offset
        # (row, what is done before its batch, with what). A hole comes first: the markers of entries are in it.
        places: list[tuple[int, Callable[[Any], None], Hole | AbortedTransaction]]
        gap = None if self.raises or any(row == 0 for row, _ in holes) else self._gap_with_markers(step)
        holes = [(0, gap), *holes] if gap else holes
        places = [(row, self._hold_open_transactions, hole) for row, hole in holes]
        places += self._missing_markers(step, [hole.marker for _, hole in holes if hole.marker])
        if self._segment_start is None:
            self._segment_start = step.first_offset
        self.next_offset = step.last_offset + 1
        start = 0
        for stop, handle, found in sorted(places, key=itemgetter(0)):
            self._match_rows(step, start, stop)
            handle(found)
            start = stop
        self._match_rows(step, start, len(step))

    def leave_out_misplaced(self, step: Step) -> None:
        """One batch behind the last step that is misplaced. Decides about its data, as a reader gets them."""
        names = "base_offset", "last_offset", "producer_id", "producer_epoch"
        base, last, producer, epoch = (as_stored(step.cell(name, step.start)) for name in names)
        self.has_misplaced = True
        self._highest_misplaced = max(self._highest_misplaced, base)
        if step.cell("is_transactional", step.start) and not step.cell("is_control", step.start):
            data = self._transaction_without_data(producer, epoch, base)
            self._record_decision(data._replace(last_offset=last), Hole(base, last), MISPLACED)

    def finish(self) -> None:
        """Called after the last step. Decides the transactions whose next marker is not in the log, and notes the
        markers that its index has after its last batch: lost, or never written."""
        for entry in self._doubted_of_open():
            self._end_by_index(entry)
        after_last_batch = [*self._unmatched_before, *self._unmatched.values()]
        hole = self._hole_finder.hole_at_end(self.next_offset)
        if hole is not None:
            self._hold_open_transactions(hole)
        for entry in after_last_batch:
            held = self._held.get(entry.producer_id)
            if held and entry.last_offset in self._add_last_hole(held[-1]).holes[-1]:
                self._end_by_index(entry)
            else:
                self._note_ahead(entry, "after the log's last batch")
                self.ahead.setdefault(entry.producer_id, entry)
        self.open = self._producers.open_transactions()
        for producer in list(self._held):
            data = self._decide_held(producer, self.open.get(producer), None, self.ahead.get(producer))
            if data is not None:
                self.open[producer] = data
        if self.decisions:
            rows = sorted(rows_of(self.ended, EndedRow), key=attrgetter("marker_offset"))
            self.ended = array("q", chain.from_iterable(rows))

    def listed_ahead(self) -> list[Decision]:
        """After `finish`: the open transactions whose ABORT the .txnindex has behind the log's end. They stay open, as
        for a broker, which rebuilds the index."""
        end = Hole(self.next_offset or 0, None)
        return [
            decision_by_rule(data, AHEAD, end, entry.last_offset)
            for producer, entry in self.ahead.items()
            if (data := self.open.get(producer)) is not None and self._is_entry_of(entry, data)
        ]

    def open_so_far(self) -> dict[int, TransactionData] | None:
        """`open` in place of `finish`, if the log may go on; None: there is something to decide that its end tells, or
        other files."""
        is_undecided = self.is_out_of_order or any(one.outcome == UNDECIDED for one in self.decisions)
        if self._held or self._hole_finder.is_waiting or is_undecided or self._doubted_of_open():
            return None
        return self._producers.open_transactions()

    def refresh_evidence(self) -> None:
        """Called before the steps of a log that has grown: what other files say is read again."""
        for name in ("_snapshots", "_prepared"):
            self.__dict__.pop(name, None)
        if self.segments:
            self._read_index()

    # ---- one segment

    @property
    def _segment_number(self) -> int:
        """The number of the last segment."""
        return len(self.segments) - 1

    def _read_index(self) -> None:
        """Reads the .txnindex of the last segment. The markers of entries below what was read cannot come any more."""
        try:
            entries = self.segments[-1].transaction_evidence.aborted()
        except (KafkaRecordError, OSError) as failure:
            self._note("txnindex_unreadable", None, None, str(failure))
            entries = None
        index = None if entries is None else AbortedIndex(entries)
        self._indexes[self._segment_number :] = [index]
        known = () if index is None else index.within(Hole(self.next_offset or 0, None))
        self._unmatched = {(one.producer_id, one.last_offset): one for one in known if one.producer_id >= 0}

    # ---- markers that are there

    def _match_rows(self, step: Step, start: int, stop: int) -> None:
        """Matches the rows within [start, stop)."""
        span = step.start + start, step.start + stop
        ended, without_data, odd = self._producers.take(step.rows, step.chunk, *span, self._segment_number)
        if not odd and not self._held and self._take_matching_entries(ended, without_data):
            self.ended.frombytes(ended)
            self.without_data.frombytes(without_data)
            return
        # one by one: there is damage, a contradiction, or a marker that cannot be read
        rows: list[EndedRow | Oddity] = [*rows_of(array("q", ended + without_data), EndedRow)]
        rows += rows_of(array("q", odd), Oddity)
        for row in sorted(rows, key=attrgetter("batch")):
            if isinstance(row, EndedRow):
                self._end_by_marker(step, row)
            elif row.kind == UNREADABLE_MARKER:
                self._note_unreadable(step, row)
            else:
                self._note_new_epoch(step, row)

    def _take_matching_entries(self, ended: bytes, without_data: bytes) -> bool:
        """Whether the .txnindex agrees with these markers; if so, removes their entries from it."""
        if self._indexes[-1] is None:
            return True
        known, rows, taken = self._unmatched, array("q", ended + without_data), list[tuple[int, int]]()
        names = "producer_id", "marker_offset", "code", "first_offset", "batches"
        for producer, marker, code, first, batches in columns_of(rows, *names):
            entry = known.get((producer, marker))
            if (entry and entry.first_offset) != (first if code == ABORT and batches else None):
                return False
            if entry is not None:
                taken.append((producer, marker))
        if len(taken) > len({*taken}):
            return False
        for key in taken:
            del known[key]
        return True

    def _end_by_marker(self, step: Step, row: EndedRow) -> None:
        """Ends the transaction of a marker."""
        producer, data = row.producer_id, row.data
        marker = EndMarker(producer, row.code, row.marker_offset, as_stored(step.cell("producer_epoch", row.batch)))
        data = self._decide_held(producer, data, marker)
        if self._indexes[-1] is not None:
            data = self._reconcile_with_index(marker, data)
        rows = self.without_data if data is None else self.ended
        data = data or self._transaction_without_data(producer, marker.producer_epoch)
        ended = row.code, row.marker_offset, row.marker_timestamp, row.coordinator_epoch, self._segment_number
        rows.extend(data.ended(*ended))

    def _reconcile_with_index(self, marker: EndMarker, data: TransactionData | None) -> TransactionData | None:
        """Compares a marker with its .txnindex entry; returns the data of its transaction, whose first offset the entry
        may lower to one before the input."""
        assert self.first_offset is not None
        producer = marker.producer_id
        entry = self._unmatched.pop((producer, marker.offset), None)
        if marker.code == COMMIT:
            if entry is not None:
                self._note_difference(producer, marker.offset, "an ABORT", "a COMMIT")
        elif entry is None:
            if data is not None:
                self._note_difference(producer, marker.offset, "nothing", "an ABORT")
        elif data is None:
            return self._transaction_without_data(producer, marker.producer_epoch, entry.first_offset)
        elif entry.first_offset < self.first_offset:
            return data._replace(first_offset=entry.first_offset)
        elif entry.first_offset != data.first_offset:
            first = f"first offset {entry.first_offset}", f"first offset {data.first_offset}"
            self._note_difference(producer, marker.offset, *first)
        return data

    def _transaction_without_data(self, producer: int, epoch: int = -1, first_offset: int = -1) -> TransactionData:
        """A transaction of which only a marker is in the input."""
        return TransactionData(producer, producer_epoch=epoch, first_offset=first_offset, segment=self._segment_number)

    # ---- markers that only the .txnindex has

    def _missing_markers(
        self, step: Step, legible: list[EndMarker]
    ) -> Iterator[tuple[int, Callable[[Any], None], AbortedTransaction]]:
        """(row behind its place, what is done with it, entry) of those that no batch up to the step's last one has."""
        before, self._unmatched_before = self._unmatched_before, []
        keys_of_legible = {(one.producer_id, one.offset) for one in legible}
        note_within = partial(self._note_ahead, where="within the next segment's offsets")
        for entry in sorted(before, key=_MARKER_OFFSET):  # they were lost between the previous segment and this one
            if (entry.producer_id, entry.last_offset) not in keys_of_legible:
                yield 0, self._end_by_index if entry.last_offset < step.first_offset else note_within, entry
        last = step.last_offset
        due = set(takewhile(lambda key: key[1] <= last, self._unmatched)) - keys_of_legible
        if due:
            due -= step.marker_keys()
        if not due:
            return
        names = "base_offset", "last_offset", "is_control", "producer_id"
        bases, lasts, are_control, producers = map(step.column, names)
        for entry in sorted(map(self._unmatched.pop, due), key=_MARKER_OFFSET):
            row = bisect_left(lasts, entry.last_offset)
            has_its_place = (lasts[row] if bases[row] is None else bases[row]) <= entry.last_offset
            if has_its_place and not (are_control[row] and producers[row] == entry.producer_id):
                yield row, self._doubt, entry
            else:  # no batch is there, or a marker that cannot be read
                yield row + has_its_place, self._end_by_index, entry

    def _doubt(self, entry: AbortedTransaction) -> None:
        """Another batch has the place of the marker: the entry counts only if no marker follows."""
        self._note_difference(entry.producer_id, entry.last_offset, "an ABORT", "another batch")
        self._doubted.append(entry)

    def _doubted_of_open(self) -> list[AbortedTransaction]:
        """The doubted entries of transactions that are still open."""
        opened = self._producers.open_transactions() if self._doubted else {}
        return [
            entry
            for entry in self._doubted
            if (data := opened.get(entry.producer_id)) is not None and self._is_entry_of(entry, data)
        ]

    def _end_by_index(self, entry: AbortedTransaction) -> None:
        """Ends a transaction by its .txnindex entry: the ABORT marker was lost (damage, a missing segment)."""
        assert self.first_offset is not None
        producer, first, last = entry.producer_id, entry.first_offset, entry.last_offset
        if last < self.first_offset:
            self._note_ahead(entry, "before the log's first batch")
            return
        lost = f"only the .txnindex has the ABORT of producer {producer} at offset {last}"
        self._note("marker_missing", last, producer, lost)
        data, known = self._producers.pop_open(producer), len(self.decisions)
        if data is not None and first > data.first_offset:  # it is not that of the entry, and its marker is lost, too
            data = self._hold_before(entry, data)
        elif data is None and producer in self._held:
            data = self._end_held_before(entry, self._add_last_hole(self._held[producer][-1]))
        data = self._decide_held(producer, data, EndMarker(producer, ABORT, last), entry)
        is_decided = any(one.marker_offset == last for one in self.decisions[known:])
        if data is not None and data.last_offset >= 0 and not is_decided:
            self.decisions.append(decision_by_rule(data, LISTED, Hole(last, last), last))
        data = data or self._transaction_without_data(producer, first_offset=first)
        data = data._replace(first_offset=min(first, data.first_offset))
        self.ended.extend(data.ended(ABORT, last, -1, -1, self._segment_number))

    def _hold_before(self, entry: AbortedTransaction, data: TransactionData) -> TransactionData | None:
        """Holds a transaction that began before that of a .txnindex entry. Returns that of the entry, None where it
        cannot be told from the held one. No byte is damaged: the file may be another log's, and proves no COMMIT."""
        has_room = entry.first_offset > data.last_offset + 1
        hole = Hole(data.last_offset + 1, entry.first_offset - 1 if has_room else entry.last_offset)
        self._held.setdefault(entry.producer_id, []).append(_HeldTransaction(data, [hole], self._hole_for_any_marker))
        return self._transaction_without_data(entry.producer_id, first_offset=entry.first_offset) if has_room else None

    def _end_held_before(self, entry: AbortedTransaction, held: _HeldTransaction) -> TransactionData | None:
        """The transaction of a .txnindex entry if it began in a hole, so that the held one ended before it there."""
        at = next((n for n, hole in enumerate(held.holes) if entry.first_offset in hole), None)
        if at is None or held.holes[at].first == entry.first_offset:
            return None
        held.holes[at:] = [held.holes[at]._replace(last=entry.first_offset - 1)]
        return self._transaction_without_data(entry.producer_id, first_offset=entry.first_offset)

    # ---- holes

    def _gap_with_markers(self, step: Step) -> Hole | None:
        """The offsets that are missing before a segment, if the one there is lost, or the snapshot at its start shows
        that a transaction ended there. The log cleaner leaves gaps, too, but takes no marker away while there is data
        of its transaction."""
        if self._segment_start is not None or self.next_offset is None or step.first_offset <= self.next_offset:
            return None
        if self.segments[-2].transaction_evidence.is_lost:
            return Hole(self.next_offset, step.first_offset - 1, (self._segment_number - 1,))
        opened = self._producers.open_transactions()
        try:
            entries = self.segments[-1].transaction_evidence.snapshot() if opened else None
        except (KafkaRecordError, OSError):
            return None
        if entries is None:
            return None
        firsts = {one.producer_id: one.current_txn_first_offset for one in entries}
        ended = any(not 0 <= firsts.get(producer, -1) <= data.first_offset for producer, data in opened.items())
        segments = self._segment_number - 1, self._segment_number
        return Hole(self.next_offset, step.first_offset - 1, segments) if ended else None

    def _hold_open_transactions(self, hole: Hole) -> None:
        """Holds the transactions that are open before a hole and may end in it."""
        self._holes.append(hole)
        listed = self._producers_of_listed_markers(hole)
        if (marker := hole.marker) is not None:  # legible, it ends its transaction
            producer = marker.producer_id
            data = self._decide_held(producer, self._producers.pop_open(producer), marker)
            self._unmatched.pop((producer, marker.offset), None)
            self._producers.set_coordinator_epoch(producer, marker.coordinator_epoch)
            data = data or self._transaction_without_data(producer, marker.producer_epoch)
            rule = LEGIBLE._replace(outcome=ABORTED if marker.code == ABORT else COMMITTED)
            self._record_decision(data._replace(coordinator_epoch=marker.coordinator_epoch), hole, rule, marker)
        if not hole.may_hold:
            return
        up_to = hole if listed is None else self._hole_for_any_marker
        for producer in self._producers.open_transactions() if listed is None else listed:
            data = self._producers.pop_open(producer)
            if data is not None:
                held = self._held.setdefault(producer, [])
                if held:
                    self._add_last_hole(held[-1])
                held.append(_HeldTransaction(data, [hole], up_to))
        self._hole_for_any_marker = up_to

    def _add_last_hole(self, held: _HeldTransaction) -> _HeldTransaction:
        """The last held transaction of a producer, with the last hole that may have its marker."""
        last = self._hole_for_any_marker
        if last is not None and last is not held.up_to:
            held.holes[1:], held.up_to = [last], last
        return held

    def _producers_of_listed_markers(self, hole: Hole) -> list[int] | None:
        """The producers whose markers are in a hole, if .txnindex entries account for all of its offsets: entries of
        transactions that were open before the hole, or are in it."""
        found = {}  # offset of a marker -> producer id
        for index in filter(None, (self._indexes[segment] for segment in hole.segments)):
            for entry in index.within(hole):
                state = self._producers.entry(entry.producer_id)
                opened = -1 if state is None else SnapshotEntry(*state).current_txn_first_offset
                if opened == entry.first_offset >= 0 or entry.first_offset in hole:
                    self._explained.add(entry)
                    found[entry.last_offset] = entry.producer_id
        is_complete = hole.last is not None and len(found) == hole.last - hole.first + 1
        return list(dict.fromkeys(found.values())) if is_complete else None

    # ---- transactions that were open before holes

    def _decide_held(
        self,
        producer: int,
        data: TransactionData | None,
        marker: EndMarker | None,
        entry: AbortedTransaction | None = None,
    ) -> TransactionData | None:
        """Decides the held transactions of a producer, if there are any, as its next marker is known. Returns the data
        of the transaction that this marker ends.

        data     of the producer behind the last hole
        marker   None: there is none up to the log's end
        entry    the .txnindex entry of a marker that is not in the log
        """
        held = self._held.pop(producer, [])
        if not held:
            return data
        self._add_last_hole(held[-1])
        last_epoch = (data or held[-1].data).producer_epoch
        if marker is not None and entry is None:
            entry = self._unmatched.get((producer, marker.offset))
        carried: TransactionData | None = None  # what is open behind the hole
        for one, following in zip(held, [*(one.data for one in held[1:]), data], strict=True):
            current = one.data.with_earlier(carried)
            case = SplitCase(
                current,
                tuple(one.holes),
                None if following is None else following.first_offset,
                marker,
                last_epoch,
                entry,
                entry is not None and self._is_entry_of(entry, current),
                self._snapshot_behind(producer, one.holes[-1], marker),
                entry is None and self._had_no_transaction(marker),
                lambda: self._prepared,
                self._is_unlisted(current, one.holes),
            )
            rule = next(rule for rule in RULES if rule.holds(case))
            carried = current
            if rule is LISTED and following is None:  # `marker`, or `ahead`, is the one in the hole
                assert entry is not None
                self.decisions.append(decision_by_rule(current, rule, one.holes[0], entry.last_offset))
            elif rule.outcome != CONTINUES:
                carried = None
                self._record_decision(current, one.holes[0], rule)
        return carried if data is None else data.with_earlier(carried)

    def _is_entry_of(self, entry: AbortedTransaction, data: TransactionData) -> bool:
        """Whether a .txnindex entry is that of a transaction whose first batches may be lost."""
        if entry.first_offset > data.first_offset or entry.last_offset < data.last_offset:
            return False
        assert self.first_offset is not None
        if entry.first_offset == data.first_offset or entry.first_offset < self.first_offset:
            return True
        at = bisect_right(self._holes, entry.first_offset, key=attrgetter("first"))
        return at > 0 and entry.first_offset in self._holes[at - 1]

    @cached_property
    def _snapshots(self) -> list[tuple[int, dict[int, int]]]:
        """(offset, {producer id: first offset of its open transaction}) of the intact snapshots."""
        return [
            (offset, {entry.producer_id: entry.current_txn_first_offset for entry in entries})
            for offset, entries in self.segments[0].transaction_evidence.snapshots()
        ]

    @cached_property
    def _prepared(self) -> Any:
        """TransactionEvidence.prepared of the log, read once."""
        return self.segments[0].transaction_evidence.prepared()

    def _snapshot_behind(self, producer: int, hole: Hole, marker: EndMarker | None) -> int | None:
        """SplitCase.snapshot"""
        for offset, first_offsets in self._snapshots:
            if hole.last is not None and offset > hole.last and (marker is None or offset <= marker.offset):
                return first_offsets.get(producer, -1)
        return None

    def _had_no_transaction(self, marker: EndMarker | None) -> bool:
        """SplitCase.had_no_transaction, for a marker of the last segment without an entry"""
        index, start = self._indexes[-1], self._segment_start
        if index is None or start is None or marker is None or marker.code != ABORT or marker.offset < start:
            return False
        return index.is_complete_to(marker.offset) and not index.within(Hole(marker.offset, marker.offset))

    def _is_unlisted(self, data: TransactionData, holes: list[Hole]) -> bool:
        """SplitCase.unlisted"""
        segments = {segment for hole in holes for segment in hole.segments}
        index, end = self._indexes[segments.pop()] if len(segments) == 1 else None, holes[-1].last
        if index is None or end is None or not index.is_complete_to(end):
            return False
        if index.overlaps(data.producer_id, data.first_offset, data.last_offset):
            return False
        return all(self._explained.issuperset(index.within(hole)) for hole in holes)

    def _record_decision(self, data: TransactionData, hole: Hole, rule: Rule, marker: EndMarker | None = None) -> None:
        """Records how a transaction ended, and ends it."""
        decision = decision_by_rule(data, rule, hole)
        if marker is not None:
            decision = decision._replace(
                producer_epoch=marker.producer_epoch, marker_offset=marker.offset, timestamp=marker.timestamp
            )
        self.decisions.append(decision)
        until = decision.marker_offset
        if until is None:
            until = data.last_offset if hole.last is None else hole.last
        code = COMMIT if rule.outcome == COMMITTED else ABORT
        row = data.ended(code, until, decision.timestamp, data.coordinator_epoch, self._segment_number)
        if data.last_offset < 0:
            self.without_data.extend(row)
            return
        self.ended.extend(row)
        self._note(
            "marker_decided",
            data.first_offset,
            data.producer_id,
            f"the marker of the transaction of producer {data.producer_id} from offset {data.first_offset} on is lost "
            f"in damage ({rule.outcome}): {rule.sentence}",
        )

    # ---- notes

    def _note(self, reason: str, offset: int | None, producer_id: int | None, detail: str) -> None:
        self.notes.append(Note(reason, self.segments[-1].path, offset, producer_id, detail))

    def _note_new_epoch(self, step: Step, odd: Oddity) -> None:
        """Notes a missing marker: the coordinator ends a transaction before the producer's epoch changes."""
        offset, new = step.cell("base_offset", odd.batch), as_stored(step.cell("producer_epoch", odd.batch))
        self._note(
            "marker_missing",
            offset,
            odd.producer_id,
            f"producer {odd.producer_id} goes from epoch {odd.producer_epoch} to {new} at offset {offset}, and no "
            f"marker ends its transaction of offset {odd.first_offset} before that; both are treated as one, as a "
            "broker does",
        )

    def _note_unreadable(self, step: Step, odd: Oddity) -> None:
        """Notes a marker that cannot be read, or raises."""
        detail, offset = step.control_key_error(odd.batch), step.cell("base_offset", odd.batch)
        if self.raises:
            position, end = step.rows.byte_range(odd.batch)
            fault = {
                "position": position,
                "base_offset": offset,
                "file": self.segments[-1].path,
                "detail": detail,
                "next_position": end,
            }
            raise error("control_record_invalid", fault)
        self._note("marker_unreadable", offset, odd.producer_id, detail)

    def _note_difference(self, producer: int, offset: int, index: str, log: str) -> None:
        detail = f"for producer {producer} at offset {offset} the .txnindex has {index}, the log {log}"
        self._note("txnindex_differs", offset, producer, detail)

    def _note_ahead(self, entry: AbortedTransaction, where: str) -> None:
        detail = f"an ABORT of producer {entry.producer_id} at offset {entry.last_offset}, {where}"
        self._note("txnindex_ahead", entry.last_offset, entry.producer_id, detail)
