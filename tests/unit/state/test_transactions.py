"""Transactions of whole logs: golden folders, folders of Kafka's own log class, cut logs, a simple oracle."""

from dataclasses import replace
from datetime import timedelta
from itertools import islice

import builders
import pytest
import transaction_logs as txns
from hypothesis import given
from hypothesis import strategies as st
from measured_calls import peak_of
from plain_logs import batch
from reading import FileInMemory
from transaction_logs import ABORT, COMMIT, DATA, EMPTY, PLAIN, Event

import kafkarec
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.recover.marker_evidence import TransactionEvidence
from kafkarec.recover.marker_matching import NOTES
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.state.transactions import listing

pytestmark = pytest.mark.core


def committed(path, **more):
    return kafkarec.open(path).read(isolation="read_committed", columns=["offset"], **more).column("offset")


# ---- what Kafka wrote


def test_a_snapshot_that_cannot_be_read_is_a_note():
    one = txns.segment(log_of((DATA, 1)))
    one.transaction_evidence = TransactionEvidence(snapshot=lambda: producer_snapshot.read(b"\0\1"))
    result = listing([one])
    assert [note.reason for note in result.notes] == ["snapshot_unreadable"] and len(result.open) == 1


# ---- against the oracle


def check(events, inputs):
    result = listing(inputs)
    ended, unended = txns.ended(events), txns.still_open(events)
    assert [(t.producer_id, t.state, t.marker_offset, t.first_offset, t.batches, t.records) for t in result][
        : len(result) - len(result.ongoing)
    ] == [
        (
            txn.producer,
            "aborted" if txn.kind == ABORT else "committed",
            txn.marker.base,
            txn.data[0].base,
            len(txn.data),
            sum(event.count for event in txn.data),
        )
        for txn in ended
        if txn.data
    ]
    assert [t.marker_offset for t in result.without_data] == [txn.marker.base for txn in ended if not txn.data]
    assert [(t.producer_id, t.first_offset, t.last_offset) for t in result.ongoing] == [
        (data[0].producer, data[0].base, data[-1].last) for data in unended
    ]
    assert result.last_stable_offset == txns.last_stable_offset(events)


@given(txns.logs(), st.lists(st.integers(0, 30), max_size=4))
def test_any_log_of_several_segments(events, borders):
    """Markers at segment borders, transactions over several segments: the same result as for one buffer."""
    parts = txns.split(events, borders)
    check(events, [txns.as_bytes(part) for part in parts])
    check(events, [txns.segment(part, txns.index_of(events, part)) for part in parts])


@given(txns.logs(), st.data())
def test_any_log_with_a_hole(events, data):
    """Cut at the start, at the end, in the middle: the result is that of the remaining events."""
    start = data.draw(st.integers(0, len(events)))
    stop = data.draw(st.integers(start, len(events)))
    for left in (events[start:], events[:stop], events[:start] + events[stop:]):
        check(left, [txns.as_bytes(left)])
        result = kafkarec.decode(txns.as_bytes(left), isolation="read_committed")
        assert result.column("offset") == txns.committed_offsets(left)


@given(txns.logs())
def test_an_index_in_place_of_lost_markers(events):
    """P13, for any log: a single segment without its ABORT markers; except those after its last batch."""
    last_kept = max((at for at, event in enumerate(events) if event.kind != ABORT), default=-1)
    events = events[: last_kept + 1]
    index = txns.index_of(events, events)
    kept = [event for event in events if event.kind != ABORT]
    result = listing([txns.segment(kept, index)])
    begun = kept[0].base if kept else 0
    wanted = [entry for entry in index if entry.last_offset >= begun]
    assert [(t.producer_id, t.first_offset, t.marker_offset) for t in result.aborted] == [one[:3] for one in wanted]
    assert {note.reason for note in result.notes} <= {"marker_missing"}
    assert result.last_stable_offset == (txns.last_stable_offset(events) if events else None)


# ---- contradictions


def log_of(*kinds):
    return [Event(kind, producer, at, 1, 0, builders.NOW + 1000 * at) for at, (kind, producer) in enumerate(kinds)]


def test_markers_have_priority_and_a_different_index_is_noted():
    events = log_of((DATA, 1), (COMMIT, 1), (DATA, 2), (ABORT, 2), (DATA, 3), (ABORT, 3), (PLAIN, -1))
    index = [
        AbortedTransaction(1, 0, 1, 2),  # a COMMIT in the log
        AbortedTransaction(2, 1, 3, 4),  # another first offset
    ]
    result = listing([txns.segment(events, index)])
    assert [(t.producer_id, t.state, t.first_offset) for t in result] == [
        (1, "committed", 0),
        (2, "aborted", 2),
        (3, "aborted", 4),
    ]
    assert [(note.reason, note.producer_id) for note in result.notes] == [
        ("txnindex_differs", who) for who in (1, 2, 3)
    ]
    assert all(note.reason in NOTES for note in result.notes)


