"""Positions of offsets and transactions of a log, compared with the output of Kafka's own dump tool."""

import re

import golden

import kafkarec
from kafkarec.distributed import ended_and_open

SEGMENTS = golden.VECTORS / "segments"
LOG = SEGMENTS / "all-codecs-0" / "00000000000000000000.log"
TXN = SEGMENTS / "txn-0"


def dumped(text, *names):
    """Return the numbers after these names, of each line of a dump that has all of them."""
    pattern = ".*".join(rf"\b{name}: (\d+)" for name in names)
    return [tuple(map(int, match)) for match in re.findall(pattern, text)]


def test_no_record_of_the_offset_is_before_its_position():
    entries = dumped(LOG.with_suffix(".index.dump.txt").read_text(), "offset", "position")
    segment = kafkarec.open(LOG)
    assert len(entries) == 24 and entries[0] == (85, 2583)
    assert [segment.position_of(offset) for offset, _ in entries] == [position for _, position in entries]
    assert [segment.position_of(offset) for offset in (0, 84, 86, 127, 10**12)] == [0, 0, 2583, 2583, 44232]


def test_transactions_that_have_ended_and_that_are_open():
    log = kafkarec.open(TXN)
    index = (TXN / "00000000000000000030.txnindex.dump.txt").read_text()
    whole = ended_and_open(log.segments, skip=False)
    assert list(whole.aborted) == dumped(index, "producerId", "firstOffset", "lastOffset")
    assert (whole.marked_producer_ids, whole.open_first_offsets) == ({19, 20, 21}, ())
    front = ended_and_open(log.segments[:1], skip=False)
    assert front == ((), frozenset(), (0, 3, 6), False, ()), "as the snapshot beside the second segment has them"
