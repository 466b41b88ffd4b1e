"""Finds batches of a new log that a broker fails on: plain (non-transactional) ones within an open transaction

    offset 40   transactional batch of producer 7       a transaction begins
    offset 45   its marker                              lost to damage
    offset 60   plain batch of producer 7               ProducerAppendInfo throws InvalidTxnStateException

A broker that recovers such a log stops at startup. So the plain batches are set aside. The transaction is kept:
`lost_markers` left its end open. This is done after the log is written, because its markers and batches must be read in
order.
"""

from __future__ import annotations

from kafkarec.read.walk import MARKERS, asked, walk
from kafkarec.state.producers import at_log_start
from kafkarec.storage.partition_folder import PartitionFiles

from .planned_files import Change, removed

REASON = "transaction_open"


def find_plain_batches(log: PartitionFiles) -> list[Change]:
    """The plain batches of a new log whose producer has an open transaction at their offset."""
    first, found = log.segments[0], []
    states = at_log_start(first.sidecar, first.base_offset or 0).states
    # what salvage writes is read back elsewhere, so no checksum is checked
    for step in walk(log.segments, asked(MARKERS, errors="skip", restore=False)):
        for row, open_since in states.take(step).plain:
            # Of magic 2: older messages have no producer.
            found.append(removed(step.segment, step.cell("position", row), open_since, REASON))
    return found


def sentences(plain: list[Change]) -> list[str]:
    """What the report says of the removed batches."""
    return [
        f"the end of the transaction of producer {producer_id} from offset {first} on is missing, and the producer "
        "wrote plain batches after it: a broker would not start on them, so they are set aside"
        for producer_id, first in sorted({(one.old.producer_id, one.first) for one in plain if one.old})
    ]
