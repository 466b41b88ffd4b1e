"""Where a run of records is cut into batches of a given size.

Sizes are those of the uncompressed batch: what goes into a batch then does not depend on how well a codec does, and a
second conversion cuts where the first one did.

    magic 2      61 header | records of: length | attributes 1 | timestamp delta | offset delta | key | value | headers
    magic 0, 1   inner messages of 26 and 34 bytes, key and value besides
"""

from __future__ import annotations

from collections.abc import Iterator

from .decoded import Decoded, sized, varint_size

_HEADER_BYTES = 61
_MESSAGE_BYTES = {0: 26, 1: 34}


def borders(decoded: Decoded, start: int, stop: int, magic: int, limit: int) -> list[int]:
    """The rows of [start, stop) that begin a batch, and `stop`. A record that is too large is a batch of its own."""
    if magic == 2:
        return [*_borders_of_batches(decoded, start, stop, limit), stop]
    return [*_borders_of_wrappers(decoded, start, stop, _MESSAGE_BYTES[magic], limit), stop]


def _borders_of_wrappers(decoded: Decoded, start: int, stop: int, overhead: int, limit: int) -> Iterator[int]:
    keys, values = decoded.lengths("key"), decoded.lengths("value")
    size = limit + 1
    for row in range(start, stop):
        more = overhead + max(keys[row], 0) + max(values[row], 0)
        if size + more > limit:
            yield row
            size = 0
        size += more


def _borders_of_batches(decoded: Decoded, start: int, stop: int, limit: int) -> Iterator[int]:
    content = _content_sizes(decoded)
    offsets, timestamps = decoded.offsets, decoded.timestamps
    size, base_offset, base_timestamp = limit + 1, 0, 0
    for row in range(start, stop):
        offset, timestamp = offsets[row], timestamps[row]
        more = _framed(content[row] + varint_size(timestamp - base_timestamp) + varint_size(offset - base_offset))
        if size + more > limit:
            yield row
            size, base_offset, base_timestamp = _HEADER_BYTES, offset, timestamp
            more = _framed(content[row] + 2)
        size += more


def _content_sizes(decoded: Decoded) -> list[int]:
    """Bytes of each record without its length and its two deltas."""
    headers = decoded.header_sizes()
    return [
        1 + sized(key) + sized(value) + header
        for key, value, header in zip(decoded.lengths("key"), decoded.lengths("value"), headers, strict=True)
    ]


def _framed(body: int) -> int:
    return varint_size(body) + body
