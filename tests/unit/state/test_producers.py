"""Producer states: what a broker keeps of each producer, and how it would have answered a batch."""

import builders
import pytest
from paths import SEGMENTS
from plain_logs import batch

from kafkarec._core import Producers
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.read.walk import MARKERS, walk, walk_request
from kafkarec.state.producers import BROKER, RECOVERY, ProducerStates

pytestmark = pytest.mark.core


def data(base, count=3, *, pid=7, epoch=0, first=-1, transactional=False):
    """Return a batch of data; `first` is its base sequence."""
    flags = builders.TRANSACTIONAL if transactional else 0
    fields = {"base_sequence": first, "attributes": flags, "base_timestamp": 1000 + base}
    return batch(base, count, producer_id=pid, producer_epoch=epoch, **fields)


def emptied_marker(base, epoch):
    flags = builders.TRANSACTIONAL | builders.CONTROL
    fields = {"attributes": flags, "last_offset_delta": 0, "base_timestamp": 1000 + base}
    return builders.batch([], base_offset=base, producer_id=7, producer_epoch=epoch, **fields)


def commit(base, *, pid, epoch=0):
    return builders.end_marker(base, pid, commit=True, producer_epoch=epoch)


def step_of(*batches):
    (step,) = walk([b"".join(batches)], walk_request(MARKERS))
    return step


def of(*batches):
    states = ProducerStates()
    states.take(step_of(*batches))
    return states


# by the numbers of Violation
_KAFKAS = ("taken", "epoch", "duplicate", "sequence", "sequence", "sequence", "transaction")


def test_kafkas_own_verdicts():
    """Random batches with the verdicts of Kafka 4.3's ProducerAppendInfo (vectors/indexes/BIRTH.md)."""
    producers, seen = Producers(BROKER), set()
    for line in (SEGMENTS.parent / "indexes" / "judged.txt").read_text().splitlines():
        kind, *words = line.split()
        if kind == "run":
            producers = Producers(BROKER)
        elif kind == "m":
            pid, epoch, offset = map(int, words)
            assert producers.take_to_refused(step_of(commit(offset, pid=pid, epoch=epoch)).rows, 0) is None
        else:
            pid, epoch, base, last, first, _ = map(int, words[:6])
            transactional = words[6] == "true"
            count = last - base + 1
            rows = step_of(data(base, count, pid=pid, epoch=epoch, first=first, transactional=transactional)).rows
            refused = producers.take_to_refused(rows, 0)
            _, verdict, _ = refused or (0, 0, None)
            assert _KAFKAS[verdict] == words[7], line
            seen.add(verdict)
            if words[7] in ("epoch", "duplicate"):  # the log of the vectors has these, too
                producers.take(rows, None, 0, 1, 0)
    assert seen == {*range(len(_KAFKAS))}


def test_refused_batches_of_one_step():
    """Each with its index and the state before it; what missing offsets explain is none of them."""
    rows = step_of(
        data(0, first=0),
        data(3, first=7),
        data(6, first=7),
        data(9, pid=8, first=5),
        data(12, first=10),
        data(20, first=20),
        data(23, pid=8, first=20),
        data(26, pid=8, first=30),
    ).rows
    producers, found, start = Producers(BROKER), [], 0
    while refused := producers.take_to_refused(rows, start):
        row, why, before = refused
        found.append((row, why, SnapshotEntry(*before).last_sequence))
        start = row + 1
    assert found == [(1, 4, 2), (2, 2, 9), (7, 4, 22)]
    assert producers.take_to_refused(rows, len(rows)) is None
    with pytest.raises(ValueError):
        producers.take_to_refused(rows, len(rows) + 1)


def test_a_marker_that_only_the_index_has():
    """Where the transaction of the entry is open; it has the producer's own epoch and time."""
    states = of(data(10, transactional=True), data(13, 2, pid=8, transactional=True))
    entry = AbortedTransaction(7, 10, 15, 0)
    for other in (entry._replace(producer_id=9), entry._replace(first_offset=9), entry._replace(first_offset=-1)):
        assert states.end_by_index(other) is None
    assert states.first_undecided_offset == 10 and states.end_offset == 15
    before = states.entry(7)
    assert states.end_by_index(entry) == AbortedTransaction(7, 10, 15, 13)
    assert states.entry(7) == before._replace(current_txn_first_offset=-1)
    assert states.end_by_index(entry) is None and states.first_undecided_offset == 13


@pytest.mark.parametrize("policy, epoch, time", [(BROKER, 4, 1020), (RECOVERY, -1, -1)])
def test_a_control_batch_that_the_cleaner_emptied(policy, epoch, time):
    """Recovery ignores it, which loses the epoch; the broker that wrote the log knows it."""
    states = ProducerStates(policy=policy)
    states.take(step_of(emptied_marker(20, 4), emptied_marker(21, 3)))
    assert states.snapshot() == (SnapshotEntry(7, epoch, -1, -1, 0, time, -1, -1),)


def test_the_oldest_open_transaction_where_offsets_fall():
    """As in a damaged log."""
    states = of(*(data(base, pid=base, transactional=True) for base in (10, 4, 7)))
    for base in (4, 7, 10):
        assert states.first_undecided_offset == base
        states.take(step_of(commit(20, pid=base)))
    assert states.first_undecided_offset is None
