"""The partition of a record without one: Kafka's default partitioner

    with a key      murmur2(key), its sign bit cleared, modulo the number of partitions (BuiltInPartitioner)
    without         one partition after the other, each task beginning with another one

Kafka fills a batch of one partition before it goes on to another one; here batches of all partitions are filled anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

_SEED, _M, _R = 0x9747B28C, np.uint32(0x5BD1E995), np.uint32(24)
_LAST_BYTES = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def murmur2(keys: Any) -> Any:
    """The 32-bit hashes of a BinaryArray without nulls, as numpy.uint32 (org.apache.kafka.common.utils.Utils): one pass
    for the first four bytes of all keys, one for the next four bytes of those that have them ..."""
    keys = keys.cast(pa.large_binary())
    if not len(keys):
        return np.empty(0, np.uint32)
    offsets = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(keys.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    words = np.ndarray(len(content) + 1, "<u4", np.append(content, np.zeros(4, np.uint8)), strides=(1,))
    order = np.argsort(offsets[:-1] - offsets[1:], kind="stable")  # the longest ones first
    starts, sizes = offsets[order] - offsets[0], np.diff(offsets)[order]
    longest_first, count = sizes.tolist(), len(keys)
    hashes = (sizes ^ _SEED).astype(np.uint32)
    for at in range(0, longest_first[0] - 3, 4):
        while longest_first[count - 1] < at + 4:
            count -= 1
        word = words[starts[:count] + at] * _M
        word = (word ^ (word >> _R)) * _M
        hashes[:count] = hashes[:count] * _M ^ word
    rest = sizes & 3
    last = words[starts + sizes - rest] & _LAST_BYTES[rest]
    hashes = np.where(rest, (hashes ^ last) * _M, hashes)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    of_rows = np.empty_like(hashes)
    of_rows[order] = hashes ^ (hashes >> np.uint32(15))
    return of_rows


def partitions(keys: Any, first: int, count: int) -> Any:
    """The partition of each row of a topic with `count` partitions, as numpy.int64. keys: a BinaryArray; first: that of
    the first row, if it has no key."""
    assigned = (first + np.arange(len(keys))) % count
    has_key = keys.is_valid()
    assigned[np.asarray(has_key)] = (murmur2(keys.filter(has_key)) & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    return assigned
