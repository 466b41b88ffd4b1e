"""The first bytes and the checksum of single batches: what those need who follow a log while a broker writes to it.

What a fingerprint, preallocated zeros and an incomplete batch are: see kafkarec.distributed.
"""

from __future__ import annotations

from kafkarec.damage import Damage
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.layout import BATCH_MAGIC, LOG_OVERHEAD, MAGICS, UP_TO_MAGIC, V2_AT, batch_length, start_of
from kafkarec.read.incomplete import incomplete_batch

from .segment_file import SegmentFile

_FINGERPRINT_BYTES = V2_AT.attributes


def fingerprint(segment: SegmentFile, position: int) -> bytes:
    """The fingerprint of the batch at `position`."""
    return segment.raw(position, _FINGERPRINT_BYTES)


def is_unchanged(segment: SegmentFile, position: int, end: int, known: bytes) -> bool:
    """Whether the batch at `position` still has the fingerprint `known`, and the file at least `end` bytes."""
    return end <= segment.size and fingerprint(segment, position) == known


def has_valid_checksum(segment: SegmentFile, position: int, end: int) -> bool:
    """Whether the bytes [position, end) are a whole batch with a right checksum. A file may have its full size before
    all bytes of its last batch are written."""
    batch = memoryview(segment.raw(position, end - position))
    if not UP_TO_MAGIC <= len(batch) == end - position == LOG_OVERHEAD + batch_length(batch):
        return False
    magic = start_of(batch).magic
    if magic not in MAGICS:
        return False
    stored, computed = batch_checksums(batch, magic)
    return stored == computed


def first_offset(segment: SegmentFile, position: int) -> int | None:
    """The base offset of the batch at `position`; None below magic 2, where that field is the last offset of a
    wrapper."""
    start = start_of(segment.raw(position, UP_TO_MAGIC))
    return start.base_offset if start.magic >= BATCH_MAGIC else None


def preallocated_from(segment: SegmentFile, position: int) -> int | None:
    """Where zeros follow the batches from `position` on; None: there are none, or a length before them is wrong."""
    while not _are_zeros(head := segment.raw(position, UP_TO_MAGIC)):
        if len(head) < UP_TO_MAGIC or batch_length(head) <= 0:
            return None
        position += LOG_OVERHEAD + batch_length(head)
    return position


def incomplete_end(segment: SegmentFile, position: int, remaining: int, lost_from: int | None) -> Damage | None:
    """The incomplete batch at the end of what was read of a segment, as Damage. None: nothing is left, or preallocated
    zeros. Fewer than 12 zeros are no preallocated ones here: base offset and length of a batch may begin like that.

    position: where the last `remaining` bytes begin, which were neither batches nor damage
    lost_from: the next offset of the last good batch; None: there is none
    """
    if not remaining:
        return None
    head = segment.raw(position, min(remaining, LOG_OVERHEAD))
    if len(head) == LOG_OVERHEAD and not any(head):
        return None
    return incomplete_batch(head, position, remaining, lost_from, segment.display_path)


def _are_zeros(head: bytes) -> bool:
    return len(head) == UP_TO_MAGIC and not any(head)
