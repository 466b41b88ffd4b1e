"""What the neighbours of a batch in a file prove about its base offset and its leader epoch, if they disprove them.

... before before | own | behind behind ...      offsets rise, and so do leader epochs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from .offset_order import MAX_JUMP, Offsets, rises

OFFSETS = "the offsets before and after it"
INDEX = "the .index entry"
EPOCHS = "the leader epochs before and after it"
EPOCH_FILE = "the leader-epoch-checkpoint"
Proof = tuple[int, str]
"""A value, and its witness."""
NO_EPOCH = -1


class FileFacts(NamedTuple):
    """What is known of a file besides its bytes.

    bounds       the offsets [first, end) that a segment of this name may hold; None: unknown
    last_offset  position of a batch, or of several that were appended at once -> last offset by the .index; None: no
                 entry
    next_batches   the first two batches of the next segment, the first one at the offset of its name; of what is no
                 batch of magic 2 only that place; empty: there is no next segment
    epoch_at     offset -> leader epoch by the leader-epoch-checkpoint; None: not known
    one_log      whether the offsets in it rise; False: it has pieces of several logs
    """

    bounds: tuple[int, int] | None = None
    last_offset: Callable[[int], int | None] = lambda position: None
    next_batches: Callable[[], Sequence[Offsets]] = tuple
    epoch_at: Callable[[int], int | None] = lambda offset: None
    one_log: bool = True


NO_FACTS = FileFacts()


class PlacedBatch(NamedTuple):
    """A batch of a file between its neighbours.

    position   in the file
    before     the last good batches before it
    own        its stored offsets
    behind     the batches behind it
    adjoins    whether no damage is between it and the batch before it, or the file's start
    is_last    whether it ends the file
    """

    facts: FileFacts
    position: int
    before: Sequence[Offsets]
    own: Offsets
    behind: Sequence[Offsets]
    adjoins: bool = False
    is_last: bool = False

    def proven_fields(self) -> dict[str, Proof]:
        """Base offset and leader epoch, where the stored one is disproved and another one proven."""
        batch, found, following = self, dict[str, Proof](), self.behind
        # Where offsets and epochs continue, the folder, which may have thousands of segments, is not listed.
        if self.is_last and not (
            self.adjoins and self.own.base == self._least_base and self.own.epoch == self._low_epoch
        ):
            following = self.facts.next_batches()
            batch = self._replace(behind=[Offsets(one.base, one.base) for one in following[:1]])
        base = batch._base_offset()
        # Where another one has that offset, two were exchanged: each fits at the place of the other.
        if base is not None and all(one.base != base[0] or one.crc is None for one in (*self.before, *self.behind)):
            found["base_offset"] = base
            batch = batch._replace(own=self.own._replace(base=base[0], next=base[0] + self._offset_count))
        epoch = batch._replace(behind=following)._leader_epoch()
        if epoch is not None:
            found["partition_leader_epoch"] = epoch
        return found

    @property
    def _least_base(self) -> int | None:
        """The least base offset that it may have; None: not known."""
        return self.before[-1].next if self.before else self.facts.bounds and self.facts.bounds[0]

    @property
    def _low_epoch(self) -> int:
        """The leader epoch before it."""
        return self.before[-1].epoch if self.before else NO_EPOCH

    @property
    def _offset_count(self) -> int:
        """How many offsets it has: the checksum covers that."""
        return self.own.next - self.own.base

    def _base_offset(self) -> Proof | None:
        own, before, behind, low = self.own, self.before, self.behind, self._least_base
        first, high = self.facts.bounds or (0, None)
        too_low = low is not None and not 0 <= own.base - low <= MAX_JUMP
        overlaps = bool(behind) and own.next > behind[0].base
        too_high = high is not None and own.next > high
        if not too_low and not overlaps and not too_high:
            return self._base_without_gap()
        is_neighbour_wrong = False  # maybe, where it contradicts one of them only
        if before and not overlaps and not too_high:
            least = before[-2].next if len(before) > 1 else first
            is_neighbour_wrong = own.base - least >= before[-1].next - before[-1].base > 0
        elif len(behind) > 1 and not too_low and not too_high:
            is_neighbour_wrong = behind[1].base - own.next >= behind[0].next - behind[0].base
        if low is not None and self.adjoins and not is_neighbour_wrong:
            end, wrong = low + self._offset_count, [own]
            for other in behind:
                if wrong[-1].is_wrapper or other.is_wrapper:
                    break  # of how many offsets each is, is not known
                if other.base == end:
                    return (low, OFFSETS) if all(one.base < low or one.next > end for one in wrong) else None
                end += other.next - other.base
                wrong.append(other)
        return self._base_by_index()

    def _base_without_gap(self) -> Proof | None:
        """A gap before it is no contradiction, but an .index entry without this gap is one, unless the next segment's
        name fits: then the entry is that of a batch which is missing there."""
        low = self._least_base
        if low is None or not self.adjoins or self.own.base == low or (self.position and not self.before):
            return None
        is_disproved = self.facts.last_offset(self.position) == low + self._offset_count - 1
        fits_next_name = is_disproved and any(one.base == self.own.next for one in self.facts.next_batches()[:1])
        return (low, INDEX) if is_disproved and not fits_next_name else None

    def _base_by_index(self) -> Proof | None:
        low, behind, entry = self._least_base, self.behind, self.facts.last_offset(self.position)
        if entry is None:
            return None
        base = entry + 1 - self._offset_count
        # The entry may be that of several batches, appended at once: then this one ends below it.
        follows = bool(behind) and rises([Offsets(base, entry + 1), *behind[:2]])
        is_its_own = self.is_last or follows or (self.adjoins and base == low)
        fits = (low is None or base >= low) and (not behind or entry < behind[0].base)
        return (base, INDEX) if is_its_own and fits and base != self.own.base else None

    def _leader_epoch(self) -> Proof | None:
        own, before, behind, epoch_at = self.own, self.before, self.behind, self.facts.epoch_at
        around = [*before[-1:], own, *behind[:1]]
        if own.epoch == NO_EPOCH or any(one.next > other.base for one, other in pairwise(around)):
            return None
        low = self._low_epoch
        high = behind[0].epoch if behind else NO_EPOCH
        if low <= own.epoch and (high == NO_EPOCH or own.epoch <= high):
            return None
        known = [one for one in around if one.crc is not None and one is not own]
        if known and all(epoch_at(one.base) == one.epoch for one in known):
            found = epoch_at(own.base)
            return None if found is None or found == own.epoch else (found, EPOCH_FILE)
        if own.epoch < low:
            is_neighbour_wrong = any(NO_EPOCH < one.epoch <= own.epoch for one in before[-2:-1])
        else:
            is_neighbour_wrong = any(one.epoch >= own.epoch for one in behind[1:2])
        return (low, EPOCHS) if low == high >= 0 and not is_neighbour_wrong else None
