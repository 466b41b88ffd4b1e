"""Where records are split into batches of a given size.

Sizes are those of the uncompressed batch, so they do not depend on the codec, and a second conversion splits at the
same records.

    magic 2      61 header | records of: length | attributes 1 | timestamp delta | offset delta | key | value | headers
    magic 0, 1   inner messages of 26 and 34 bytes, plus key and value
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkarec.format.layout import BATCH_MAGIC, LEAST_SIZES
from kafkarec.format.varints import varint_size

from .decoded_batches import DecodedBatches


def split_points(decoded: DecodedBatches, start: int, stop: int, magic: int, limit: int) -> list[int]:
    """The rows of [start, stop) that begin a batch, then `stop`. A record above `limit` is a batch of its own."""
    if magic >= BATCH_MAGIC:
        return [*_split_points_v2(decoded, start, stop, LEAST_SIZES[magic], limit), stop]
    return [*_split_points_v01(decoded, start, stop, LEAST_SIZES[magic], limit), stop]


def _split_points_v01(decoded: DecodedBatches, start: int, stop: int, overhead: int, limit: int) -> Iterator[int]:
    keys, values = decoded.key_lengths[start:stop], decoded.value_lengths[start:stop]
    size = limit + 1
    for row, (key, value) in enumerate(zip(keys, values, strict=True), start):
        more = overhead + max(key, 0) + max(value, 0)
        if size + more > limit:
            yield row
            size = 0
        size += more


def _split_points_v2(decoded: DecodedBatches, start: int, stop: int, overhead: int, limit: int) -> Iterator[int]:
    """Splits a run of batches. All its batches have the same delete horizon or none; with one, it is stored as
    the base timestamp (KIP-534). The frequent varint sizes are computed inline, as this loop takes most of the time.
    """
    horizon = decoded.units[0].delete_horizon_ms
    contents, offsets, timestamps = (
        column[start:stop] for column in (decoded.content_sizes, decoded.offsets, decoded.timestamps)
    )
    size, base_offset, base_timestamp = limit + 1, 0, 0
    for row, (content, offset, timestamp) in enumerate(zip(contents, offsets, timestamps, strict=True), start):
        offset_delta, timestamp_delta = offset - base_offset, timestamp - base_timestamp
        body = content + (1 if offset_delta < 64 else 2 if offset_delta < 8192 else varint_size(offset_delta))
        body += 1 if -64 <= timestamp_delta < 64 else varint_size(timestamp_delta)
        more = body + (1 if body < 64 else 2 if body < 8192 else varint_size(body))
        if size + more > limit:
            yield row
            size, base_offset, base_timestamp = overhead, offset, timestamp if horizon is None else horizon
            body = content + 1 + varint_size(timestamp - base_timestamp)
            more = body + varint_size(body)
        size += more
