"""read_committed without reading the headers of a whole partition: from the segment in which reading begins.

    000.log   100.log   200.log   300.log
                        200.snapshot: who has a transaction open at 200, since which offset
                        ^ walk from here to the end: its markers tell what was aborted of 200 and behind

An aborted transaction that reaches behind 200 has its marker there, and its records from 200 on are walked over. One
that is open since before 200, and has nothing behind it, is in the snapshot alone: with it the last stable offset is
known. Where there is no snapshot that can be read, everything is walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .options import Options
from .paths import PartitionPaths, log_of

if TYPE_CHECKING:
    import kafkarec


class Undecided(NamedTuple):
    """aborted: (producer id, first offset that was seen, marker's offset), of what reaches to `start` or behind it.
    stable_offset: where reading stops; None: nowhere."""

    aborted: tuple[tuple[int, int, int], ...]
    stable_offset: int | None


def walk(partition: PartitionPaths, options: Options, start: int | None) -> Undecided:
    """start: nothing below it, or below the last stable offset where that is lower, will be read; None: everything."""
    log = log_of(partition, options)
    bases = [each.base_offset or 0 for each in partition.segments]
    number = 0 if start is None else _holding(bases, start)
    while True:
        open_before = _open_before(log.segments[number]) if number else {}
        if open_before is None:
            number, open_before = 0, {}
        found = _walked(log.segments[number:], open_before, options["mode"] != "FAILFAST")
        if not number or found.stable_offset is None or found.stable_offset >= bases[number]:
            return found
        number = _holding(bases, found.stable_offset)


def _holding(bases: list[int], offset: int) -> int:
    return max((number for number, base in enumerate(bases) if base <= offset), default=0)


def _open_before(segment: kafkarec.Segment) -> dict[int, int] | None:
    """Producer id -> first offset of its transaction that is open at the segment's begin."""
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


def _walked(segments: Sequence[kafkarec.Segment], open_before: dict[int, int], skip: bool) -> Undecided:
    from kafkarec.read import isolation

    found = isolation.ended_and_open(segments, skip=skip)
    still_open = [*found.open_first_offsets]
    still_open += [since for who, since in open_before.items() if who not in found.marked_producer_ids]
    return Undecided(found.aborted, min(still_open, default=None))
