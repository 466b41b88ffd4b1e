"""The result of validate: the bytes for the log, with the fields of Kafka's ValidationResult."""

from __future__ import annotations

from typing import NamedTuple


class RecordError(NamedTuple):
    """A refused record: its index in its batch, and the reason (ProduceResponse.RecordError)."""

    batch_index: int
    message: str


class RecordValidationStats(NamedTuple):
    """What a validation did (Kafka: RecordValidationStats, without the figures of its heap and clock).

    records_converted   records that were rewritten, for another magic or codec or because their offsets did not count
                        up
    """

    records_converted: int = 0


class ValidatedRecords(bytes):
    """The batches to append to the log, as bytes.

    log_append_time   `now` of the call, ms, whatever the timestamp type
    max_timestamp     greatest timestamp of the records, ms; with log append time `now`; -1: none
    next_offset       next offset after these records
    size_changed      the batches were rewritten, so positions and sizes may differ
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
    records_converted: int = 0,
) -> ValidatedRecords:
    """The result over a copy of `data`."""
    result = ValidatedRecords(data)
    result.log_append_time = now
    result.max_timestamp = max_timestamp
    result.next_offset = next_offset
    result.size_changed = size_changed
    result.stats = RecordValidationStats(records_converted)
    return result
