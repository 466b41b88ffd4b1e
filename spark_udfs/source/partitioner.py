"""The partition of a record without one: Kafka's default partitioner

    with a key      murmur2(key), its sign bit cleared, modulo the number of partitions (BuiltInPartitioner)
    without         one partition until it has about batchSize bytes of values, then the next one (KIP-480, KIP-794)

Kafka chooses the next partition at random; here it is the next number, and each task starts at another one.
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


class Partitioner:
    """The state of one task. task: its number, which is also the first partition for records without a key."""

    def __init__(self, task: int, batch_size: int) -> None:
        self._partition, self._batch_size, self._filled = task, batch_size, 0

    def partitions(self, keys: Any, sizes: Any, count: int) -> Any:
        """The partition of each row of a topic, as numpy.int32.

        keys: a BinaryArray, sizes: bytes of each record, count: number of partitions
        """
        assigned = np.empty(len(keys), np.int32)
        has_key = np.asarray(keys.is_valid())
        if has_key.any():
            hashes = murmur2(keys.filter(pa.array(has_key)))
            assigned[has_key] = (hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)
        without = np.flatnonzero(~has_key)
        if len(without):
            filled = self._filled + np.cumsum(np.asarray(sizes)[without])
            # the record that fills a batch still belongs to it
            batches_filled = np.concatenate(([self._filled], filled[:-1])) // self._batch_size
            assigned[without] = (self._partition + batches_filled) % count
            self._partition += int(filled[-1]) // self._batch_size
            self._filled = int(filled[-1]) % self._batch_size
        return assigned
