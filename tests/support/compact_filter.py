"""filter_to: compaction's filter on the bytes of one log, for comparison with Kafka's MemoryRecords.filterTo."""

from __future__ import annotations

from typing import Protocol

from kafkarec.ops.compact import BatchRecords, BatchRetentionResult, CleanerStats, RecordFilter, SourceBatch
from kafkarec.ops.compact.filtering import decode_request
from kafkarec.read.walk import HEADERS, BytesSegment, walk, walk_request


class Filtered(bytes):
    """The filtered batches. `.stats`: CleanerStats; `.remaining`: bytes of the input after its last batch."""

    stats: CleanerStats
    remaining: int


class Chooser(Protocol):
    """The two methods of a RecordFilter that choose."""

    def batch(self, batch: SourceBatch) -> BatchRetentionResult: ...

    def records(
        self, results: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords
    ) -> bytes | bytearray: ...


class _Chosen(RecordFilter):
    chooser: Chooser

    def batch(self, batch: SourceBatch) -> BatchRetentionResult:
        return self.chooser.batch(batch)

    def records(self, results: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytes | bytearray:
        return self.chooser.records(results, rows)


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
    running = _Chosen(now, delete_retention_ms, stats, most_body=most_body)
    running.chooser = chooser
    result = Filtered(b"".join(running.run(decode_request(check_crcs, 128 << 20), source)))
    result.stats = stats
    result.remaining = sum(step.tail[1] for step in walk([source], walk_request(HEADERS)) if step.tail)
    return result
