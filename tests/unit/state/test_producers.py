"""Producer states: what a broker keeps of each producer, and how it would have answered a batch."""

import pytest
from paths import SEGMENTS

from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.state.producers import BROKER, RECOVERY, ProducerStates

pytestmark = pytest.mark.core


def row(base, count=3, *, pid=7, epoch=0, first=None, **more):
    """Return a batch's row; `first` is its base sequence."""
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "base_sequence": first,
        "last_sequence": None if first is None else (first + count - 1) % 2**31,
        "base_offset": base,
        "last_offset": base + count - 1,
        "max_timestamp": 1000 + base,
        "is_transactional": False,
        "is_control": False,
    } | more


def marker_row(base, *, pid, epoch):
    return row(base, 1, pid=pid, epoch=epoch, is_transactional=True, is_control=True)


def of(*rows):
    states = ProducerStates()
    for one in rows:
        states.append(one)
    return states


_KAFKAS = {
    None: "taken",
    "duplicate": "duplicate",
    "old_epoch": "epoch",
    "not_transactional": "transaction",
    "sequence_gap": "sequence",
    "out_of_order": "sequence",
    "new_epoch_not_from_zero": "sequence",
}


def test_kafkas_own_verdicts():
    """Random batches with the verdicts of Kafka 4.3's ProducerAppendInfo (vectors/indexes/BIRTH.md)."""
    states, seen = ProducerStates(), set()
    for line in (SEGMENTS.parent / "indexes" / "judged.txt").read_text().splitlines():
        kind, *words = line.split()
        if kind == "run":
            states = ProducerStates()
        elif kind == "m":
            pid, epoch, offset = map(int, words)
            states.append(marker_row(offset, pid=pid, epoch=epoch), is_end=True)
        else:
            pid, epoch, base, last, first, _ = map(int, words[:6])
            batch = row(base, last - base + 1, pid=pid, epoch=epoch, first=first, is_transactional=words[6] == "true")
            verdict = states.violation(batch)
            assert _KAFKAS[verdict] == words[7], line
            seen.add(verdict)
            states.append(batch)
    assert seen == set(_KAFKAS)


def test_a_marker_that_only_the_index_has():
    """Where the transaction of the entry is open; it has the producer's own epoch and time."""
    states = of(row(10, 3, is_transactional=True), row(13, 2, pid=8, is_transactional=True))
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
    for base, older in ((20, 4), (21, 3)):
        states.append(marker_row(base, pid=7, epoch=older))
    assert states.snapshot() == (SnapshotEntry(7, epoch, -1, -1, 0, time, -1, -1),)
    assert states.violation(row(22, epoch=4, first=9)) == (None if epoch == -1 else "sequence_gap")


def test_the_oldest_open_transaction_where_offsets_fall():
    """As in a damaged log."""
    states = of(*(row(base, pid=base, is_transactional=True) for base in (10, 4, 7)))
    for base in (4, 7, 10):
        assert states.first_undecided_offset == base
        states.append(marker_row(20, pid=base, epoch=0), is_end=True)
    assert states.first_undecided_offset is None
