"""Logs whose order is broken: pages were exchanged, or a batch is there twice. What was aborted is never visible, and
what was committed is visible, or said to be undecided."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import plain_logs
import pytest
from transaction_logs import ABORT, COMMIT, DATA, PLAIN, Event, committed_offsets

import kafkarec

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
    check_visible(kafkarec.open(folder).read(isolation="read_committed", errors="skip", columns=["offset"]), COMMITTED)
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
    read = kafkarec.open(tmp_path / "a-0").read(isolation="read_committed", errors="skip", columns=["offset"])
    assert {*read.column("offset")} >= COMMITTED and read.undecided == ()


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_segments_whose_names_were_exchanged(cut, tmp_path):
    folder = plain_logs.log(
        tmp_path / "a-0", *([one.batch for one in some] for some in (EVENTS[:cut], EVENTS[cut:], OTHERS))
    )
    plain_logs.exchange(folder, 0, EVENTS[cut].base)
    check_visible(kafkarec.open(folder).read(isolation="read_committed", errors="skip", columns=["offset"]), COMMITTED)


def test_a_base_offset_beside_a_gap(tmp_path):
    """It is wrong, as the next one is lower: nothing proves the right one, and that of the marker is not lost."""
    marker = plain_logs.builders.patched(EVENTS[1].batch, 0, (2**40).to_bytes(8, "big"))
    folder = plain_logs.log(tmp_path / "a-0", [EVENTS[0].batch, marker, Event(DATA, 7, 9, 2).batch])
    with open(folder / f"{0:020}.log", "ab") as log:
        log.write(Event(COMMIT, 7, 11, 1).batch + Event(PLAIN, -1, 12, 1).batch)
    read = kafkarec.open(folder).read(isolation="read_committed", errors="skip", columns=["offset"])
    assert read.column("offset") == [9, 10, 12]
    assert [(one.producer_id, one.first_offset, one.lost_from) for one in read.undecided] == [(7, 0, 3)]
