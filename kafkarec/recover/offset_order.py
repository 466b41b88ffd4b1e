"""Whether a batch that was found after damage in a file is where its base offset says.

    ... good good |xxxx damage xxxx| FOUND run run run |xx damage xx| later later ...

No checksum covers a base offset: the damage may reach into it. And a batch that was found may be one inside a record
value. In a log offsets rise, so the batches on both sides decide: of them the heaviest rising chain is taken, with
FOUND in it and without it. Batches that frames lead to from the file's end outweigh those between two damages. Little
evidence is in favour of FOUND: better a wrong offset than a lost batch. (In buffers nothing is decided: offsets may
repeat and fall there.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

WINDOW = 64
"""How many batches on each side take part."""
MAX_JUMP = 2**31
"""No log skips more offsets; half a base offset may seem to."""
_FOUND_WEIGHT = 1 / 256
"""Of a batch between two damages, where others are anchored: all of a window weigh less than one of these."""
_MARGIN = 2.5
"""One other batch with a wrong offset is not enough to contradict, even if it fits exactly to its neighbour."""


class Offsets(NamedTuple):
    """Base offset, next offset, leader epoch and checksum of a batch; without a checksum it is no batch, only a place
    between two. is_wrapper: a wrapper message, in whose header only the last offset is, here as its base offset."""

    base: int
    next: int
    epoch: int = -1
    crc: int | None = None
    is_wrapper: bool = False


class Frames(NamedTuple):
    """Consecutive batches of a file by their frames.

    anchored  whether these lead to the end of the file
    end       where they end
    """

    run: Sequence[Offsets]
    anchored: bool
    end: int


def fits(before: Sequence[Offsets], frames: Frames, behind: Frames, bounds: tuple[int, int] | None) -> bool:
    """Whether the first of `frames` has an offset that it may have.

    before  the last good batches
    behind  those found behind the end of `frames`; asked for only where these are not anchored
    bounds  the offsets [first, end) that a segment of this name may hold
    """
    run = frames.run
    found = run[0]
    left = _without_copies(before, (*run, *behind.run))
    later = _without_copies(behind.run, (*run, *before))
    others = [*left, *run[1:], *later]
    if bounds and not _is_within(found, bounds) and any(_is_within(one, bounds) for one in others):
        return False
    first = bounds[0] if bounds else 0
    # One batch whose following frame is cut, maybe by chance: no better than a run that leads nowhere.
    alone = len(run) == 1 and len(left) > 1 and rises(left)
    if (alone or not frames.anchored) and found.base < first + sum(one.next - one.base for one in left):
        return False  # the checksum covers how many offsets a batch has, so all of these are before it
    if rises([*left[-2:], *run[:3], *later[:2]]):
        return True
    found_weight = _FOUND_WEIGHT if behind.anchored else 1
    run_weight = 1 if frames.anchored else found_weight
    others_behind = [(one, run_weight) for one in run[1:]]
    others_behind += [(one, 1.0 if behind.anchored else found_weight) for one in later]
    with_it, without = _weights_of_chains([(one, 1.0) for one in left], (found, run_weight), others_behind)
    return with_it > without - _MARGIN


def is_misfit(own: tuple[int, int], before: Sequence[tuple[int, int]], behind: Sequence[tuple[int, int]]) -> bool:
    """Whether more of the batches around a batch rise without it than with it. Of each: (base offset, next offset)."""
    left, right = ([(Offsets(*one), 1.0) for one in some] for some in (before, behind))
    with_it, without = _weights_of_chains(left, (Offsets(*own), 1.0), right)
    return with_it < without


_Weighted = tuple[Offsets, float]


def _weights_of_chains(before: list[_Weighted], own: _Weighted, behind: list[_Weighted]) -> tuple[float, float]:
    """The weight of the heaviest rising chain of some batches with one of them, and of that without it."""
    up_to = _chain_weights([*(one for one in before if _follows(one[0], own[0])), own])[-1]
    following = [one for one in behind if _follows(own[0], one[0])]
    after = _chain_weights([(Offsets(-one.next, -one.base), weight) for one, weight in (*reversed(following), own)])[-1]
    return up_to + after - own[1], max(_chain_weights([*before, *behind]), default=0.0)


def _without_copies(batches: Sequence[Offsets], others: Iterable[Offsets]) -> list[Offsets]:
    """Each of these batches once, without copies of the others: where a block is in the file twice, either place may be
    the right one."""
    seen = {(one.base, one.crc) for one in others}
    kept = []
    for one in batches:
        if one.crc is None or (one.base, one.crc) not in seen:
            kept.append(one)
        seen.add((one.base, one.crc))
    return kept


def _is_within(one: Offsets, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= one.base and one.next <= bounds[1]


def _follows(before: Offsets, behind: Offsets) -> bool:
    return 0 <= behind.base - before.next <= MAX_JUMP


def rises(batches: Iterable[Offsets]) -> bool:
    """Whether each batch is behind the one before it."""
    return all(_follows(*two) for two in pairwise(batches))


def _chain_weights(chain: Sequence[tuple[Offsets, float]]) -> list[float]:
    """For each batch the weight of the heaviest rising chain that ends with it. Two batches without a gap between them
    count once more: hardly any wrong offset fits so exactly."""
    found: list[float] = []
    for number, (one, weight) in enumerate(chain):
        best = 0.0
        for (other, other_weight), so_far in zip(chain[:number], found, strict=True):
            if _follows(other, one):
                exact = min(weight, other_weight) if other.next == one.base else 0.0
                best = max(best, so_far + exact)
        found.append(best + weight)
    return found


def heaviest_rising(batches: Iterable[tuple[int, int, float]], low: int) -> list[int]:
    """The indexes of the heaviest ascending sequence of some batches from the offset `low` on. Of each: (base offset,
    last offset, weight); equal weights make it the longest one.

    Of the sequences so far those count of which no other one ends at or below their ends and is as heavy: `lasts` and
    `weights` ascend.
    """
    lasts, weights, ends = list[int](), list[float](), list[int]()  # ends: the indexes of their last batches
    previous: list[int] = []
    for number, (base, last, weight) in enumerate(batches):
        at = bisect_left(lasts, base)
        previous.append(ends[at - 1] if at else -1)
        weight += weights[at - 1] if at else 0
        lightest = bisect_left(weights, weight)  # that is as heavy
        if base >= low and (lightest == len(weights) or last < lasts[lightest]):
            replaced = slice(bisect_left(lasts, last), bisect_right(weights, weight))
            lasts[replaced], weights[replaced], ends[replaced] = [last], [weight], [number]
    chosen: list[int] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chosen.append(at)
        at = previous[at]
    return chosen[::-1]
