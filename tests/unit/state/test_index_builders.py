"""The entries of a segment's indexes, and epochs, for batches that no broker writes;
tests/unit/storage/test_rebuild.py compares those of Kafka's logs with its own."""

import builders
import pytest
import reading
from plain_logs import batch

from kafkarec.sidecars import leader_epochs, offset_index, time_index
from kafkarec.state.epoch_history import EpochHistory, end_offset_for
from kafkarec.state.index_builders import SegmentIndexBuilder

pytestmark = pytest.mark.core

LAST = 2**31 - 1  # the largest relative offset and position of an entry


def add(builder, batches):
    """Adds batches of one record: (position, last offset, leader epoch)."""
    for position, last, epoch in batches:
        data = batch(last, 1, epoch=epoch)
        [rows] = reading.read_batches(data, columns=[]).tables
        builder.add(rows, (), moved=position)


def built(batches, base=0, interval=0):
    builder = SegmentIndexBuilder(base, interval=interval)
    add(builder, batches)
    return builder


def offsets(made, base=0):
    return [tuple(entry) for entry in offset_index.read(made.finish()[".index"], base)]


def epochs_of(batches, known):
    builder = SegmentIndexBuilder(0, [leader_epochs.EpochEntry(*one) for one in known])
    add(builder, batches)
    return [tuple(one) for one in builder.epochs]


def test_the_last_offset_and_position_that_fit():
    made = built([(LAST, 100 + LAST, 0)], base=100)
    assert (offsets(made, 100), made.problems) == ([(100 + LAST, LAST)], ())
    for position, last in ((LAST + 1, 100), (50, 101 + LAST), (50, 99), (50, -(2**63)), (50, 2**63 - 1)):
        made = built([(position, last, 0)], base=100)
        assert made.finish() == {".index": b"", ".timeindex": b""}
        assert made.problems == (f"offset {last} at byte {position} does not fit an index of base 100",)
    assert "does not fit" in built([(0, 2**63 - 1, 0)], base=-5).problems[0]


def test_entries_only_rise():
    """The largest timestamp is that of all batches, which has one entry."""
    made = built([(0, 0, 0), (10, 5, 0), (20, 5, 0), (30, 7, 0)])
    assert offsets(made) == [(5, 10), (7, 30)]
    assert [tuple(entry) for entry in time_index.read(made.finish()[".timeindex"], 0)] == [(builders.NOW, 0)]
    assert made.problems == ("offset 5 at byte 20 is not above the previous one, 5",)


def test_epochs_only_rise():
    falling = [(0, 0, 4), (10, 1, 2), (20, 2, 4), (30, 3, -1), (40, 4, 5)]
    assert epochs_of(falling, []) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(4, 0)]) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(-9, 0)]) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(7, 0)]) == [(7, 0)]
    assert epochs_of([(0, 0, -1), (10, 1, -3), (20, 2, 0)], [(-9, 0)]) == [(-9, 0), (0, 2)]


def test_ends_of_epochs():
    entries = leader_epochs.read(b"0\n3\n0 0\n2 100\n5 180\n")
    history = EpochHistory(entries, 250, "test")
    ends = {0: (0, 100), 1: (0, 100), 2: (2, 180), 4: (2, 180), 5: (5, 250), 9: (5, 250)}
    assert {epoch: end_offset_for(history, epoch) for epoch in ends} == ends
    assert end_offset_for(history._replace(entries=entries[1:]), 1) == (1, 100)
