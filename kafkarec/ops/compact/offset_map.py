"""The last offset of each key (Kafka: OffsetMap, SkimpyOffsetMap, Cleaner.buildOffsetMap)

Kafka hashes keys to 16 bytes (MD5) and stores 24 bytes per key in a buffer of log.cleaner.dedupe.buffer.size bytes;
when it is full, a run of the cleaner ends. Here whole keys are stored, so there are no collisions. A key takes its
length + 1 bytes plus 21 to 43: some 50 bytes for keys of 16, so 20 million of them take 1 GB. `max_keys` ends a run as
Kafka's full buffer does.
"""

from __future__ import annotations

from kafkarec._core import Chunk
from kafkarec._offset_map import LastOffsets
from kafkarec.errors import LimitExceededError
from kafkarec.recover.steps import Step

from .batch_table import BatchRecords

COLUMNS = ("key", "offset")


class OffsetMap:
    """The last offset of each key in the dirty part of a log. `messages_read`: records that were read for it."""

    def __init__(self, max_keys: int | None = None) -> None:
        self._last = LastOffsets()
        self._most = max_keys
        self.messages_read = 0

    def __len__(self) -> int:
        return len(self._last)

    def take(self, step: Step) -> int | None:
        """Adds the keys of a step without aborted data and control records. Returns None, or, once there are
        `max_keys`, the next offset after the last batch."""
        if step.chunk is not None:
            self._put(step.chunk)
        if self._most is not None and len(self._last) >= self._most and len(step):
            return int(step.column("next_offset")[-1])
        return None

    def _put(self, chunk: Chunk) -> None:
        _, offsets, _ = chunk.column(1, 8)
        try:
            self._last.put(chunk.column(0, 0), offsets, len(chunk))
        except MemoryError:
            raise LimitExceededError(
                f"no memory for more than {len(self._last)} keys ({self._last.nbytes} bytes): see max_keys",
                reason="out_of_memory",
            ) from None
        self.messages_read += len(chunk)

    def latest(self, rows: BatchRecords) -> bytearray:
        """One byte per row: 1 if the row has the last offset of its key; 0 if not, or without a key."""
        return rows.with_keys(self._last.latest)
