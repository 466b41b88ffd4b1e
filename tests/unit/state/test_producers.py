"""Producer states: what a broker keeps of each producer, and how it would have answered a batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import builders
import pytest
import reading
from paths import SEGMENTS
from slow_producers import SlowStates

import kafkarec
from kafkarec.format.side_files import AbortedTransaction, SnapshotEntry
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import (
    BROKER,
    CLEANER,
    RECOVERY,
    VIOLATIONS,
    Marker,
    ProducerStates,
    read_marker,
)


def row(
    base: int, count: int = 3, *, pid: int | None = 7, epoch: int = 0, first: int | None = None, **more: Any
) -> Any:
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


def marker_row(base: int, *, pid: int = 7, epoch: int = 0) -> Any:
    return row(base, 1, pid=pid, epoch=epoch, is_transactional=True, is_control=True)


def of(*rows: Any) -> ProducerStates:
    states = ProducerStates()
    for one in rows:
        states.append(one)
    return states


ABORT, COMMIT = Marker(True, 4, 9000), Marker(False, 4, 9000)


def test_the_last_five_batches_are_kept() -> None:
    states = of(*(row(3 * n, first=3 * n) for n in range(8)))
    verdicts = [states.violation(row(24, first=3 * n)) for n in range(9)]
    assert verdicts == ["out_of_order"] * 3 + ["duplicate"] * 5 + [None]
    assert states.end_offset == 24


def test_a_new_epoch_discards_the_batches() -> None:
    states = of(row(0, first=0), row(3, first=3), row(6, epoch=1, first=0))
    known = states.entry(7)
    assert known is not None and (known.producer_epoch, known.last_offset, known.last_sequence) == (1, 8, 2)
    assert states.violation(row(9, epoch=1, first=0)) == "duplicate"
    assert states.violation(row(9, epoch=1, first=6)) == "sequence_gap"


def test_a_marker_ends_the_transaction_and_may_bump_the_epoch() -> None:
    """KIP-890: the marker's epoch is one above that of its data, and sequences restart."""
    states = of(row(0, first=0, is_transactional=True))
    assert states.first_undecided_offset == 0
    ended = states.append(marker_row(3, epoch=1), ABORT)
    assert ended == AbortedTransaction(7, 0, 3, 4)
    assert states.entry(7) == SnapshotEntry(7, 1, -1, -1, 0, 9000, 4, -1)
    assert states.first_undecided_offset is None
    assert states.violation(row(4, epoch=1, first=0)) is None


def test_a_marker_of_the_same_epoch_keeps_the_sequences() -> None:
    states = of(row(0, first=0, is_transactional=True))
    states.append(marker_row(3), COMMIT)
    assert states.violation(row(4, first=3, is_transactional=True)) is None


def test_the_last_stable_offset_is_the_oldest_other_transaction() -> None:
    transactional = {"is_transactional": True, "first": 0}
    states = of(row(0, pid=1, **transactional), row(3, pid=2, **transactional), row(6, pid=3, **transactional))
    ended = [states.append(marker_row(9 + n, pid=pid), ABORT) for n, pid in enumerate((2, 1, 3))]
    assert [one.last_stable_offset for one in ended if one] == [0, 6, 12]


def test_markers_without_data_and_without_records_end_no_transaction() -> None:
    states = ProducerStates()
    assert states.append(marker_row(0, pid=1), ABORT) is None
    assert states.append(marker_row(1, pid=2, epoch=3), None) is None
    assert states.entry(2) == SnapshotEntry(2, 3, -1, -1, 0, 1001, -1, -1)
    recovered = ProducerStates(policy=RECOVERY)
    recovered.append(marker_row(1, pid=2, epoch=3), None)
    assert recovered.entry(2) == SnapshotEntry(2, -1, -1, -1, 0, -1, -1, -1)


def test_an_emptied_marker_of_the_same_epoch_is_a_write_only_for_the_cleaner() -> None:
    for policy, time in ((BROKER, 1000), (RECOVERY, 1000), (CLEANER, 1003)):
        states = ProducerStates(policy=policy)
        states.append(row(0, first=0))
        states.append(marker_row(3), None)
        known = states.entry(7)
        assert known is not None and known.timestamp == time


def test_batches_without_a_producer_change_only_the_end_offset() -> None:
    states = of(row(0, pid=None), row(3, pid=-2))
    assert states.end_offset == 6 and not states.entries() and states.entry(-2) is None


JUDGED = {
    "next": (row(6, first=6), None),
    "duplicate of the newest": (row(6, first=3), "duplicate"),
    "duplicate of the oldest": (row(6, first=0), "duplicate"),
    "part of a duplicate": (row(6, 2, first=3), "out_of_order"),
    "gap": (row(6, first=9), "sequence_gap"),
    "back": (row(6, first=1), "out_of_order"),
    "epoch from zero": (row(6, epoch=1, first=0), None),
    "epoch not from zero": (row(6, epoch=1, first=6), "new_epoch_not_from_zero"),
    "old epoch": (row(6, epoch=-1, first=6), "old_epoch"),
    "another producer": (row(6, pid=8, first=77), None),
    "no producer": (row(6, pid=None), None),
    "no sequence": (row(6), None),
}


