"""AbortedIndex compared with what its methods say, entry by entry."""

from __future__ import annotations

import random

import pytest

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.recover.aborted_index import AbortedIndex
from kafkarec.recover.holes import Hole


def entries(seed: int) -> list[AbortedTransaction]:
    """Of three producers; of one producer some overlap, as in no file of a broker."""
    made = random.Random(seed)
    lasts = sorted(made.sample(range(60), made.randrange(12)))
    found = [AbortedTransaction(made.randrange(3), made.randrange(last + 1), last, 0) for last in lasts]
    if seed % 4 == 0:
        made.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_as_entry_by_entry(seed: int) -> None:
    given = entries(seed)
    index = AbortedIndex(given)
    lasts = [entry.last_offset for entry in given]
    assert index.in_order == (lasts == sorted(lasts))
    assert index.last_offset == max(lasts, default=-1)
    for first in range(0, 62, 3):
        for last in (first, first + 5, None):
            hole = Hole(first, last)
            assert {*index.within(hole)} == {entry for entry in given if entry.last_offset in hole}
        for producer in range(4):
            own = [entry for entry in given if entry.producer_id == producer]
            expected = any(entry.first_offset <= first + 5 and entry.last_offset >= first for entry in own)
            assert index.overlaps(producer, first, first + 5) == expected
