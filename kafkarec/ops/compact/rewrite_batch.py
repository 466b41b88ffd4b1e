"""New bytes of batches that a filter changed (Kafka: MemoryRecords.buildRetainedRecordsInto, DefaultRecordBatch)

    unchanged     base and last offset, leader epoch, producer id, epoch and base sequence, flags, codec
    may change    base timestamp: that of the first kept record, or the delete horizon (KIP-534)
                  max timestamp: the greatest of the kept records; with LogAppendTime it is unchanged
                  magic: messages of magic 0 and 1 become batches of magic 2 (KIP-724, since Kafka 4.0), whose base and
                  last offset are those of the first and last kept record

Records that Kafka's builder refuses are refused here: a broker stops cleaning the partition of such a log.
"""

from __future__ import annotations

from itertools import compress, pairwise
from typing import NoReturn

from kafkarec._writer import RecordInput
from kafkarec.format.java_integers import INT_MAX
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.rewrite.batches import SourceBatch
from kafkarec.ops.rewrite.new_batches import empty_batch, new_header

from .batch_records import BatchRecords


def refuse(batch: SourceBatch, why: str) -> NoReturn:
    """Raises InvalidRecordError: the batch cannot be rewritten."""
    which = f"the batch at byte {batch.position} (last offset {batch.last_offset})"
    raise batch.error("batch_not_rewritable", f"{which} cannot be rewritten: {why}")


def emptied(batch: SourceBatch) -> bytes:
    """The header as an empty batch, for a producer's last sequence or the end of the log (writeEmptyHeader)."""
    header = new_header(batch)._replace(delete_horizon_ms=None, codec=0)
    return empty_batch(header, batch.max_timestamp)


def rewritten(
    batch: SourceBatch, rows: BatchRecords, record_input: RecordInput, keep: bytes, horizon: int | None
) -> tuple[bytes, list[int]]:
    """A batch with some of its records, and their offsets.

    keep      one byte for each of its rows, 1 for the records to write
    horizon   delete horizon in ms; None or below 0: none
    """
    span = slice(batch.start, batch.stop)
    offsets = list(compress(rows.offsets[span], keep))
    _demand_writable(batch, offsets, list(compress(rows.timestamps[span], keep)))
    header = new_header(batch)._replace(delete_horizon_ms=None if horizon is None or horizon < 0 else horizon)
    if batch.magic < BATCH_MAGIC:
        header = header._replace(base_offset=offsets[0], last_offset=None)
    if offsets[-1] - header.base_offset > INT_MAX:
        refuse(batch, f"offset {offsets[-1]} is more than {INT_MAX} above its base offset {header.base_offset}")
    return record_input.write(header, batch.start, batch.stop, keep), offsets


def _demand_writable(batch: SourceBatch, offsets: list[int], timestamps: list[int | None]) -> None:
    """MemoryRecordsBuilder.appendWithOffset and validateProducerState."""
    for one, other in pairwise(offsets):
        if other <= one:
            refuse(batch, f"offset {other} follows offset {one}")
    lowest = min((time for time in timestamps if time is not None), default=0)
    if lowest < 0:
        refuse(batch, f"timestamp {lowest} is negative")
    if batch.producer_id == -1:
        if batch.is_transactional:
            refuse(batch, "it is transactional and has no producer id")
    elif batch.producer_epoch == -1:
        refuse(batch, "it has a producer id and no producer epoch")
    elif batch.base_sequence < 0 and not batch.is_control:
        refuse(batch, f"it has a producer id and the base sequence {batch.base_sequence}")
