"""filter_to: the log cleaner's filter on the bytes of one log, for comparison with Kafka's MemoryRecords.filterTo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kafkarec._core import Chunk
from kafkarec.ops.compact.filtering import BatchDecision, Cleaner, CleanerStats
from kafkarec.ops.compact.log_state import LAST_OFFSET, CleanerSettings
from kafkarec.ops.rewrite import SourceBatch
from kafkarec.read.walk import HEADERS, BytesSegment, walk, walk_request


class Filtered(bytes):
    """The filtered batches. `.stats`: CleanerStats; `.remaining`: bytes of the input after its last batch."""

    stats: CleanerStats
    remaining: int


class Chooser(Protocol):
    """The two methods of a Cleaner that choose."""

    def check_batch_retention(self, batch: SourceBatch) -> BatchDecision: ...

    def retained_rows(
        self, to_filter: Sequence[SourceBatch], chunk: Chunk, without_value: bytes | None
    ) -> bytearray: ...


def filter_to(
    data: bytes,
    chooser: Chooser,
    *,
    now: int,
    delete_retention_ms: int,
    check_crcs: bool = True,
    most_body: int | None = None,
) -> Filtered:
    """Return the batches without what the filter rejects. Kafka checks no CRC here, as with `check_crcs=False`."""
    source, stats = BytesSegment(data), CleanerStats()
    settings = CleanerSettings(now, delete_retention_ms, 0, LAST_OFFSET, check_crcs, 128 << 20, most_body)
    nothing: Any = None  # of the log that the cleaner's own choices need
    running: Any = Cleaner(settings, stats, lambda path, end: None, nothing, nothing, nothing)
    running.check_batch_retention, running.retained_rows = chooser.check_batch_retention, chooser.retained_rows
    result = Filtered(b"".join(running.kept_batches(source)))
    result.stats = stats
    result.remaining = sum(step.tail[1] for step in walk([source], walk_request(HEADERS)) if step.tail)
    return result