def test_an_index_entry_within_the_next_segment_ends_nothing():
    events = log_of((DATA, 7), (PLAIN, -1), (PLAIN, -1))
    inputs = [txns.segment(events[:1], [AbortedTransaction(7, 0, 1, 2)]), txns.segment(events[1:])]
    result = listing(inputs)
    assert len(result.open) == 1
    assert [(note.reason, note.offset) for note in result.notes] == [("txnindex_ahead", 1)]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_an_index_entry_ends_nothing_where_another_batch_is(place):
    """A .txnindex has no checksum: with one wrong byte it has the ABORT of a producer that committed."""
    events = log_of((DATA, 7), (DATA, 9), (ABORT, 9), (DATA, 7), (PLAIN, -1), (COMMIT, 7))
    result = listing([txns.segment(events, [AbortedTransaction(7, 0, place, 0)])])
    assert [(txn.producer_id, txn.state) for txn in result] == [(9, "aborted"), (7, "committed")]
    assert ("txnindex_differs", 7, place) in [(note.reason, note.producer_id, note.offset) for note in result.notes]


def test_an_index_entry_of_a_marker_that_cannot_be_read_ends_its_transaction():
    unreadable = batch(1, 1, attributes=builders.TRANSACTIONAL | builders.CONTROL, producer_id=7, key=b"\0")
    begin, *_, end = log_of((DATA, 7), (PLAIN, -1), (PLAIN, -1))
    data = begin.batch + unreadable + end.batch
    one = FileInMemory(data, "0.log", TransactionEvidence(lambda: [AbortedTransaction(7, 0, 1, 2)]))
    assert [txn.state for txn in listing([one]).aborted] == ["aborted"]


@pytest.mark.parametrize("marker", [ABORT, PLAIN])
def test_the_index_has_the_first_offset_of_a_transaction_that_began_before_the_log(marker):
    """Its ABORT is there, or lost."""
    events = [Event(DATA, 7, 5, 1), Event(marker, 7, 6 if marker == ABORT else 7, 1)]
    result = listing([txns.segment(events, [AbortedTransaction(7, 2, 6, 7)])])
    assert [(txn.first_offset, txn.batches) for txn in result.aborted] == [(2, 1)]
    assert len(result.notes) == (marker == PLAIN)


def test_an_unreadable_index_is_ignored_for_the_markers():
    events = log_of((DATA, 1), (ABORT, 1))
    one = txns.segment(events)
    for index in (b"\0", b"\1" * 34):
        one.transaction_evidence = TransactionEvidence(lambda index=index: txn_index.read(index))
        result = listing([one])
        assert [note.reason for note in result.notes] == ["txnindex_unreadable"]
        assert len(result.aborted) == 1


def test_an_epoch_that_changes_within_a_transaction_is_noted():
    """A marker is missing; both parts are one transaction, as for a broker."""
    events = [Event(DATA, 7, 0, 2), Event(DATA, 7, 2, 1, 1), Event(COMMIT, 7, 3, 1, 1)]
    result = listing([txns.as_bytes(events)])
    assert [(txn.first_offset, txn.last_offset, txn.producer_epoch) for txn in result] == [(0, 2, 1)]
    [note] = result.notes
    assert (note.reason, note.offset, note.producer_id) == ("marker_missing", 2, 7)
    assert "goes from epoch 0 to 1 at offset 2" in note.detail


@pytest.mark.parametrize(
    "version, value, epoch",
    [
        (1, b"\0\0\0\0\0\5", 5),
        (127, b"\x7f\xff\0\0\0\5more", 5),
        (0, b"\x80\0\0\0\0\5", None),
        (0, b"\0\0\0\0\0", None),
        (0, None, None),
    ],
)
def test_an_abort_of_any_version_and_its_coordinator_epoch(version, value, epoch):
    """Of a version from 0 on the first fields are those of version 0."""
    record = builders.record(key=bytes([0, version, 0, 0]), value=value)
    flags = builders.TRANSACTIONAL | builders.CONTROL
    marker = builders.batch([record], base_offset=2, attributes=flags, producer_id=7, producer_epoch=0)
    [txn] = listing([Event(DATA, 7, 0, 2).batch + marker])
    assert (txn.state, txn.coordinator_epoch) == ("aborted", epoch)


def test_a_transaction_begins_at_the_append_time_of_its_first_batch():
    flags = builders.TRANSACTIONAL | builders.LOG_APPEND
    times = {"base_timestamp": builders.NOW, "max_timestamp": builders.NOW + 500}
    who = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    data = batch(1, 2, attributes=flags, **who, **times)
    around = [Event(PLAIN, -1, 0, 1), Event(PLAIN, -1, 3, 1, 0, builders.NOW + 900, append=True)]
    [txn] = listing([data.join(one.batch for one in around)])
    assert (txn.first_timestamp, txn.last_timestamp, txn.duration_ms) == (builders.NOW + 500, builders.NOW + 500, 400)


# ---- over damage

EARLIER = Event(DATA, 7, 0, 3, time=builders.NOW + 9000, append=True)
LATER = [Event(DATA, 7, 4, 2, time=builders.NOW + 1000), Event(PLAIN, -1, 6, 1, time=builders.NOW + 20_000)]
HURT = [bytes(90), *(one.batch for one in LATER)]