@pytest.mark.parametrize("name", JUDGED)
def test_how_the_broker_would_have_answered(name: str) -> None:
    batch, expected = JUDGED[name]
    result = of(row(0, first=0), row(3, first=3)).violation(batch)
    assert result == expected
    assert result is None or result in VIOLATIONS


_KAFKAS = {
    None: "taken",
    "duplicate": "duplicate",
    "old_epoch": "epoch",
    "not_transactional": "transaction",
    "sequence_gap": "sequence",
    "out_of_order": "sequence",
    "new_epoch_not_from_zero": "sequence",
}


def test_kafkas_own_verdicts() -> None:
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


def test_a_plain_batch_inside_a_transaction() -> None:
    states = of(row(0, first=0, is_transactional=True))
    assert states.violation(row(3, first=3)) == "not_transactional"
    assert states.violation(row(3, first=3, is_transactional=True)) is None


def test_a_retry_of_an_older_batch_than_the_last_five_is_out_of_order() -> None:
    states = of(*(row(3 * n, first=3 * n) for n in range(6)))
    assert states.violation(row(18, first=3)) == "duplicate"
    assert states.violation(row(18, first=0)) == "out_of_order"


def test_sequences_wrap_to_zero() -> None:
    last = 2**31 - 1
    states = of(row(0, 3, first=last - 2))
    assert states.violation(row(3, first=0)) is None
    states.append(row(3, 5, first=last - 1))
    assert states.violation(row(8, 5, first=last - 1)) == "duplicate"
    assert states.violation(row(8, first=3)) is None and states.violation(row(8, first=4)) == "sequence_gap"


def test_a_snapshot_round_trips() -> None:
    data = (SEGMENTS / "txn-0" / f"{30:020d}.snapshot").read_bytes()
    entries = producer_snapshot.read(data)
    states = ProducerStates(entries, 30)
    assert states.snapshot() == entries
    assert states.first_undecided_offset == 0 and states.end_offset == 30
    for producer_id, first, after in ((19, 0, 3), (20, 3, 6), (21, 6, None)):
        ended = states.end_by_index(AbortedTransaction(producer_id, first, 40, 0))
        assert ended == AbortedTransaction(producer_id, first, 40, 41 if after is None else after)
        assert states.first_undecided_offset == after and states.end_by_index(ended) is None


def test_the_rows_of_a_scan_yield_the_brokers_snapshot() -> None:
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


def test_markers_are_read_from_the_first_record() -> None:
    raw = builders.end_marker(commit=False, producer_id=1, base_timestamp=5000)
    assert read_marker(raw) == Marker(True, 5, 5000)
    assert read_marker(builders.batch(attributes=builders.CONTROL | builders.TRANSACTIONAL, producer_id=1)) is None
    metadata = kafkarec.open(SEGMENTS / "__cluster_metadata-0").segments[0]
    first = metadata.scan()[0]
    assert first["is_control"] and read_marker(metadata.raw(0, first["size_in_bytes"])) is None


def test_many_markers_at_once(tmp_path: Path) -> None:
    spoiled = builders.batch([builders.record(key=b"\0")], attributes=0x30, producer_id=1)
    empty = builders.batch(attributes=0x30, producer_id=1)
    abort, commit = (builders.end_marker(commit=c, producer_id=1, base_timestamp=7 + c) for c in (False, True))
    three = builders.batch(
        [builders.record(key=bytes([0, 0, 0, n]), value=b"\0\0\0\0\0\5", offset_delta=n) for n in (1, 0, 0)],
        attributes=0x30,
        producer_id=1,
        base_timestamp=9,
    )
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join([abort, spoiled, empty, commit, three]))
    [batches] = reading.walk_markers(kafkarec.open(path), check_crcs=True, errors="skip")
    states = ProducerStates()
    taken = states.take(batches)
    assert taken == ([], [(1, 0)], []) and states.entry(1) == SnapshotEntry(1, -1, -1, -1, 0, 9, 5, -1)
    for number, expected in enumerate([(7, 5), (-1, -1), (-1, -1), (8, 5), (9, 5)]):
        one = ProducerStates()
        one.take(batches, number, number + 1)
        known = one.entry(1)
        assert known is not None and (known.timestamp, known.coordinator_epoch) == expected


def random_row(chosen: random.Random, base: int) -> tuple[Any, Marker | None]:
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
def test_random_batches(policy: int) -> None:
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
        assert fast.entries() == [one.entry() for one in slow.producers.values()]
    assert seen == {None, *VIOLATIONS}


def test_a_marker_that_cannot_be_read() -> None:
    data = builders.batch(
        [builders.record(key=b"\0", value=b"")], attributes=builders.CONTROL | builders.TRANSACTIONAL, producer_id=1
    )
    with pytest.raises(kafkarec.InvalidRecordError):
        read_marker(data)
