"""The entries of a segment's indexes for batches that no broker writes; tests/unit/storage/test_rebuild.py compares
those of Kafka's logs with its own."""

from __future__ import annotations

import pytest

from kafkarec.sidecars import leader_epochs, offset_index, time_index
from kafkarec.state.index_builders import SegmentIndexBuilder, SegmentIndexes

pytestmark = pytest.mark.core

LAST = 2**31 - 1  # the largest relative offset and position of an entry
Batch = tuple[int | None, ...]  # position, base and last offset, max timestamp, epoch


def built(batches: list[Batch], base: int = 0, interval: int = 0) -> SegmentIndexes:
    builder = SegmentIndexBuilder(base, interval=interval)
    builder.append(batches, ())
    return builder.finish()


def offsets(made: SegmentIndexes, base: int = 0) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in offset_index.read(made.offset_index, base)]


def times(made: SegmentIndexes, base: int = 0) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in time_index.read(made.time_index, base)]


def epochs_of(batches: list[Batch], known: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    builder = SegmentIndexBuilder(0, [leader_epochs.EpochEntry(*one) for one in known])
    builder.append(batches, ())
    return [tuple(one) for one in builder.epochs]


def test_an_entry_is_due_more_than_the_interval_after_the_last_one() -> None:
    batches: list[Batch] = [(10 * n, n, n, 5, 0) for n in range(10)]
    assert offsets(built(batches, interval=20)) == [(3, 30), (6, 60), (9, 90)]
    assert offsets(built(batches, interval=19)) == [(2, 20), (4, 40), (6, 60), (8, 80)]


def test_the_last_offset_and_position_that_fit() -> None:
    made = built([(LAST, 7, 100 + LAST, 9, 0)], base=100)
    assert (offsets(made, 100), made.problems) == ([(100 + LAST, LAST)], ())
    for position, last in ((LAST + 1, 100), (50, 101 + LAST), (50, 99), (50, -(2**63)), (50, 2**63 - 1)):
        made = built([(position, 0, last, 9, 0)], base=100)
        assert made[:3] == (b"", b"", b"")
        assert made.problems == (f"offset {last} at byte {position} does not fit an index of base 100",)
    assert "does not fit" in built([(0, 0, 2**63 - 1, 9, 0)], base=-5).problems[0]


def test_nothing_of_a_batch_that_does_not_fit_is_used() -> None:
    """The entry that is due there, its timestamp and its epoch are those of the next batch."""
    batches: list[Batch] = [(0, 0, 0, 5, 1), (50, 0, 1 + LAST, 90, 7), (90, 2, 2, 6, 2), (95, 3, 2 + LAST, 90, 7)]
    made = built(batches, interval=40)
    assert (offsets(made), times(made)) == ([(2, 90)], [(6, 2)])
    assert made.problems == (f"offset {1 + LAST} at byte 50 does not fit an index of base 0",)
    assert epochs_of(batches, []) == [(1, 0), (2, 2)]


def test_of_equal_timestamps_the_first_batch_has_the_entry() -> None:
    made = built([(0, 0, 0, 8, 0), (10, 1, 1, 8, 0), (20, 2, 2, 8, 0), (30, 3, 3, 9, 0), (40, 4, 4, None, 0)])
    assert offsets(made) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert times(made) == [(8, 0), (9, 3)]
    made = built([(0, 0, 0, None, None), (10, 1, 1, None, None), (20, 2, 2, -7, None)])
    assert (len(offsets(made)), times(made), made.problems) == (2, [], ())
    assert times(built([(0, 0, 0, 0, 0)])) == [(0, 0)]


def test_offsets_that_fall() -> None:
    falling: list[Batch] = [(10, 5, 5, 1, 0), (20, 5, 5, 2, 0), (25, 4, 4, 3, 0), (30, 3, 3, 4, 0)]
    made = built([*falling, (40, 6, 6, 1, 0), (50, 4, 4, 5, 0)])
    assert (offsets(made), times(made)) == ([(5, 10), (6, 40)], [(1, 5)])
    assert made.problems == (
        "offset 5 at byte 20 is not above the previous one, 5",
        "offset 3 of the largest timestamp is below that of an earlier one",
    )
    made = built([(10, 5, 5, 1, 0), (20, 5, 5, 2, 0), (30, 6, 6, 1, 0)])
    assert times(made) == [(1, 5), (2, 5)]


def test_the_interval_counts_from_a_batch_without_its_entry() -> None:
    made = built([(20, 5, 5, 1, 0), (40, 5, 5, 1, 0), (50, 6, 6, 1, 0), (56, 7, 7, 1, 0)], interval=15)
    assert (offsets(made), len(made.problems)) == ([(5, 20), (7, 56)], 1)


def test_the_last_time_entry_is_not_kept() -> None:
    builder = SegmentIndexBuilder(0, interval=100)
    builder.append([(0, 0, 0, 5, 0)], ())
    assert times(builder.finish()) == times(builder.finish()) == [(5, 0)]
    builder.append([(200, 1, 1, 6, 0)], ())
    assert times(builder.finish()) == [(6, 1)]
    builder.append([(210, 0, 0, 7, 0)], ())
    assert (builder.entries, times(builder.finish())) == ((1, 1), [(6, 1)])
    assert "of the largest timestamp" in builder.finish().problems[0]


def test_epochs_only_rise() -> None:
    falling: list[Batch] = [(0, 0, 0, 1, 4), (10, 1, 1, 1, 2), (20, 2, 2, 1, 4), (30, 3, 3, 1, None), (40, 4, 4, 1, 5)]
    assert epochs_of(falling, []) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(4, 0)]) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(-9, 0)]) == [(4, 0), (5, 4)]
    assert epochs_of(falling, [(7, 0)]) == [(7, 0)]
    assert epochs_of([(0, 0, 0, 1, -1), (10, 1, 1, 1, -3), (20, 2, 2, 1, 0)], [(-9, 0)]) == [(-9, 0), (0, 2)]
