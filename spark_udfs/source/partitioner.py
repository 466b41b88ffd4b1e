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


def murmur2(keys: Any) -> Any:
    """The 32-bit hashes of a BinaryArray without nulls, as numpy.uint32 (org.apache.kafka.common.utils.Utils)."""
    keys = keys.cast(pa.large_binary())
    count = len(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset : keys.offset + count + 1] if count else None
    hashes = np.empty(count, np.uint32)
    if offsets is None:
        return hashes
    content = keys.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    sizes, starts = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes, np.split(order, starts[1:]), strict=True):
        hashes[rows] = _of_one_size(data, offsets[rows], int(size))
    return hashes


def _of_one_size(data: Any, starts: Any, size: int) -> Any:
    """All keys of one length together, four bytes at a time."""
    with np.errstate(over="ignore"):
        hashes = np.full(len(starts), (_SEED ^ size) & 0xFFFFFFFF, np.uint32)
        whole = size & ~3
        for at in range(0, whole, 4):
            word = _bytes(data, starts + at, 4) * _M
            word = (word ^ (word >> _R)) * _M
            hashes = (hashes * _M) ^ word
        if size > whole:
            hashes = (hashes ^ _bytes(data, starts + whole, size - whole)) * _M
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
        return hashes ^ (hashes >> np.uint32(15))


def _bytes(data: Any, starts: Any, count: int) -> Any:
    """A little-endian number of one to four bytes from each start."""
    words = np.zeros(len(starts), np.uint32)
    for number in range(count):
        words |= data[starts + number].astype(np.uint32) << np.uint32(8 * number)
    return words


def partitions(keys: Any, first: int, count: int) -> Any:
    """The partition of each row of a topic with `count` partitions, as numpy.int64. keys: a BinaryArray; first: that of
    the first row, if it has no key."""
    assigned = (first + np.arange(len(keys))) % count
    has_key = keys.is_valid()
    assigned[np.asarray(has_key)] = (murmur2(keys.filter(has_key)) & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    return assigned
