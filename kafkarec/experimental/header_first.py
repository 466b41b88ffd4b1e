"""Header-first batches of magic 3, an additional proposal to the discarded one. No broker reads them.

    header                      as in `v3`, with attribute bit 8
    bit 9 = 0: one frame        fields | data, compressed together
    bit 9 = 1: two frames       varint: bytes of the first one | fields, compressed | data, compressed
    fields, of all records      length | [attributes, if bit 7 = 0] | timestamp delta | offset delta | key length |
                                value length | header count | key length, value length of each header
    data, of all records        key | value | key, value of each header

A record's length counts its bytes after that field, in both parts, as in `v3`. Varints are zig-zag. So what a broker
validates (offsets, lengths) is at the beginning of a batch: of two frames `offsets` decompresses the first one alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._verbs import HeaderFirstCheck
from kafkarec.read.decode_options import checked_bytes, checked_limit

from .framing import MAGIC, TWO_FRAMES, Format, batch_at, codec_errors, two_frames

__all__ = ["ValidatedOffsets", "decode", "encode", "from_v2", "offsets", "to_v2"]


class ValidatedOffsets(NamedTuple):
    """The result of `offsets`.

    batches, records: int     how many were validated
    compressed_bytes: int     of their payloads that were read
    decompressed_bytes: int   that were made of these
    """

    batches: int
    records: int
    compressed_bytes: int
    decompressed_bytes: int


_FORMAT = Format(header_first=True)
decode, to_v2 = _FORMAT.decode, _FORMAT.to_v2


def encode(source: Any, *, frames: int = 2, **options: Any) -> bytes:
    """Consecutive header-first batches of records or Arrow columns.

    frames: 1 compresses all of a batch together, 2 the fields and the data
    source, options: as for `v3.encode`
    """
    return Format(True, frames).encode(source, **options)


def from_v2(data: Any, *, frames: int = 2, **options: Any) -> bytes:
    """Batches of magic 2 as header-first batches.

    frames: 1 compresses all of a batch together, 2 the fields and the data
    data, options: as for `v3.from_v2`, except that no payload is copied; attribute bits 7 to 9 are refused
    """
    return Format(True, frames).from_v2(data, **options)


def offsets(data: Any, *, max_decompressed_bytes: int = 128 << 20) -> ValidatedOffsets:
    """Validates what a broker validates of a producer's batches, and decompresses only the frame of their fields.

    data: any buffer of whole header-first batches
    max_decompressed_bytes: cap per payload, LimitExceededError above it

    The number of records must be that of the header, each record's length that of its fields; the offset deltas must
    ascend from 0 or more to the header's last one, otherwise offsets_out_of_order (as for batches of a cleaned log).
    Keys, values and headers are not read, and in two frames not decompressed; so their size is compared with the
    lengths only without a codec.
    """
    view, limit = checked_bytes(data), checked_limit(max_decompressed_bytes)
    check = HeaderFirstCheck(view, limit)
    while (at := check.run()) < len(view):
        batch = batch_at(view, at, MAGIC, True)
        _FORMAT.check_form(batch)
        has_two_frames = batch.header.attributes & TWO_FRAMES
        with codec_errors(batch, limit):
            fields = two_frames(batch)[0] if has_two_frames else batch.payload
            if not (batch.codec or has_two_frames):
                raise codecs.LimitReached(limit)
            check.read(codecs.decompress(batch.codec, fields, limit), len(fields))
    return ValidatedOffsets(check.batches, check.records, check.compressed_bytes, check.decompressed_bytes)
