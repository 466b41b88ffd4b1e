"""What validate answers: the bytes for the log, and what Kafka's ValidationResult tells of them."""

from __future__ import annotations

from typing import NamedTuple


class RecordError(NamedTuple):
    """A record that was refused: its index in its batch, and why (ProduceResponse.RecordError)."""

    batch_index: int
    message: str


class RecordValidationStats(NamedTuple):
    """What it cost (Kafka: RecordValidationStats).

    temporary_memory_bytes   bytes that a broker holds for a while: of the decompressed records, and of those it wrote
                             anew before they were compressed; 0 for uncompressed batches that stayed as they were
    records_converted        records written anew: for another magic or codec, or because their offsets did not count up
    conversion_time_ns       how long that took
    """

    temporary_memory_bytes: int = 0
    records_converted: int = 0
    conversion_time_ns: int = 0


class ValidatedRecords(bytes):
    """Batches as they go into the log: bytes, to be decoded, written or joined as they are.

    log_append_time   ms: the time of the check, whatever the timestamp type
    max_timestamp     ms: the greatest of the records', the time of the check under log append time; -1: none
    next_offset       of the record behind these
    size_changed      the batches were written anew, so positions and size may be others
    stats             RecordValidationStats
    """

    log_append_time: int
    max_timestamp: int
    next_offset: int
    size_changed: bool
    stats: RecordValidationStats

    def __repr__(self) -> str:
        return (
            f"ValidatedRecords({len(self)} bytes, next offset {self.next_offset}, max timestamp {self.max_timestamp}, "
            f"{self.stats.records_converted} records converted)"
        )


def validated(
    data: bytes | bytearray | memoryview,
    *,
    now: int,
    max_timestamp: int,
    next_offset: int,
    size_changed: bool = False,
    stats: RecordValidationStats | None = None,
) -> ValidatedRecords:
    """The result over a copy of `data`."""
    result = ValidatedRecords(data)
    result.log_append_time = now
    result.max_timestamp = max_timestamp
    result.next_offset = next_offset
    result.size_changed = size_changed
    result.stats = stats or RecordValidationStats()
    return result
