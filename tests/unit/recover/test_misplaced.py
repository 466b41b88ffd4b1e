"""Logs whose order is broken: pages were exchanged, or a batch is there twice. What was aborted is never visible, and
what was committed is visible, or said to be undecided."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, pairwise, permutations
from pathlib import Path

import plain_logs
import pytest
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event, committed_offsets, read_committed

import kafkarec
from kafkarec.read import isolation
from kafkarec.read.walk import walk

EVENTS = [
    Event(DATA, 7, 0, 3),
    Event(ABORT, 7, 3, 1),
    Event(DATA, 7, 4, 2),
    Event(COMMIT, 7, 6, 1),
    Event(PLAIN, -1, 7, 1),
]
COMMITTED = {*committed_offsets(EVENTS)}
OTHERS = [Event(PLAIN, -1, 8 + 2 * n, 2) for n in range(4)]


def check(folder: Path, stored: Sequence[Sequence[Event]]) -> None:
    """A partition of these segments, read and salvaged."""
    plain_logs.log(folder, *([event.batch for event in some] for some in stored))
    check_visible(read_committed(folder), COMMITTED)
    made = folder.parent / "out" / folder.name
    kafkarec.salvage(folder, made.parent)
    visible = {one.offset for one in kafkarec.open(made).read(isolation="read_committed")}
    assert {offset for offset in visible if offset < 8} <= COMMITTED


def check_visible(read: kafkarec.RecordColumns, committed: set[int]) -> None:
    visible = {offset for offset in read.column("offset") if offset < 8}
    assert visible <= committed
    undecided = {at for one in read.undecided for at in range(one.first_offset, one.lost_to + 1)}
    assert committed - visible <= undecided


@pytest.mark.parametrize("order", [*permutations(range(5))], ids=str)
def test_batches_in_another_order(order, tmp_path):
    check(tmp_path / "a-0", [[EVENTS[number] for number in order], OTHERS])


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("at", range(6))
def test_a_batch_that_is_there_twice(number, at, tmp_path):
    """Both copies are right, and no transaction is undecided for that."""
    stored = [*EVENTS[:at], EVENTS[number], *EVENTS[at:]]
    check(tmp_path / "a-0", [[*stored, *OTHERS]])
    read = read_committed(tmp_path / "a-0")
    assert {*read.column("offset")} >= COMMITTED and read.undecided == ()


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_segments_whose_names_were_exchanged(cut, tmp_path):
    folder = plain_logs.log(
        tmp_path / "a-0", *([one.batch for one in some] for some in (EVENTS[:cut], EVENTS[cut:], OTHERS))
    )
    plain_logs.exchange(folder, 0, EVENTS[cut].base)
    check_visible(read_committed(folder), COMMITTED)


def test_a_base_offset_beside_a_gap(tmp_path):
    """It is wrong, as the next one is lower: nothing proves the right one, and that of the marker is not lost."""
    marker = plain_logs.builders.patched(EVENTS[1].batch, 0, (2**40).to_bytes(8, "big"))
    folder = plain_logs.log(tmp_path / "a-0", [EVENTS[0].batch, marker, Event(DATA, 7, 9, 2).batch])
    with open(folder / f"{0:020}.log", "ab") as log:
        log.write(Event(COMMIT, 7, 11, 1).batch + Event(PLAIN, -1, 12, 1).batch)
    read = read_committed(folder)
    assert read.column("offset") == [9, 10, 12]
    assert [(one.producer_id, one.first_offset, one.lost_from) for one in read.undecided] == [(7, 0, 3)]


@pytest.mark.parametrize("producer", [7, -1])
def test_a_misplaced_batch_of_a_transaction_without_a_producer_epoch(producer, tmp_path):
    """No broker writes one, but a transaction is aborted in which it may be."""
    misplaced = plain_logs.batch(2**40, 2, transaction=producer)
    before, *behind = (plain_logs.batch(base, count) for base, count in ((0, 4), (9, 2), (11, 2)))
    folder = plain_logs.log(tmp_path / "a-0", [before, misplaced, *behind])
    read = read_committed(folder)
    assert read.column("offset") == [0, 1, 2, 3, 9, 10, 11, 12]


def test_a_broken_order_is_read_twice(tmp_path, monkeypatch):
    folder = plain_logs.log(tmp_path / "a-0", [EVENTS[number].batch for number in (0, 3, 2, 1, 4)])
    read = []
    monkeypatch.setattr(isolation, "walk", lambda *given: read.append(given) or walk(*given))
    kafkarec.open(folder).transactions()
    assert len(read) == 2


def test_salvage_keeps_as_many_batches_as_rise(tmp_path):
    """Of batches in any order, with nothing restored: compared with all choices."""
    for seed in range(60):
        chance = random.Random(seed)
        spans = [(base, base + chance.randrange(1, 4)) for base in chance.choices(range(12), k=chance.randrange(1, 9))]
        data = b"".join(plain_logs.batch(base, end - base) for base, end in spans)
        [one] = kafkarec.salvage(
            plain_logs.log(tmp_path / f"{seed}" / "a-0", (0, data)), tmp_path / f"out{seed}", restore=False
        ).partitions
        chosen = (some for n in range(9) for some in combinations(spans, n))
        rising = (some for some in chosen if all(before[1] <= behind[0] for before, behind in pairwise(some)))
        assert one.batches == max(map(len, rising)), seed
        kept = [(file.first_offset, file.last_offset) for file in one.files]
        assert kept == sorted(kept) and sum(each.batches for each in one.set_aside) == len(spans) - one.batches
