"""read_committed without a scan of the whole partition: transactions from the first segment that is read.

    000.log   100.log   200.log   300.log
                        200.snapshot: the producers with a transaction open at 200, and its first offset
                        ^ headers and markers are read from here to the end

An aborted transaction that has records at 200 or above also has its marker there, so the scan finds both. A transaction
that began below 200 and is still open may have no record above 200; the snapshot has its first
offset, from which the last stable offset follows. Without a readable snapshot the whole log is scanned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .options import ReadOptions
from .paths import PartitionLog

if TYPE_CHECKING:
    import kafkarec


NO_END = (1 << 63) - 1


class Uncommitted(NamedTuple):
    """The records of a partition that read_committed leaves out: those from the last stable offset on, and those of
    aborted transactions, as (producer id, first offset, marker's offset).

    last_stable_offset: where the first open transaction begins; NO_END: none is open
    """

    aborted: tuple[tuple[int, int, int], ...]
    last_stable_offset: int


def read_transactions(partition: PartitionLog, options: ReadOptions, start: int | None) -> Uncommitted:
    """The transactions of a partition, from the segment that holds `start` on.

    start: the caller reads no offset below this one and below the last stable offset; None: it reads everything
    """
    from kafkarec import distributed

    log = partition.log
    number = 0 if start is None else partition.in_range(start, None)[0]
    while True:
        open_before = _open_before(log.segments[number]) if number else {}
        if open_before is None:
            number, open_before = 0, {}
        found = distributed.ended_and_open(log.segments[number:], skip=options.mode != "FAILFAST")
        still_open = [*found.open_first_offsets]
        still_open += [since for producer, since in open_before.items() if producer not in found.marked_producer_ids]
        state = Uncommitted(found.aborted, min(still_open, default=NO_END))
        if not number or state.last_stable_offset >= (partition.segments[number].base_offset or 0):
            return state
        number = partition.in_range(state.last_stable_offset, None)[0]


def _open_before(segment: kafkarec.Segment) -> dict[int, int] | None:
    """Producer id -> first offset of its transaction that is open at the segment's start, from its producer
    snapshot. None: there is no readable snapshot."""
    import kafkarec
    from kafkarec.sidecars import producer_snapshot

    try:
        data = segment.sidecar(producer_snapshot.SUFFIX)
        entries = () if data is None else producer_snapshot.read(data)
    except (kafkarec.KafkaRecordError, OSError):
        return None
    if data is None:
        return None
    return {one.producer_id: one.current_txn_first_offset for one in entries if one.current_txn_first_offset >= 0}
