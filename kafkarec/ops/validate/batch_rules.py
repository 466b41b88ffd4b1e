"""Checks of a batch before its records are read (LogValidator.validateBatch)."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from kafkarec._verbs import Request
from kafkarec.codecs import CODECS
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.ops.validate.topic_rules import Rules
from kafkarec.ops.validate.validation_errors import refuse


class FirstBatch(NamedTuple):
    """Header fields of the first batch, with magic 2 the only one; -1 if its magic does not have the field."""

    magic: int
    codec: int
    size: int
    base_offset: int
    last_offset: int
    timestamp_type: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    is_transactional: bool
    is_control: bool

    def refuse(self, reason: str, **sides: Any) -> NoReturn:
        """sides: expected, found, detail"""
        refuse(reason, base_offset=self.base_offset, next_position=self.size, **sides)


def first_of(request: Request) -> FirstBatch:
    """The first batch or plain message of a request."""
    if request.batches == 0:
        refuse("request_empty")
    first = FirstBatch(*request.first)
    if request.batches > 1 and (first.magic >= BATCH_MAGIC or request.codec):
        refuse("batch_not_alone", position=first.size)
    return first


def check_magic(request: Request, first: FirstBatch) -> None:
    """Raises if a message has another magic than the first one, as Kafka does after scanning those before it."""
    if not request.one_magic:
        refuse("batch_magic_differs", position=request.other_position, expected=first.magic, found=request.other_magic)


def check(batch: FirstBatch, rules: Rules) -> None:
    """Raises InvalidRecordError for a batch that the sender must not send or the wanted magic cannot store."""
    if rules.from_client:
        _check_of_client(batch)
    if rules.magic < BATCH_MAGIC and (batch.is_transactional or batch.producer_id >= 0):
        what = "a transactional batch" if batch.is_transactional else f"producer id {batch.producer_id}"
        batch.refuse("magic_unfit", expected=2, found=rules.magic, detail=what)


def check_rewrite(batch: FirstBatch, rules: Rules, headers: int, least_timestamp: int) -> None:
    """Raises for what Kafka's builder refuses when it rewrites the records (MemoryRecordsBuilder)."""
    known = LATEST_CODECS[rules.magic]
    if rules.codec > known:
        detail = f"{CODECS[rules.codec].name} needs magic 2, wanted is {rules.magic}"
        batch.refuse("unsupported_codec", expected=known, found=rules.codec, detail=detail)
    if least_timestamp < -1:
        batch.refuse("timestamp_negative", expected=-1, found=least_timestamp)
    if rules.magic < BATCH_MAGIC and headers:
        batch.refuse("magic_unfit", expected=2, found=rules.magic, detail=f"{headers} record headers")
    if batch.is_transactional and batch.producer_id == -1:
        batch.refuse("producer_state_invalid", detail="transactional without a producer id")
    if batch.producer_id != -1 and batch.producer_epoch == -1:
        batch.refuse("producer_state_invalid", detail="producer id without a producer epoch")
    if batch.producer_id != -1 and batch.base_sequence < 0:
        batch.refuse("producer_state_invalid", detail=f"base sequence {batch.base_sequence}")
    if batch.producer_id != -1 and rules.magic < BATCH_MAGIC:
        batch.refuse("magic_unfit", expected=2, found=rules.magic, detail=f"producer id {batch.producer_id}")


def _check_of_client(batch: FirstBatch) -> None:
    if batch.magic >= BATCH_MAGIC:
        offsets = wrapped(batch.last_offset - batch.base_offset + 1, 64)
        if offsets <= 0:
            batch.refuse("offset_range_invalid", expected=batch.base_offset, found=batch.last_offset)
        if batch.record_count <= 0:
            batch.refuse("record_count_invalid", expected=1, found=batch.record_count)
        if offsets != batch.record_count:
            batch.refuse("record_count_mismatch", expected=offsets, found=batch.record_count)
    if batch.is_control:
        batch.refuse("control_batch_refused")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        detail = f"producer id {batch.producer_id}"
        batch.refuse("sequence_invalid", expected=0, found=batch.base_sequence, detail=detail)
