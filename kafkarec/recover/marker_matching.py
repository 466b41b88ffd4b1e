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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, takewhile
from operator import attrgetter, itemgetter, not_
from typing import Any, NamedTuple

from kafkarec._core import Producers
from kafkarec.damage import Damage, error
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction

from .aborted_index import AbortedIndex
from .holes import Hole, LegibleMarker, examined, marker_bytes
from .marker_evidence import (
    ABORTED,
    AHEAD,
    COMMITTED,
    CONTINUES,
    LEGIBLE,
    LISTED,
    UNDECIDED,
    Decision,
    Evidence,
    NextMarker,
    Rule,
    SplitCase,
    decide,
)
from .steps import ABORT, COMMIT, ODDITY, ROW, UNREADABLE_MARKER, WIDTH, Step, as_stored

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


# Indexes into the list that represents an open transaction.
EPOCH, FIRST, LAST, FIRST_TIME, LAST_TIME, BATCHES, RECORDS, BYTES, SEGMENT, POSITION, SIZE = range(11)
_PRODUCER, _CODE, _MARKER, _FIRST, _BATCHES = map(
    ROW.index, ("producer_id", "code", "marker_offset", "first_offset", "batches")
)
_DATA = slice(ROW.index("producer_epoch"), ROW.index("last_stable_offset"))
_NO_BATCH = (-1, -1)  # the fields behind _DATA of a marker that is not among the batches


@dataclass
class _Held:
    """A transaction that was open before a hole, and where its marker may be.

    holes               that one, and the last of the further ones that have no data of the producer before them
    coordinator_epoch   of the producer's last marker
    passed              how many holes that may have anyone's marker were reached before `holes[-1]` was known
    """

    txn: list[int]
    holes: list[Hole]
    coordinator_epoch: int
    passed: int


class _Lost(NamedTuple):
    """Damaged bytes, with the number of their input."""

    segment: int
    position: int
    length: int


_OUTCOMES = {ABORT: ABORTED, COMMIT: COMMITTED}


def _without_data(epoch: int, first: int, segment: int) -> list[int]:
    return [epoch, first, -1, -1, -1, 0, 0, 0, segment, -1, 0]


