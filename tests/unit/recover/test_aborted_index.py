"""The entries of a .txnindex, found by producer."""

import random

import pytest

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.recover.aborted_index import AbortedIndex

pytestmark = pytest.mark.core


class CountedTransaction(AbortedTransaction):
    looks = 0

    @property
    def first_offset(self):
        CountedTransaction.looks += 1
        return self[1]


def test_overlaps_of_any_entries():
    chosen = random.Random(5)
    for _ in range(300):
        entries = [
            AbortedTransaction(chosen.randrange(2), *(chosen.randrange(20) for _ in range(3)))
            for _ in range(chosen.randrange(6))
        ]
        index = AbortedIndex(entries)
        for producer in range(3):
            first = chosen.randrange(20)
            last = first + chosen.randrange(5)
            found = [one for one in entries if one.producer_id == producer]
            expected = any(one.first_offset <= last and first <= one.last_offset for one in found)
            assert index.overlaps(producer, first, last) is expected


def test_the_entries_of_a_producer_are_looked_through_once():
    """With damage in many places a lookup is made for each."""
    index = AbortedIndex([CountedTransaction(7, 10 * number, 10 * number + 9, 0) for number in range(500)])
    CountedTransaction.looks = 0
    for _ in range(100):
        assert not index.overlaps(7, 5000, 5001)
    assert CountedTransaction.looks <= 500
