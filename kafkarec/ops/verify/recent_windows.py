"""A cache of the last blocks read from a remote file, so that payload checks can read batches again without a request.

A piece of about 1 MiB is decoded at a time; the payload checks then read batches of that piece again. For local files
the page cache does this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkarec.storage import Segment
from kafkarec.storage.sources import ByteSource

_KEPT = 8 << 20


class CachedSource:
    """A source that caches about the last `_KEPT` bytes, in the blocks in which they were read."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._blocks: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self.fetched = 0
        self.descriptor = None
        self.name, self.size = source.name, source.size
        self.window_bytes, self.skip_bytes = source.window_bytes, source.skip_bytes

    def read_at(self, position: int, length: int) -> bytes:
        """From the cached blocks if they have all of the range, which may span several; else from the source."""
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
        """Does nothing: the owner closes the source."""


@contextmanager
def with_cache(segment: Any) -> Iterator[Any]:
    """The segment itself if it is read by a file descriptor, else one with a caching source."""
    with segment:
        source = segment.source
        if source.descriptor is not None:
            yield segment
            return
        same = Segment(
            segment.path,
            segment.name,
            source=CachedSource(source),
            topic=segment.topic,
            partition=segment.partition,
            size=segment.size,
            later_segment=segment.later_segment,
        )
        yield same
