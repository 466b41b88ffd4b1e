"""The last offset of each key (Kafka: OffsetMap, SkimpyOffsetMap, Cleaner.buildOffsetMap)

Kafka hashes keys to 16 bytes (MD5) and stores 24 bytes per key in a buffer of log.cleaner.dedupe.buffer.size bytes;
when it is full, a run of the cleaner ends. Here whole keys are stored, so there are no collisions. A key takes its
length + 1 bytes plus 21 to 43: some 50 bytes for keys of 16, so 20 million of them take 1 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkarec._verbs import LastOffsets
from kafkarec.errors import LimitExceededError

from .batch_records import BatchRecords


class OffsetMap:
    """The last offset of each key in the dirty part of a log. `messages_read`: records that were read for it."""

    def __init__(self) -> None:
        self._last = LastOffsets()
        self.messages_read = 0

    def __len__(self) -> int:
        return len(self._last)

    def put(self, keys: tuple[Any, ...], offsets: memoryview, spans: Sequence[tuple[int, int]]) -> None:
        """Adds rows of a column of keys and one of offsets, int64."""
        try:
            self._last.put(keys, offsets, len(offsets), spans)
        except MemoryError:
            raise LimitExceededError(
                f"no memory for more than {len(self._last)} keys ({self._last.nbytes} bytes)",
                reason="out_of_memory",
            ) from None
        self.messages_read += sum(stop - first for first, stop in spans)

    def latest(self, rows: BatchRecords) -> bytearray:
        """One byte per row: 1 if the row has the last offset of its key; 0 if not, or without a key."""
        return rows.with_keys(self._last.latest)
