"""What follows the last batch of a split: an incomplete one, at a log's end, or missing offsets.

| the end of a log | what it is | endOfLog=tail | endOfLog=strict |
|---|---|---|---|
| a batch's end, or that and at least 12 zeros (preallocated) | complete | | |
| an incomplete batch | a broker was or is writing there; or the file was cut | logged and counted | damage |

In a segment that another one follows, an incomplete batch is damage in both. Nothing is said if the query asks for
offsets that end before it. Offsets that no segment has, between two of them, are logged; damage_report lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .isolation import NO_END
from .paths import PartitionLog
from .planning import Split

if TYPE_CHECKING:
    import kafkarec

    Piece = kafkarec.RecordColumns | kafkarec.BatchTable

# The reason of missing offsets: the kind of finding that `kafkarec verify` has for them.
GAP = "segment_gap"


class SplitEnd:
    """The end of what a task has read of a split. `add` takes each piece of it.

    last_offset: the last offset of the last good batch; None: there is none
    """

    def __init__(self, part: kafkarec.Segment, split: Split) -> None:
        self._part, self._split = part, split
        self._remaining = 0
        self._next_offset: int | None = None
        self._is_damage = False  # what was read last
        self.last_offset: int | None = None

    def add(self, piece: Piece) -> None:
        batches = batches_of(piece)
        self._remaining += piece.remaining  # bytes after the batches that are no damage
        position = -1
        if len(batches):
            # not batches[-1], which makes a dictionary of all columns
            self.last_offset, self._next_offset, position = (
                batches.column(name)[-1] for name in ("last_offset", "next_offset", "position")
            )
            self._is_damage = False
        if piece.damage:
            self._is_damage = piece.damage[-1].position > position

    def incomplete(self) -> kafkarec.Damage | None:
        """The incomplete batch after the last piece, as Damage; None: there is none, or the offsets that the query asks
        for end before it."""
        from kafkarec import distributed

        stable = None if self._split.uncommitted is None else self._split.uncommitted.last_stable_offset
        if stable is not None and stable < NO_END and self._split.is_log_end and not self._remaining:
            # read_committed has stopped before the log's end, which may be a cut batch: the transaction's marker
            for table in self._part.scan_pieces(errors="skip", end_offset=self._split.end_offset):
                self.add(table)
        wanted, following = self._split.end_offset, self._next_offset
        if wanted is not None and following is not None and following >= wanted:
            return None
        end = self._part.size if self._part.end is None else self._part.end
        return distributed.incomplete_end(self._part, end - self._remaining, self._remaining, following)

    def missing(self) -> range:
        """The offsets that the query asks for and that neither this segment has nor the next one; none if the segment
        ends in damage."""
        split = self._split
        first = split.first_offset if self._next_offset is None else self._next_offset
        if split.next_base_offset is None or first is None or self._is_damage:
            return range(0)
        stable = None if split.uncommitted is None else split.uncommitted.last_stable_offset
        first = first if split.start_offset is None else max(first, split.start_offset)
        return range(
            first, min(each for each in (split.next_base_offset, split.end_offset, stable) if each is not None)
        )

    def gap(self) -> kafkarec.Damage | None:
        """The missing offsets as Damage without bytes; None: there are none."""
        import kafkarec
        from kafkarec import distributed

        split, missing = self._split, self.missing()
        if not missing:
            return None
        first, last = missing[0], missing[-1]
        normal = distributed.is_compacted(split.path, split.topic, split.partition)
        why = "the topic is compacted, and so may lack them" if normal else "lost, unless the topic is compacted"
        offsets = f"offset {first} is" if first == last else f"offsets {first} to {last} are"
        end = split.begin if split.end is None else split.end
        detail = f"{offsets} missing before the next segment, {split.next_base_offset:020}.log: {why}"
        return kafkarec.Damage(split.path, end, 0, first, last, end, GAP, detail)


def batches_of(piece: Piece) -> kafkarec.BatchTable:
    """The batches of a piece of records, or the piece itself if it is a table of batches."""
    import kafkarec

    return piece.batches if isinstance(piece, kafkarec.RecordColumns) else piece


def missing_at(partition: PartitionLog, offset: int) -> str | None:
    """On the driver: a clause that says that an offset is missing between two segments; None: a segment may have it, or
    the partition is known to be compacted."""
    from kafkarec import distributed

    number = partition.in_range(offset, offset + 1)[-1]
    segment = partition.segments[number]
    if segment.listed_size is None:
        return None
    split = Split(segment.path, partition.topic, partition.partition)
    split = split._replace(first_offset=segment.base_offset, next_base_offset=partition.next_base(number))
    with segment.copy(later_segment=True) as part:
        end = SplitEnd(part, split)
        for table in part.scan_pieces(errors="skip"):
            end.add(table)
    missing = end.missing()
    if offset not in missing or distributed.is_compacted(segment.path, partition.topic, partition.partition):
        return None
    return f"which no segment has: {missing[0]} to {missing[-1]} are missing between two of them"