class MatchedTransactions:
    """The transactions of a log, matched with its markers.

    evidence_of         a segment -> its Evidence
    segments            those of the steps
    open                producer id -> its open transaction, after `finish`
    ended               rows of WIDTH int64, in the order of the markers
    without_data        rows as in `ended` for markers of transactions without data in the input
    decisions           the transactions whose markers are lost in damage
    known_holes         holes of a log whose damaged bytes were removed, in order
    prepared            (producer id, epoch) -> whether it was aborted, from `__transaction_state`
    ahead               producer id -> its .txnindex entry after the log's last batch
    first_offset, next_offset   of the input; None: there is no batch
    """

    def __init__(
        self,
        raises: bool = False,
        evidence_of: Callable[[Any], Evidence] = attrgetter("evidence"),
        known_holes: Sequence[Hole] = (),
        prepared: Mapping[tuple[int, int], bool] | None = None,
    ) -> None:
        self.raises, self.evidence_of, self.known_holes = raises, evidence_of, [*known_holes]
        self.prepared = prepared or {}
        self.segments: list[Any] = []
        self.open: dict[int, list[int]] = {}
        self.ended, self.without_data = array("q"), array("q")
        self.first_offset: int | None = None
        self.next_offset: int | None = None
        self.notes: list[Note] = []
        self.damage: list[Damage] = []
        self.decisions: list[Decision] = []
        self.ahead: dict[int, AbortedTransaction] = {}
        self._producers = Producers()
        self._current_input: tuple[int, str | None] | None = None  # number and path of the segment
        self._segment = -1
        self._segment_start: int | None = None
        self._index: dict[tuple[int, int], AbortedTransaction] | None = None
        self._after_last_batch: list[AbortedTransaction] = []  # index entries of the last segment
        self._indexes: list[AbortedIndex | None] = []  # of each input
        self._waiting: list[_Lost] = []  # damage behind which there was no batch yet
        self._holes: list[Hole] = []
        self._holes_for_any_marker: list[
            Hole
        ] = []  # those that may have the marker of any transaction that is open before them
        self._explained: set[AbortedTransaction] = (
            set()
        )  # entries whose markers are in holes: see `_producers_of_listed_markers`
        self._held: dict[int, list[_Held]] = {}
        self._snapshots: list[tuple[int, dict[int, int]]] | None = None

    @property
    def max_timestamp(self) -> int:
        """Of all batches in ms; -1: none has one."""
        return self._producers.max_timestamp

    @property
    def highest_base(self) -> int:
        """The highest base offset of all batches; the least int64: there is none."""
        return self._producers.highest_base

    def coordinator_epoch(self, producer_id: int) -> int:
        """That of a producer's last marker; -1: not known."""
        return self._producers.coordinator_epoch(producer_id)

    @property
    def _file(self) -> str | None:
        path: str | None = self.segments[-1].path
        return path

    def note(self, reason: str, offset: int | None, producer_id: int | None, detail: str) -> None:
        self.notes.append(Note(reason, self._file, offset, producer_id, detail))

    # ---- one segment

    def _begin(self, segment: Any) -> None:
        self._after_last_batch += (self._index or {}).values()
        self.segments.append(segment)
        self._segment += 1
        self._segment_start = None
        self._indexes.append(None)
        self._index = self._read_index(self.evidence_of(segment))

    def refresh_evidence(self) -> None:
        """Called before the steps of a log that has grown: what other files say is read again."""
        self._snapshots = None
        if self.segments:
            index = self._read_index(self.evidence_of(self.segments[-1]))
            passed = self.next_offset or 0
            self._index = index and {key: entry for key, entry in index.items() if entry.last_offset >= passed}

    def open_so_far(self) -> dict[int, list[int]] | None:
        """`open` in place of `finish`, if the log may go on; None: there is something to decide that its end tells, or
        other files."""
        if self._held or self._waiting or any(one.outcome == UNDECIDED for one in self.decisions):
            return None
        return self._producers.open()

    def finish(self) -> None:
        """Called after the last step. Decides the transactions whose next marker is not in the log, and notes the
        markers that its index has after its last batch: lost, or never written."""
        self._after_last_batch += (self._index or {}).values()
        if self.known_holes:
            self._hold_open_transactions(self.known_holes.pop(0))
        elif self._waiting and self.next_offset is not None:
            self._hold_open_transactions(self._examined(Hole(self.next_offset, None), self._waiting))
        for entry in self._after_last_batch:
            held = self._held.get(entry.producer_id)
            if held and entry.last_offset in self._catch_up(held[-1]).holes[-1]:
                self._end_by_index(entry)
            else:
                self._note_ahead(entry, "after the log's last batch")
                self.ahead.setdefault(entry.producer_id, entry)
        self.open = self._producers.open()
        for producer in list(self._held):
            txn = self._resolve(producer, self.open.get(producer), None, self.ahead.get(producer))
            if txn is not None:
                self.open[producer] = txn
        if self.decisions:
            rows = sorted(zip(*[iter(self.ended)] * WIDTH, strict=True), key=lambda row: row[_MARKER])
            self.ended = array("q", [field for row in rows for field in row])

    def _read_index(self, evidence: Evidence) -> dict[tuple[int, int], AbortedTransaction] | None:
        self._indexes[-1] = None
        try:
            entries = evidence.aborted()
        except (KafkaRecordError, OSError) as failure:
            self.note("txnindex_unreadable", None, None, str(failure))
            return None
        if entries is None:
            return None
        self._indexes[-1] = found = AbortedIndex(entries)
        return {(entry.producer_id, entry.last_offset): entry for entry in found.entries if entry.producer_id >= 0}

    def take(self, step: Step) -> None:
        """The next step of a walk with the MARKER_COLUMNS of control batches."""
        # A log that grows is opened again and again; of segments that are walked one by one each is number 0.
        read = step.number, step.segment.path
        if read != self._current_input:
            self._current_input = read
            self._begin(step.segment)
        self.damage += step.damage
        self._waiting += [_Lost(self._segment, damage.position, damage.length) for damage in step.damage]
        if not len(step):
            return
        if self.first_offset is None:
            self.first_offset = step.first_offset
        if self._segment_start is None:
            self._segment_start = step.first_offset
        holes = self._holes_of(step)
        legible = {(hole.marker.producer_id, hole.marker.offset) for _, hole in holes if hole.marker}
        if holes and holes[0][0] == 0:
            self._hold_open_transactions(holes.pop(0)[1])
        if self._after_last_batch:
            # their markers were lost between the previous segment and this one
            before, self._after_last_batch = self._after_last_batch, []
            for entry in sorted(before, key=attrgetter("last_offset")):
                if (entry.producer_id, entry.last_offset) in legible:
                    continue
                if entry.last_offset < step.first_offset:
                    self._end_by_index(entry)
                else:
                    self._note_ahead(entry, "within the next segment's offsets")
        self.next_offset = step.last_offset + 1
        lost: list[AbortedTransaction] = []  # entries whose marker should be among these batches and is not
        if self._index:
            last = step.last_offset
            due = set(takewhile(lambda key: key[1] <= last, self._index)) - legible
            if due:
                due -= step.marker_keys()
            lost = sorted((self._index.pop(key) for key in due), key=attrgetter("last_offset"))
        start = 0
        # Where both are before a batch, the hole comes first: the marker of the entry is in it.
        places: list[tuple[int, int, Hole | AbortedTransaction]] = [(row, 0, hole) for row, hole in holes]
        places += [(bisect_right(step.column("last_offset"), entry.last_offset), 1, entry) for entry in lost]
        for stop, _, found in sorted(places, key=lambda place: place[:2]):
            self._match_rows(step, start, stop)
            if isinstance(found, Hole):
                self._hold_open_transactions(found)
            else:
                self._end_by_index(found)
            start = stop
        self._match_rows(step, start, len(step))

    def _match_rows(self, step: Step, start: int, stop: int) -> None:
        """Matches the rows [start, stop)."""
        ended, without_data, odd = self._producers.run(step.rows, step.chunk, start, stop, self._segment)
        if not odd and not self._held and self._take_matching_entries(ended, without_data):
            self.ended.frombytes(ended)
            self.without_data.frombytes(without_data)
            return
        # one by one: there is damage, a contradiction, or a marker that cannot be read
        found = [*zip(*[iter(array("q", ended + without_data))] * WIDTH, strict=True)]
        found += zip(*[iter(array("q", odd))] * len(ODDITY), strict=True)
        for row in sorted(found, key=itemgetter(-1)):
            if len(row) == WIDTH:
                self._end(step, row)
            elif row[0] == UNREADABLE_MARKER:
                self._unreadable(step, *row[1:])
            else:
                self._epoch_changed(step, *row[1:])

    def _take_matching_entries(self, ended_rows: bytes, without_data_rows: bytes) -> bool:
        """Whether the .txnindex agrees with these markers; if so, removes their entries from it."""
        known = self._index
        if known is None:
            return True
        ended, without_data = array("q", ended_rows), array("q", without_data_rows)
        aborts = [code == ABORT for code in ended[_CODE::WIDTH]]
        aborted = dict(compress(zip(_keys(ended), ended[_FIRST::WIDTH], strict=True), aborts))
        others = chain(compress(_keys(ended), map(not_, aborts)), _keys(without_data))
        if len(aborted) != sum(aborts) or not known.keys().isdisjoint(others):
            return False
        if any(key not in known or known[key].first_offset != first for key, first in aborted.items()):
            return False
        for key in aborted:
            del known[key]
        return True

    def _end(self, step: Step, row: Sequence[int]) -> None:
        """Ends the transaction of a marker. row: of ROW."""
        producer, code, last = row[_PRODUCER], row[_CODE], row[_MARKER]
        epoch = as_stored(step.column("producer_epoch")[row[-1]])
        txn = [*row[_DATA], -1, 0] if row[_BATCHES] else None
        if producer in self._held:
            txn = self._resolve(producer, txn, (code, last, epoch))
        if self._index is not None:
            txn = self._reconcile_with_index(code, producer, last, epoch, txn)
        rows, of = (self.without_data, _without_data(epoch, -1, self._segment)) if txn is None else (self.ended, txn)
        rows.extend((*row[: _DATA.start], *of[:POSITION], *row[_DATA.stop :]))

    # ---- rare cases

    def _epoch_changed(self, step: Step, producer: int, epoch: int, first: int, row: int) -> None:
        """Notes a missing marker: the coordinator ends a transaction before the producer's epoch changes."""
        offset, new = step.column("base_offset")[row], as_stored(step.column("producer_epoch")[row])
        self.note(
            "marker_missing",
            offset,
            producer,
            f"producer {producer} goes from epoch {epoch} to {new} at offset {offset}, and no marker ends its "
            f"transaction of offset {first} before that; both are treated as one, as a broker does",
        )

    def _unreadable(self, step: Step, producer: int, epoch: int, first: int, row: int) -> None:
        detail, offset = step.why_unreadable(row), step.column("base_offset")[row]
        if self.raises:
            position = step.column("position")[row]
            fault = {
                "position": position,
                "base_offset": offset,
                "file": self._file,
                "detail": detail,
                "next_position": position + step.column("size_in_bytes")[row],
            }
            raise error("control_record_invalid", fault)
        self.note("marker_unreadable", offset, producer, detail)

    def _reconcile_with_index(
        self, code: int, producer: int, offset: int, epoch: int, txn: list[int] | None
    ) -> list[int] | None:
        """Compares a marker with its .txnindex entry; returns its transaction, whose first offset the entry may lower
        to one before the input."""
        assert self._index is not None and self.first_offset is not None
        entry = self._index.pop((producer, offset), None)
        if code == COMMIT:
            if entry is not None:
                self._note_difference(offset, producer, "an ABORT", "a COMMIT")
            return txn
        if entry is None:
            if txn is not None:
                self._note_difference(offset, producer, "nothing", "an ABORT")
            return txn
        if txn is None:
            return _without_data(epoch, entry.first_offset, self._segment)
        if entry.first_offset != txn[FIRST]:
            if entry.first_offset < self.first_offset:
                txn[FIRST] = entry.first_offset
            else:
                first = f"first offset {entry.first_offset}", f"first offset {txn[FIRST]}"
                self._note_difference(offset, producer, *first)
        return txn

    def _note_difference(self, offset: int, producer: int, index: str, log: str) -> None:
        detail = f"for producer {producer} at offset {offset} the .txnindex has {index}, the log {log}"
        self.note("txnindex_differs", offset, producer, detail)

    def _note_ahead(self, entry: AbortedTransaction, where: str) -> None:
        detail = f"an ABORT of producer {entry.producer_id} at offset {entry.last_offset}, {where}"
        self.note("txnindex_ahead", entry.last_offset, entry.producer_id, detail)

    def _end_by_index(self, entry: AbortedTransaction) -> None:
        """Ends a transaction by its .txnindex entry: the ABORT marker was lost (damage, a missing segment)."""
        assert self.first_offset is not None
        producer, first, last = entry.producer_id, entry.first_offset, entry.last_offset
        if last < self.first_offset:
            self._note_ahead(entry, "before the log's first batch")
            return
        lost = f"only the .txnindex has the ABORT of producer {producer} at offset {last}"
        self.note("marker_missing", last, producer, lost)
        opened, known = self._producers.pop(producer), len(self.decisions)
        if opened is not None and first > opened[FIRST]:  # it is not that of the entry, and its marker is lost, too
            opened = self._hold_before(entry, opened)
        elif opened is None and producer in self._held:
            opened = self._end_before(entry, self._catch_up(self._held[producer][-1]))
        if producer in self._held:
            opened = self._resolve(producer, opened, (ABORT, last, -1), entry)
        is_decided = any(one.marker_offset == last for one in self.decisions[known:])
        if opened is not None and opened[LAST] >= 0 and not is_decided:
            coordinator = self.coordinator_epoch(producer)
            self.decisions.append(_decision(producer, coordinator, opened, LISTED, Hole(last, last), last))
        txn = opened or _without_data(-1, first, self._segment)
        txn[FIRST] = min(first, txn[FIRST])
        self.ended.extend((producer, ABORT, last, -1, -1, self._segment, *txn[:POSITION], *_NO_BATCH))

    def _hold_before(self, entry: AbortedTransaction, txn: list[int]) -> list[int] | None:
        """Holds a transaction that began before that of a .txnindex entry. Returns that of the entry, None where it
        cannot be told from the held one. No byte is damaged: the file may be another log's, and proves no COMMIT."""
        has_room = entry.first_offset > txn[LAST] + 1
        hole = Hole(txn[LAST] + 1, entry.first_offset - 1 if has_room else entry.last_offset)
        coordinator = self.coordinator_epoch(entry.producer_id)
        self._held.setdefault(entry.producer_id, []).append(
            _Held(txn, [hole], coordinator, len(self._holes_for_any_marker))
        )
        return _without_data(-1, entry.first_offset, self._segment) if has_room else None

    def _end_before(self, entry: AbortedTransaction, held: _Held) -> list[int] | None:
        """The transaction of a .txnindex entry if it began in a hole, so that the held one ended before it there."""
        at = next((n for n, hole in enumerate(held.holes) if entry.first_offset in hole), None)
        if at is None or held.holes[at].first == entry.first_offset:
            return None
        held.holes[at:] = [held.holes[at]._replace(last=entry.first_offset - 1)]
        return _without_data(-1, entry.first_offset, self._segment)

    # ---- holes

    def _holes_of(self, step: Step) -> list[tuple[int, Hole]]:
        """(row, hole before it), in order."""
        if not self._waiting and not self.known_holes:
            return []
        positions, bases, lasts = map(step.column, ("position", "base_offset", "last_offset"))
        rows: dict[int, list[_Lost]] = {}
        waiting, self._waiting = self._waiting, []
        for lost in waiting:
            row = 0 if lost.segment < self._segment else bisect_left(positions, lost.position)
            if row < len(positions):
                rows.setdefault(row, []).append(lost)
            else:
                self._waiting.append(lost)
        found = {}
        for row, all_lost in rows.items():
            first = lasts[row - 1] + 1 if row else self.next_offset
            last = (lasts[row] if bases[row] is None else bases[row]) - 1
            if first is not None and first <= last:
                found[row] = self._examined(Hole(first, last), all_lost)
        while self.known_holes and self.known_holes[0].last is not None and self.known_holes[0].last < lasts[-1]:
            hole = self.known_holes.pop(0)
            found[bisect_right(lasts, hole.last or 0)] = hole
        return sorted(found.items())

    def _examined(self, hole: Hole, all_lost: list[_Lost]) -> Hole:
        hole = hole._replace(segments=tuple(sorted({lost.segment for lost in all_lost})))
        if len(all_lost) != 1:
            return hole
        [lost] = all_lost
        return examined(hole, lost.length, marker_bytes(self.segments[lost.segment], lost.position))

    def _hold_open_transactions(self, hole: Hole) -> None:
        """Holds the transactions that are open before a hole and may end in it."""
        self._holes.append(hole)
        listed = self._producers_of_listed_markers(hole)
        if hole.marker is not None:
            self._end_by_legible_marker(hole, hole.marker)
        if not hole.may_hold:
            return
        is_anyones = listed is None
        if listed is None:
            listed = [] if self._producers.first_open_offset is None else list(self._producers.open())
        for producer in listed:
            txn, held = self._producers.pop(producer), self._held.get(producer, [])
            if held:
                self._catch_up(held[-1])
            if txn is not None:
                one = _Held(txn, [hole], self.coordinator_epoch(producer), len(self._holes_for_any_marker) + is_anyones)
                self._held.setdefault(producer, []).append(one)
            elif held:
                held[-1].holes[1:] = [hole]
        if is_anyones:
            self._holes_for_any_marker.append(hole)

    def _catch_up(self, held: _Held) -> _Held:
        """The last held transaction of a producer, with the last hole that may have its marker."""
        if held.passed < len(self._holes_for_any_marker):
            held.holes[1:], held.passed = self._holes_for_any_marker[-1:], len(self._holes_for_any_marker)
        return held

    def _producers_of_listed_markers(self, hole: Hole) -> list[int] | None:
        """The producers whose markers are in a hole, if .txnindex entries account for all of its offsets: entries of
        transactions that were open before the hole, or are in it."""
        found = {}
        for index in filter(None, (self._indexes[segment] for segment in hole.segments)):
            for entry in index.within(hole):
                state = self._producers.entry(entry.producer_id)
                opened = state is not None and state[-1] == entry.first_offset >= 0
                if opened or entry.first_offset in hole:
                    self._explained.add(entry)
                    found[entry.last_offset] = entry.producer_id
        is_complete = hole.last is not None and len(found) == hole.last - hole.first + 1
        return list(dict.fromkeys(found.values())) if is_complete else None

    def _end_by_legible_marker(self, hole: Hole, marker: LegibleMarker) -> None:
        producer, code, offset = marker.producer_id, marker.code, marker.offset
        txn = self._producers.pop(producer)
        if producer in self._held:
            txn = self._resolve(producer, txn, (code, offset, marker.producer_epoch))
        if self._index:
            self._index.pop((producer, offset), None)
        txn = txn or _without_data(marker.producer_epoch, -1, self._segment)
        self._producers.set_coordinator_epoch(producer, marker.coordinator_epoch)
        rule = LEGIBLE._replace(outcome=_OUTCOMES[code])
        self._decide(producer, marker.coordinator_epoch, txn, hole, rule, marker)

    def _resolve(
        self,
        producer: int,
        txn: list[int] | None,
        marker: tuple[int, int, int] | None,
        entry: AbortedTransaction | None = None,
    ) -> list[int] | None:
        """Decides the held transactions of a producer, as its next marker is known. Returns the transaction that this
        marker ends.

        txn      the producer's data behind the last hole
        marker   (code, offset, epoch); None: there is none up to the log's end
        entry    the .txnindex entry of a marker that is not in the log
        """
        held = self._held.pop(producer)
        self._catch_up(held[-1])
        last_epoch = (txn or held[-1].txn)[EPOCH]
        following = [*(one.txn for one in held[1:]), txn]
        if marker is not None and entry is None and self._index is not None:
            entry = self._index.get((producer, marker[1]))
        carried: list[int] | None = None
        coordinator = held[0].coordinator_epoch
        for one, after in zip(held, following, strict=True):
            current = _transaction_across_hole(carried, one.txn)
            case = SplitCase(
                current[EPOCH],
                current[FIRST],
                tuple(one.holes),
                None if after is None else after[FIRST],
                None if marker is None else NextMarker(*marker, last_epoch),
                entry,
                entry is not None and self._begins(entry, current),
                self._snapshot_behind(producer, one.holes[-1], marker),
                entry is None and self._had_none(marker),
                self.prepared.get((producer, current[EPOCH])),
                self._is_unlisted(producer, current, one.holes),
            )
            rule = decide(case)
            if rule.outcome == CONTINUES or (case.is_listed and after is None):
                carried = current
                if case.is_listed and entry is not None:
                    self.decisions.append(
                        _decision(producer, coordinator, current, rule, one.holes[0], entry.last_offset)
                    )
            else:
                carried = None
                self._decide(producer, coordinator, current, one.holes[0], rule)
        return carried if txn is None else _transaction_across_hole(carried, txn)

    def _begins(self, entry: AbortedTransaction, txn: list[int]) -> bool:
        """Whether a .txnindex entry is that of a transaction whose first batches may be lost."""
        if entry.first_offset > txn[FIRST] or entry.last_offset < txn[LAST]:
            return False
        assert self.first_offset is not None
        if entry.first_offset == txn[FIRST] or entry.first_offset < self.first_offset:
            return True
        at = bisect_right(self._holes, entry.first_offset, key=attrgetter("first"))
        return at > 0 and entry.first_offset in self._holes[at - 1]

    def _snapshot_behind(self, producer: int, hole: Hole, marker: tuple[int, int, int] | None) -> int | None:
        """SplitCase.snapshot"""
        if self._snapshots is None:
            read = [found for one in self.segments[:1] for found in self.evidence_of(one).snapshots()]
            self._snapshots = [
                (offset, {entry.producer_id: entry.current_txn_first_offset for entry in entries})
                for offset, entries in read
            ]
        for offset, first_offsets in self._snapshots:
            if hole.last is not None and offset > hole.last and (marker is None or offset <= marker[1]):
                return first_offsets.get(producer, -1)
        return None

    def _had_none(self, marker: tuple[int, int, int] | None) -> bool:
        """SplitCase.had_none, for a marker of this segment without an entry"""
        index = self._indexes[-1]
        if marker is None or marker[0] != ABORT or index is None or self._segment_start is None:
            return False
        if not self._segment_start <= marker[1] < index.last_offset:
            return False
        return index.is_in_order and not index.within(Hole(marker[1], marker[1]))

    def _is_unlisted(self, producer: int, txn: list[int], holes: list[Hole]) -> bool:
        """SplitCase.unlisted"""
        segments = {segment for hole in holes for segment in hole.segments}
        index = self._indexes[segments.pop()] if len(segments) == 1 else None
        if index is None or holes[-1].last is None or index.last_offset <= holes[-1].last or not index.is_in_order:
            return False
        if index.overlaps(producer, txn[FIRST], txn[LAST]):
            return False
        return all(self._explained.issuperset(index.within(hole)) for hole in holes)

    def _decide(
        self,
        producer: int,
        coordinator: int,
        txn: list[int],
        hole: Hole,
        rule: Rule,
        marker: LegibleMarker | None = None,
    ) -> None:
        """Records how a transaction ended, and ends it."""
        epoch, offset, time = txn[EPOCH], None, -1
        if marker is not None:
            epoch, offset, time = marker.producer_epoch, marker.offset, marker.timestamp
        decision = _decision(producer, coordinator, txn, rule, hole, offset)
        self.decisions.append(decision._replace(producer_epoch=epoch, timestamp=time))
        until = offset if offset is not None else txn[LAST] if hole.last is None else hole.last
        code = COMMIT if rule.outcome == COMMITTED else ABORT
        row = (producer, code, until, time, decision.coordinator_epoch, self._segment)
        if txn[LAST] < 0:
            self.without_data.extend((*row, *txn[:POSITION], *_NO_BATCH))
            return
        self.note(
            "marker_decided",
            txn[FIRST],
            producer,
            f"the marker of the transaction of producer {producer} from offset {txn[FIRST]} on is lost in damage "
            f"({rule.outcome}): {rule.sentence}",
        )
        self.ended.extend((*row, *txn[:POSITION], *_NO_BATCH))

    # ---- after the last input

    def listed_ahead(self) -> list[Decision]:
        """The open transactions whose ABORT the .txnindex has behind the log's end. They stay open, as for a broker,
        which rebuilds the index."""
        end = Hole(self.next_offset or 0, None)
        return [
            _decision(producer, self.coordinator_epoch(producer), txn, AHEAD, end, entry.last_offset)
            for producer, entry in self.ahead.items()
            if (txn := self.open.get(producer)) is not None and self._begins(entry, txn)
        ]


def _keys(rows: array[int]) -> Iterator[tuple[int, int]]:
    """(producer id, marker's offset) of rows of ROW, as in a .txnindex"""
    return zip(rows[_PRODUCER::WIDTH], rows[_MARKER::WIDTH], strict=True)


def _decision(
    producer: int,
    coordinator: int,
    txn: list[int],
    rule: Rule,
    hole: Hole,
    offset: int | None,
) -> Decision:
    return Decision(
        producer,
        txn[EPOCH],
        coordinator,
        txn[FIRST],
        txn[LAST],
        rule.outcome,
        rule.proof,
        rule.sentence,
        hole.first,
        hole.last,
        offset,
    )


def _transaction_across_hole(one: list[int] | None, other: list[int]) -> list[int]:
    """The data of a transaction before and behind a hole."""
    if one is None:
        return other
    both = list(other)
    both[FIRST], both[FIRST_TIME], both[SEGMENT] = one[FIRST], one[FIRST_TIME], one[SEGMENT]
    both[POSITION], both[SIZE] = one[POSITION], one[SIZE]
    both[LAST_TIME] = max(one[LAST_TIME], other[LAST_TIME])
    for count in (BATCHES, RECORDS, BYTES):
        both[count] += one[count]
    return both
