"""Holes: damaged bytes of a log in which the marker of a transaction may be lost

Bytes that are one batch with a wrong checksum say more: the frame of a data batch leaves no room for a marker, and in a
marker of which one bit is wrong there is exactly one bit with which its checksum fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import error
from typing import Any, NamedTuple

from kafkarec.errors import InvalidRecordError
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.layout import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    LATEST_MAGIC,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    V2_AT,
    V2_OVERHEAD,
    v2_header,
)

from .steps import ABORT, COMMIT, Step

MARKER_SIZE = 78
"""The size of a marker's batch, as every coordinator writes it: no headers, uncompressed, version 0."""
_MARKER = TRANSACTIONAL | CONTROL
# Its record: length 16, attributes 0, deltas 0, a key of 4 bytes, a value of 6, no headers; lengths are varints.
_KEY, _VALUE = slice(V2_OVERHEAD + 5, V2_OVERHEAD + 9), slice(V2_OVERHEAD + 10, V2_OVERHEAD + 16)
_BETWEEN = bytes((32, 0, 0, 0, 8)), bytes((12,)), bytes((0,))


class EndMarker(NamedTuple):
    """A marker of the log, of damaged bytes, or only of the .txnindex. code: ABORT or COMMIT; timestamp in ms; -1: not
    known."""

    producer_id: int
    code: int
    offset: int
    producer_epoch: int = -1
    coordinator_epoch: int = -1
    timestamp: int = -1


class Hole(NamedTuple):
    """Damaged bytes between two good batches.

    first, last   the offsets that may be lost; last None: to the log's end
    segments      the numbers of the inputs that have the bytes
    may_hold      whether a marker besides `marker` may be lost in it
    marker        the marker that it is, or has
    """

    first: int
    last: int | None
    segments: tuple[int, ...] = ()
    may_hold: bool = True
    marker: EndMarker | None = None

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.first <= offset and (self.last is None or offset <= self.last)


class _DamagedBytes(NamedTuple):
    """Damaged bytes of a segment. number: that of the segment in the walk."""

    segment: Any
    number: int
    position: int
    length: int


class HoleFinder:
    """Finds the holes between the batches of a walk. known: of a log whose damaged bytes were removed, in order"""

    def __init__(self, known: Sequence[Hole]) -> None:
        self._known = [*known]  # up to the batches behind them
        self._lost: list[_DamagedBytes] = []  # damage up to the batch behind it

    @property
    def is_waiting(self) -> bool:
        """Whether the last batch has damage behind it."""
        return bool(self._lost)

    def holes_in(self, step: Step, number: int, next_offset: int | None) -> list[tuple[int, Hole]]:
        """(row, hole before it), in order. number: of the segment; next_offset: behind the step before; None: there was
        no batch"""
        self._lost += [_DamagedBytes(step.segment, number, one.position, one.length) for one in step.damage]
        if not len(step) or not (self._lost or self._known):
            return []
        positions, bases, lasts = map(step.column, ("position", "base_offset", "last_offset"))
        before: dict[int, list[_DamagedBytes]] = {}  # row -> damage
        for lost in self._lost:
            row = 0 if lost.number < number else bisect_left(positions, lost.position)
            before.setdefault(row, []).append(lost)
        self._lost = before.pop(len(step), [])
        found = {}
        for row, all_lost in before.items():
            first = lasts[row - 1] + 1 if row else next_offset
            last = (lasts[row] if bases[row] is None else bases[row]) - 1
            if first is not None and first <= last:
                found[row] = _hole(first, last, all_lost)
        while self._known and (end := self._known[0].last) is not None and end < lasts[-1]:
            found[bisect_right(lasts, end)] = self._known.pop(0)
        return sorted(found.items())

    def hole_at_end(self, next_offset: int | None) -> Hole | None:
        """The one behind the last batch."""
        if self._known:
            return self._known[0]
        return _hole(next_offset, None, self._lost) if self._lost and next_offset is not None else None


def _hole(first: int, last: int | None, all_lost: list[_DamagedBytes]) -> Hole:
    hole = Hole(first, last, tuple(sorted({lost.number for lost in all_lost})))
    if len(all_lost) != 1:
        return hole
    [lost] = all_lost
    return with_content(hole, lost.segment, lost.position, lost.length)


def with_content(hole: Hole, segment: Any, position: int, size: int) -> Hole:
    """The hole, with what its bytes say: `size` of them, from a position of a segment on."""
    try:
        raw = bytes(segment.raw(position, MARKER_SIZE))
    except OSError:
        return hole
    one_offset = hole.last in (None, hole.first)
    if size != MARKER_SIZE:
        return hole._replace(may_hold=not _is_data_batch(hole, size, raw))
    batch = _repaired_marker_batch(raw)
    if batch is None:
        return hole
    marker = _marker_in_batch(batch)
    if marker is not None and one_offset:
        marker = marker._replace(offset=hole.first)  # no checksum covers the base offset
    if marker is not None and marker.offset not in hole:
        return hole
    return hole._replace(marker=marker, may_hold=not one_offset)


def _is_data_batch(hole: Hole, size: int, raw: bytes) -> bool:
    """Whether the bytes are one batch of another size than a marker's, with all offsets of the hole."""
    try:
        header = v2_header(raw)
    except error:
        return False
    return (
        header.magic == LATEST_MAGIC
        and header.batch_length == size - LOG_OVERHEAD
        and not header.attributes & CONTROL
        and hole.last == header.base_offset + header.last_offset_delta
        and header.base_offset == hole.first
    )


def _repaired_marker_batch(raw: bytes) -> bytes | None:
    """The batch of MARKER_SIZE with its length and magic restored and, if its checksum is wrong, the one bit flipped
    from the checksum on with which it fits; None: there is none. CRC-32C finds all errors of two bits in so few bytes,
    so at most one fits."""
    if len(raw) != MARKER_SIZE:
        return None
    batch = bytearray(raw)
    batch[V2_AT.batch_length : LOG_OVERHEAD] = (MARKER_SIZE - LOG_OVERHEAD).to_bytes(4, "big")
    batch[V2_AT.magic] = LATEST_MAGIC
    for bit in (None, *range(8 * CRC_AT[LATEST_MAGIC], 8 * MARKER_SIZE)):
        tried = bytearray(batch)
        if bit is not None:
            tried[bit >> 3] ^= 1 << (bit & 7)
        stored, computed = batch_checksums(tried, LATEST_MAGIC)
        if stored == computed:
            return bytes(tried)
    return None


def _marker_in_batch(batch: bytes) -> EndMarker | None:
    """The marker in a whole batch; None: it is none."""
    header = v2_header(batch)
    if header.attributes & (_MARKER | CODEC_MASK) != _MARKER or header.record_count != 1 or header.producer_id < 0:
        return None
    if (batch[V2_OVERHEAD : _KEY.start], batch[_KEY.stop : _VALUE.start], batch[_VALUE.stop :]) != _BETWEEN:
        return None
    from kafkarec.format import control  # not at the top: an eighth of a first `ls`

    try:
        found = control.parse(batch[_KEY], batch[_VALUE])
    except InvalidRecordError:
        return None
    if not isinstance(found, control.EndTxnMarker):
        return None
    return EndMarker(
        header.producer_id,
        ABORT if found.type is control.ControlRecordType.ABORT else COMMIT,
        header.base_offset,
        header.producer_epoch,
        found.coordinator_epoch,
        header.base_timestamp,
    )
