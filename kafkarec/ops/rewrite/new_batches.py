"""New batches with the header fields of old ones."""

from __future__ import annotations

from functools import cache

from kafkarec.format.enums import TimestampType
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.write.encoding import RecordInput, record_input_of
from kafkarec.write.fields import BatchHeader

from .batches import SourceBatch


def new_header(batch: SourceBatch) -> BatchHeader:
    """The header of a batch of magic 2 or above with the offset range and all header fields of `batch`."""
    append_time = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    return BatchHeader(
        magic=max(batch.magic, BATCH_MAGIC),
        codec=batch.codec,
        timestamp_type=batch.timestamp_type or 0,
        base_offset=batch.last_offset if batch.base_offset is None else batch.base_offset,
        last_offset=batch.last_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        log_append_time=batch.max_timestamp if append_time else -1,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=batch.delete_horizon_ms,
    )


def empty_batch(header: BatchHeader, max_timestamp: int) -> bytes:
    """A batch without records, as the log cleaner leaves one (DefaultRecordBatch.writeEmptyHeader)."""
    return _no_rows().write(
        header._replace(log_append_time=max_timestamp, base_timestamp=-1, max_timestamp=max_timestamp)
    )


@cache
def _no_rows() -> RecordInput:
    return record_input_of([])
