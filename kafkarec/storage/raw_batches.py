"""Single batches as bytes: fingerprints, checksums, zeros at the end, for who follows a growing log.

A fingerprint is the first bytes of a batch, up to the checksum of magic 2: base offset, length, leader epoch, magic and
checksum. They differ between any two batches of a log, so a follower detects by them that a log was truncated and
written again. In a file that the broker preallocated, zeros follow the last batch. A file that is cut, or whose last
batch is still being written, ends in an incomplete batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec.damage import Damage, error, why_unreadable
from kafkarec.format.checksum import batch_checksums
from kafkarec.format.layout import BATCH_MAGIC, LOG_OVERHEAD, UP_TO_MAGIC, V2_AT, batch_start, first_fields
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.read.passes import as_columns, incomplete_batch, read_at_once
from kafkarec.read.walk import is_preallocated
from kafkarec.tables.records import RecordColumns

from .segment_file import SegmentFile

_FINGERPRINT_BYTES = V2_AT.attributes
_ZEROS = 1 << 20


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
    start = batch_start(batch)
    if start is None or not len(batch) == end - position == LOG_OVERHEAD + start.batch_length:
        return False
    stored, computed = batch_checksums(batch, start.magic)
    return stored == computed


def reread(segment: Any, position: int, length: int) -> Any:
    """The bytes of batches that were read before. CorruptRecordError (unreadable) if the file is shorter now."""
    data = segment.raw(position, length)
    if len(data) < length:
        fault = {"position": position + len(data), "file": segment.path, "detail": why_unreadable(0)}
        raise error("unreadable", fault)
    return data


def first_offset(segment: SegmentFile, position: int) -> int | None:
    """The base offset of the batch at `position`; None below magic 2, where that field is the last offset of a
    wrapper."""
    start = first_fields(segment.raw(position, UP_TO_MAGIC))
    return start.base_offset if start.magic >= BATCH_MAGIC else None


def has_zeros_at_end(segment: SegmentFile) -> bool:
    """Whether the last bytes of the file are zeros, as in one that is preallocated."""
    with segment.opened() as source:
        last = segment.raw(max(source.size - UP_TO_MAGIC, 0), UP_TO_MAGIC)
    return len(last) == UP_TO_MAGIC and not any(last)


def ends_in_zeros(segment: SegmentFile, position: int) -> bool:
    """Whether the zeros at `position` seem to be preallocated, and no damage before more batches: there is nothing else
    for so many bytes, and at the end of the file."""
    return has_zeros_at_end(segment) and not any(segment.raw(position, _ZEROS))


def last_frame(segment: SegmentFile, position: int) -> tuple[int, int] | None:
    """Start and end of the last batch from `position` on by their lengths: behind it is the file's end, zeros, or a
    batch that is longer than its file. Without a batch twice `position`; None: a length or a magic before is wrong."""
    start = position
    with segment.opened() as source:
        read_at = segment.source.read_at
        while any(head := read_at(position, UP_TO_MAGIC)) and len(head) == UP_TO_MAGIC:
            fields = batch_start(head)
            if fields is None:
                return None
            if fields.batch_length > source.size - position - LOG_OVERHEAD:
                break
            start, position = position, position + LOG_OVERHEAD + fields.batch_length
    return start, position


def incomplete_end(segment: SegmentFile, position: int, remaining: int, lost_from: int | None) -> Damage | None:
    """The incomplete batch at the end of what was read of a segment, as Damage. None: nothing is left, or preallocated
    zeros. Fewer than 12 zeros are no preallocated ones here: base offset and length of a batch may begin like that.

    position: where the last `remaining` bytes begin, which were neither batches nor damage
    lost_from: the next offset of the last good batch; None: there is none
    """
    if not remaining or (remaining >= LOG_OVERHEAD and is_preallocated(segment, (position, remaining))):
        return None
    head = segment.raw(position, min(remaining, LOG_OVERHEAD))
    return incomplete_batch(head, position, remaining, lost_from, segment.display_path)


class SegmentBytes(NamedTuple):
    """The bytes of a segment, as a BatchSource."""

    segment: Any
    decode_request: DecodeRequest

    def raw(self, start: int, stop: int) -> memoryview:
        return memoryview(reread(self.segment, start, stop - start))

    def read(self, start: int, stop: int) -> RecordColumns:
        with self.segment.opened() as source:
            return as_columns(self.decode_request, read_at_once(self.decode_request, source, start, stop))
