"""filter_to: compaction's filter on the bytes of one log, for comparison with Kafka's MemoryRecords.filterTo."""

from __future__ import annotations

from kafkarec.ops.compact import Filter, FilterStats, RecordFilter
from kafkarec.ops.compact.batch_records import decode_request
from kafkarec.read.walk import HEADERS, Buffer, asked, walk


class Filtered(bytes):
    """The filtered batches. `.stats`: FilterStats; `.remaining`: bytes of the input after its last batch."""

    stats: FilterStats
    remaining: int


def filter_to(
    data: bytes,
    record_filter: RecordFilter,
    *,
    now: int,
    delete_retention_ms: int,
    check_crcs: bool = True,
    most_body: int | None = None,
) -> Filtered:
    """Return the batches without what the filter rejects. Kafka checks no CRC here, as with `check_crcs=False`."""
    source, stats = Buffer(data), FilterStats()
    running = Filter(record_filter, now, delete_retention_ms, stats, most_body=most_body)
    result = Filtered(b"".join(running.run(decode_request(check_crcs, 128 << 20), source)))
    result.stats = stats
    result.remaining = sum(step.tail[1] for step in walk([source], asked(HEADERS)) if step.tail)
    return result