@pytest.mark.parametrize("segments", [1, 2])
def test_a_transaction_over_damage_has_all_of_its_data(segments):
    """Of the next epoch, so the COMMIT is that of both parts (KIP-890)."""
    parts = [EARLIER.batch, *HURT, Event(COMMIT, 7, 7, 1, 1, builders.NOW + 21_000).batch]
    inputs = [FileInMemory(b"".join(parts), "a")]
    if segments == 2:
        inputs = [FileInMemory(parts[0], "a"), FileInMemory(b"".join(parts[1:]), "b")]
    [txn] = listing(inputs).committed
    size = len(EARLIER.batch) + len(LATER[0].batch)
    assert (txn.first_offset, txn.last_offset, txn.batches, txn.records, txn.bytes) == (0, 5, 2, 5, size)
    assert (txn.first_timestamp, txn.last_timestamp) == (builders.NOW + 9000, builders.NOW + 9000)
    assert txn.segments == ("a", "b")[:segments]


@pytest.mark.parametrize("segments", [1, 2])
def test_a_legible_marker_that_the_index_lists_ends_its_transaction_once(segments):
    events = log_of((DATA, 7), (ABORT, 7), (PLAIN, -1))
    parts = [events[0].batch + builders.flipped(events[1].batch, 70), events[2].batch]
    index = TransactionEvidence(lambda: [AbortedTransaction(7, 0, 1, 2)])
    inputs = [FileInMemory(parts[0], "a", index), FileInMemory(parts[1], "b")]
    result = listing(inputs if segments == 2 else [FileInMemory(b"".join(parts), "a", index)])
    assert [(txn.producer_id, txn.marker_offset) for txn in result.aborted] == [(7, 1)]
    assert [note.reason for note in result.notes] == ["marker_decided"]


def test_an_open_transaction_over_damage_has_the_age_of_its_first_batch():
    """A snapshot from behind the damage has it open."""
    snapshot = SnapshotEntry(7, 0, 0, 5, 1, builders.NOW, 3, 0)
    one = FileInMemory(b"".join([EARLIER.batch, *HURT]), "a", TransactionEvidence(snapshots=lambda: [(6, [snapshot])]))
    [txn] = listing([one]).open
    assert (txn.first_offset, txn.batches, txn.duration_ms) == (0, 2, 11_000)


# ---- the listing


def test_states_by_the_logs_own_clock():
    events = [replace(one, append=True) for one in log_of((DATA, 1), (DATA, 2), (PLAIN, -1))]
    data = txns.as_bytes(events)
    ages = {t.producer_id: t.duration_ms for t in listing([data])}
    assert ages == {1: 2000, 2: 1000}
    result = listing([data], hanging_after=timedelta(seconds=2))
    assert [t.state for t in result] == ["hanging", "open"]
    assert [t.producer_id for t in result.hanging] == [1] and [t.producer_id for t in result.open] == [2]
    assert result.count("hanging") == 1 and len(result.ongoing) == 2
    late = [*events, Event(PLAIN, -1, 3, 1, 0, builders.NOW + 15 * 60_000 + 1000, append=True)]
    assert [t.state for t in listing([txns.as_bytes(late)])] == ["hanging", "hanging"]
    early = [*events, Event(PLAIN, -1, 3, 1, 0, builders.NOW + 15 * 60_000 - 1, append=True)]
    assert [t.state for t in listing([txns.as_bytes(early)])] == ["open", "open"]
    with pytest.raises(ValueError, match="zero or more"):
        listing([data], hanging_after=timedelta(seconds=-1))
    with pytest.raises(TypeError, match=r"hanging_after: a timedelta is expected, found 5$"):
        listing([data], hanging_after=5)


def test_a_listing_is_a_sequence_and_a_transaction_names_its_segments():
    """The fence has the other fields, as `txn` prints them."""
    events = [Event(DATA, 5, 10, 2, 3), Event(DATA, 5, 12, 3, 3), Event(COMMIT, 5, 15, 1, 4)]
    events += [Event(EMPTY, 5, 16, 1, 4), Event(DATA, 5, 17, 1, 4)]
    result = listing([txns.segment(events[:1]), txns.segment(events[1:])])
    done, unended = result
    assert (done.segments, unended.segments) == ((f"{10:020}.log", f"{12:020}.log"), (f"{12:020}.log",))
    assert (done.coordinator_epoch, unended.coordinator_epoch, unended.marker_offset) == (5, 5, None)
    assert result[-1] == unended and result[:1] == [done] and list(result.committed) == [done]
    with pytest.raises(IndexError):
        result[2]


def test_the_last_of_many_transactions_need_no_memory_for_the_others():
    """`txn` shows twenty of what may be hundreds of thousands."""
    events = [event for at in range(0, 8000, 2) for event in (Event(DATA, 7, at, 1), Event(ABORT, 7, at + 1, 1))]
    found = listing([txns.as_bytes(events)])
    last, peak = peak_of(lambda: list(islice(found.of("aborted"), found.count("aborted") - 20, None)))
    assert [txn.marker_offset for txn in last] == list(range(7961, 8000, 2)) and peak < 1 << 18
