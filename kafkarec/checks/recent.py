"""The last windows of a remote file, kept: what the engine has just read is looked at once more without a request.

The engine reads window behind window, a piece of some 1 MiB at a time; the checks of payloads then ask for batches of
that piece. On a disk the page cache does this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..storage import Segment
from ..storage.sources import ByteSource

_KEPT = 8 << 20


class Recent:
    """A source that remembers its last `_KEPT` bytes or so, in the blocks they were read in."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._blocks: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self.fetched = 0
        self.descriptor = None
        self.name, self.size = source.name, source.size
        self.window_bytes, self.skip_bytes = source.window_bytes, source.skip_bytes

    def read_at(self, position: int, length: int) -> bytes:
        """From the blocks where they have all of it; one block may go on in the next."""
        found = bytearray()
        for start, block in self._blocks:
            at = position + len(found)
            if start <= at < start + len(block):
                found += block[at - start : at - start + length - len(found)]
        if length and len(found) == length:
            return bytes(found)
        data = self._source.read_at(position, length)
        self.fetched += len(data)
        self._blocks.append((position, data))
        self._held += len(data)
        while self._held > _KEPT and len(self._blocks) > 1:
            self._held -= len(self._blocks.popleft()[1])
        return data

    def is_damage(self, error: OSError) -> bool:
        return self._source.is_damage(error)

    def close(self) -> None:
        """The source is its owner's to close."""


@contextmanager
def remembered(segment: Any) -> Iterator[Any]:
    """The segment itself where the system reads it by a descriptor, else one over a source that remembers."""
    with segment:
        source = segment.source
        if source.descriptor is not None:
            yield segment
            return
        same = Segment(
            segment.path, segment.name, source=Recent(source), topic=segment.topic, partition=segment.partition,
            size=segment.size, later_segment=segment.later_segment,
        )  # fmt: skip
        yield same
