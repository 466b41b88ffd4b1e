"""The batches of a segment by their headers, for who cuts a log between them. On the driver.

No checksum covers a batch's base offset, length and leader epoch; its neighbours and its content prove them (Restored
batches in docs/damage.md). So where headers do not follow each other, the batches are those that reading gives: their
checksums are checked, their header fields restored. Reading is not cut beside such a place, as neither part would have
all that proves them.

    good good | good good RESTORED good good | good good
              ^ here and further away it may be cut
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice, pairwise, repeat
from operator import add
from typing import NamedTuple

from spark_udfs.bootstrap import distributed, kafkarec

# No log skips more offsets.
_MAX_JUMP = 1 << 31
# The batches before the first one that does not follow that are read again with it: so many take part in a decision.
_WINDOW = 64
# The batches on each side of a cut that have to be good.
_BESIDE = 2
# Those on each side of a batch that tell whether its offsets are right. Those before a start are read for it.
_WITNESSES = 6
_NO_EPOCH, _NO_LIMIT = -1, 1 << 31


class LogBatch(NamedTuple):
    """A batch in the bytes [begin, end) of a segment, with the fingerprint that tells whether it is still there. All
    are 0 for the start of a segment, before its first batch.

    context       where the batches begin that prove header fields of the one behind it; None: these need no proof, and
                  reading may be cut before it and behind it
    restored      the header fields that are not as stored, by the names of the batch columns
    is_misfit     whether its offsets do not rise from those before it to those behind it
    """

    path: str
    begin: int = 0
    end: int = 0
    first_offset: int = 0
    next_offset: int = 0
    leader_epoch: int = _NO_EPOCH
    fingerprint: bytes = b""
    context: int | None = None
    restored: Collection[str] = ()
    is_misfit: bool = False

    @property
    def may_cut(self) -> bool:
        return self.context is None

    @property
    def context_begin(self) -> int:
        """Where the batches begin that prove those behind it; itself, to which the offsets behind it have to rise."""
        return self.begin if self.context is None else self.context

    def as_proven_by(self, found: Iterable[LogBatch]) -> LogBatch:
        """With the context that it has among these, as others may be behind it by now whose offsets it proves."""
        contexts = (each.context for each in found if each.begin == self.begin < self.end)
        return self._replace(context=next(contexts, self.context))

    def rises_to(self, other: LogBatch) -> bool:
        return 0 <= other.first_offset - self.next_offset <= _MAX_JUMP

    def is_followed_by(self, other: LogBatch) -> bool:
        rises = other.leader_epoch in (_NO_EPOCH, max(self.leader_epoch, other.leader_epoch))
        return self.end == other.begin and rises and self.rises_to(other)


def batches(opened: kafkarec.Segment, begin: int, end: int, next_base: int | None) -> Iterator[LogBatch]:
    """The batches in these bytes, in order.

    begin      where a batch or damage begins
    next_base  the base offset of the next segment; None: there is none
    """
    start = LogBatch(opened.path, begin, begin)
    following = [] if next_base is None else [LogBatch("", end, end, next_base, next_base, leader_epoch=_NO_LIMIT)]
    kept: list[LogBatch] = []
    doubt = None  # the number of the first of them that does not follow
    for found in _batches_as_read(opened, begin, end):
        if not kept:  # in a segment no offset is below its name's
            low = found[0].first_offset
            start = start._replace(next_offset=low if begin else max(low, opened.base_offset or 0))
        kept += found
        doubt = next(
            (at for at, (one, other) in enumerate(pairwise([start, *kept])) if not one.is_followed_by(other)), None
        )
        if doubt is not None:
            break
        yield from kept[:-_WINDOW]
        kept = kept[-_WINDOW:]
        first = kept[0]
        start = LogBatch("", first.begin, first.begin, 0, first.first_offset, first.leader_epoch)
    if doubt is None:
        last = (kept or [start])[-1]
        if following:
            is_proven = last.is_followed_by(following[0])
        else:  # a wrong length may lead beyond the batches behind it, to where none begins
            is_proven = not kept or last.end == end or distributed.has_valid_checksum(opened, last.begin, last.end)
        if is_proven:
            yield from kept
            return
        doubt = max(0, len(kept) - 1)
    known = max(doubt - _WINDOW, 0)
    yield from kept[:known]
    at = kept[known].begin if known else start.end
    # what proves the first ones may be before them
    read_from = 0 if doubt < 2 * _BESIDE and not known else at
    checked = chain.from_iterable(_batches_as_read(opened, read_from, end, check_crcs=True))
    before = [] if read_from or opened.base_offset is None else [LogBatch("", next_offset=opened.base_offset)]
    yield from (each for each in _with_context(chain(before, checked, following)) if each.path and each.begin >= at)


def _batches_as_read(
    opened: kafkarec.Segment, begin: int, end: int, *, check_crcs: bool = False
) -> Iterator[list[LogBatch]]:
    """The batches in these bytes, some thousands at a time. A wrapper message has no first offset; the next offset of
    the batch before it is used."""
    before = opened.base_offset or 0
    part = opened.between(min(begin, end), end).copy(later_segment=False)
    with closing(part.scan_pieces(errors="skip", check_crcs=check_crcs)) as tables:
        for table in filter(len, tables):
            names = ("position", "size_in_bytes", "base_offset", "last_offset", "next_offset", "partition_leader_epoch")
            begins, sizes, bases, lasts, nexts, epochs = map(table.column, names)
            if None in bases:
                ends_before = chain([before], nexts)
                bases = [
                    min(last, end) if base is None else base
                    for base, last, end in zip(bases, lasts, ends_before, strict=False)
                ]
            if None in epochs:
                epochs = [_NO_EPOCH if epoch is None else epoch for epoch in epochs]
            before, restored = nexts[-1], {each.position: each.fields for each in table.restored}
            rows = zip(begins, map(add, begins, sizes), bases, nexts, epochs, strict=True)
            yield [LogBatch(opened.path, *row, restored=restored.get(row[0], ())) for row in rows]


def _with_context(found: Iterable[LogBatch]) -> Iterator[LogBatch]:
    """The batches with `context` and `is_misfit`, from which the cuts follow."""
    around: deque[LogBatch | None] = deque([None] * _WITNESSES, 2 * _WITNESSES + 1)
    for each in chain(found, repeat(None, _WITNESSES)):
        around.append(each)
        if len(around) == around.maxlen and (batch := around[_WITNESSES]) is not None:
            before = [one for one in islice(around, _WITNESSES) if one]
            behind = [one for one in islice(around, _WITNESSES + 1, None) if one]
            beside, context = [*before[-_BESIDE:], batch, *behind[:_BESIDE]], None
            follow_each_other = all(one.is_followed_by(other) for one, other in pairwise(beside))
            if not follow_each_other or any(one.restored for one in beside):
                context = batch.begin
                for one in reversed(before):
                    if one.end != context:
                        break
                    context = one.begin
            yield batch._replace(context=context, is_misfit=_is_misfit(before, batch, behind))


def _is_misfit(before: list[LogBatch], batch: LogBatch, behind: list[LogBatch]) -> bool:
    """Whether more of the others rise without it than with it."""
    if all(one.rises_to(other) for one, other in pairwise([*before, batch, *behind])):
        return False
    low = next((one.next_offset for one in before if not one.path), 0)  # by the segment's name
    if batch.first_offset < low and (not behind or behind[0].first_offset >= low):
        return True
    others = ([(one.first_offset, one.next_offset) for one in some] for some in (before, behind))
    return distributed.is_misfit((batch.first_offset, batch.next_offset), *others)
