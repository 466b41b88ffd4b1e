"""Producer states: what a broker keeps of each producer, and how it would have answered a batch."""

import random

import pytest
from paths import SEGMENTS
from slow_producers import SlowStates

import kafkarec
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import BROKER, RECOVERY, VIOLATIONS, Marker, ProducerStates, read_marker


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


COMMIT = Marker(False, 4, 9000)


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
            states.append(marker_row(offset, pid=pid, epoch=epoch), COMMIT)
        else:
            pid, epoch, base, last, first, _ = map(int, words[:6])
            batch = row(base, last - base + 1, pid=pid, epoch=epoch, first=first, is_transactional=words[6] == "true")
            verdict = states.violation(batch)
            assert _KAFKAS[verdict] == words[7], line
            seen.add(verdict)
            states.append(batch)
    assert seen == set(_KAFKAS)


def test_a_retry_of_an_older_batch_than_the_last_five_is_out_of_order():
    states = of(*(row(3 * n, first=3 * n) for n in range(6)))
    assert states.violation(row(18, first=3)) == "duplicate"
    assert states.violation(row(18, first=0)) == "out_of_order"


def test_the_rows_of_a_scan_yield_the_brokers_snapshot():
    """As the module's docstring describes it."""
    folder = SEGMENTS / "txn-0"
    states = ProducerStates()
    aborted = 0
    for segment in kafkarec.open(folder).segments:
        for one in segment.scan():
            assert states.violation(one) is None
            raw = segment.raw(one["position"], one["size_in_bytes"])
            ended = states.append(one, read_marker(raw) if one["is_control"] else None)
            aborted += ended is not None
    assert aborted == 11
    assert producer_snapshot.write(states.snapshot()) == (folder / f"{293:020d}.snapshot").read_bytes()


def random_row(chosen, base):
    """A batch of one of four producers, with odd epochs and sequences, and its marker."""
    pid = chosen.choice([None, -1, 1, 2, 3, 4])
    epoch, first = chosen.choice([0, 0, 0, 1, 2]), chosen.choice([None, 0, 1, 3, 2**31 - 2, base % 7])
    batch = row(base, chosen.randrange(1, 5), pid=pid, epoch=epoch, first=first)
    batch |= {"max_timestamp": chosen.choice([None, 5, base]), "is_transactional": chosen.randrange(3) > 0}
    if chosen.randrange(4):
        return batch, None
    marker = Marker(bool(chosen.randrange(2)), chosen.randrange(9), base) if chosen.randrange(4) else None
    return batch | {"is_control": True, "is_transactional": True}, marker


@pytest.mark.parametrize("policy", [BROKER, RECOVERY])
def test_random_batches(policy):
    """As `SlowStates`: what ends, what is refused, each entry; from a snapshot, and with lost markers."""
    seen = set()
    for seed in range(300):
        chosen = random.Random(seed)
        snapshot = [
            SnapshotEntry(2, 1, 5, 9, 2, 7, 3, chosen.choice([-1, 4])),
            SnapshotEntry(9, 0, -1, -1, 0, -1, -1, chosen.choice([-1, 2])),
        ][: chosen.randrange(3)]
        fast, slow = ProducerStates(snapshot, 10, policy), SlowStates(snapshot, 10, as_recovery=policy == RECOVERY)
        base = 10
        for _ in range(40):
            batch, marker = random_row(chosen, base)
            verdict = fast.violation(batch)
            assert verdict == slow.violation(batch)
            seen.add(verdict)
            assert fast.append(batch, marker) == slow.append(batch, marker)
            assert fast.first_undecided_offset == slow.first_undecided_offset
            base = batch["last_offset"] + 1 - (chosen.randrange(9) == 0) * 3  # in a damaged log offsets may fall
            if chosen.randrange(9) == 0:
                entry = AbortedTransaction(chosen.choice([1, 2, 9]), chosen.choice([2, 4, 10]), base, 0)
                assert fast.end_by_index(entry) == slow.end_by_index(entry)
        assert fast.end_offset == slow.end_offset and fast.snapshot() == slow.snapshot()
        assert fast.entries() == list(slow.producers.values())
    assert seen == {None, *VIOLATIONS}
