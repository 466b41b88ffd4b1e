"""The last offset of each key (Kafka: OffsetMap, SkimpyOffsetMap, Cleaner.buildOffsetMap)

Kafka hashes keys to 16 bytes (MD5) and keeps 24 bytes a key in a buffer of fixed size (log.cleaner.dedupe.buffer.size);
where that is full, a run of the cleaner ends. Here keys are kept as they are: no two are taken for one. A key costs its
bytes, one more, and 21 to 43: some 50 bytes with keys of 16, so 20 million of them are 1 GB. `max_keys` ends a run as
Kafka's full buffer does.
"""

from __future__ import annotations

from .._core import Chunk
from .._offset_map import LastOffsets
from ..errors import LimitExceededError
from ..records import BatchTable
from ..request import Request
from .batches import Rows
from .inputs import Input

COLUMNS = ("key", "offset")


class OffsetMap:
    """Built in one pass over the dirty part of a log; read for each part of it. `messages_read`: what was looked at."""

    def __init__(self, max_keys: int | None = None) -> None:
        self._last = LastOffsets()
        self._most = max_keys
        self.messages_read = 0

    def __len__(self) -> int:
        return len(self._last)

    def read(self, source: Input, asked: Request, stop: int | None) -> int | None:
        """Takes the keys of a segment's first bytes; the request leaves out what does not count (inputs.hiding). None,
        or the offset behind the last batch that was taken before there were too many."""
        for part in source.parts(asked, 0, stop):
            for chunk in part.chunks:
                self._put(chunk)
            if self._most is not None and len(self._last) >= self._most and len(part.tables[-1]):
                return int(BatchTable.of(part.tables).column("next_offset")[-1])
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

    def latest(self, rows: Rows) -> bytearray:
        """One byte a row: 1 where no later offset of the same key is known; 0 without a key."""
        return rows.with_keys(self._last.latest)
