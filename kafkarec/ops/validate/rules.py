"""The rules of the topic and of the sender, the result (Kafka's ValidationResult), the errors of refused requests
(RecordValidationException), and the checks of a batch before its records are read (LogValidator.validateBatch).
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from kafkarec.codecs import CODECS
from kafkarec.damage import error
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.write.fields import checked_int

ORIGINS = ("client", "replication", "coordinator", "raft_leader")
"""Who appends (Kafka: AppendOrigin). There are more checks for a client's batches."""

NO_LIMIT = 2**63 - 1


class Rules(NamedTuple):
    """The rules for one request. `magic` and `codec` are those of the result."""

    magic: int
    codec: int
    level: int | None
    create_time: bool
    compacted: bool
    before_ms: int
    after_ms: int
    leader_epoch: int
    from_client: bool
    now: int
    first_offset: int
    limit: int
    most_body: int

    @property
    def timestamp_type(self) -> int:
        return 0 if self.create_time else 1


def checked_most(name: str, limit: int | None) -> int:
    """The value of an option that is a limit; None: no limit."""
    return NO_LIMIT if limit is None else checked_int(name, limit, 64)


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
    size_changed: bool = False
    stats: RecordValidationStats = RecordValidationStats()

    def __repr__(self) -> str:
        return (
            f"ValidatedRecords({len(self)} bytes, next offset {self.next_offset}, max timestamp {self.max_timestamp}, "
            f"{self.stats.records_converted} records converted)"
        )


def validated(data: bytes | memoryview, log_append_time: int, max_timestamp: int, next_offset: int) -> ValidatedRecords:
    made = ValidatedRecords(data)
    made.log_append_time, made.max_timestamp, made.next_offset = log_append_time, max_timestamp, next_offset
    return made


# Why a record is refused, by the members of the C enum RecordFault of `_c/record_summary.pxd`.
REFUSALS = (
    "",
    "its magic {own_magic} is not the outer magic {magic}",
    "it has no key, and the topic is compacted",
    "timestamp {timestamp} of offset {offset} is out of range: from {least} to {most}",
    "its timestamp type is log append time, which a producer does not set",
)


def refuse(reason: str, *, position: int = 0, base_offset: int | None = None, **sides: Any) -> NoReturn:
    """sides: expected, found, next_position, detail"""
    raise error(reason, {"position": position, "base_offset": base_offset, **sides})


def refuse_records(
    wrong: tuple[int, bool, list[tuple[int, int, int, int, int]]], batch: tuple[int, int, int], magic: int, rules: Rules
) -> NoReturn:
    """`wrong`: from `_verbs.RequestCheck.refused_records`; `batch`: position, base offset and next position of the
    batch."""
    count, of_time, notes = wrong
    least, most = wrapped(rules.now - rules.before_ms, 64), wrapped(rules.now + rules.after_ms, 64)
    errors = tuple(
        RecordError(
            index,
            REFUSALS[what].format(
                timestamp=timestamp, offset=offset, own_magic=own_magic, magic=magic, least=least, most=most
            ),
        )
        for index, what, timestamp, offset, own_magic in notes
    )
    position, base_offset, next_position = batch
    shown = "; ".join(f"record {one.batch_index}: {one.message}" for one in errors[:3])
    raise error(
        "timestamps_rejected" if of_time else "records_rejected",
        {
            "position": position,
            "base_offset": base_offset,
            "next_position": next_position,
            "found": count,
            "record_errors": errors,
            "detail": shown if count <= 3 else f"the first three: {shown}",
        },
    )


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


def check_batch(batch: FirstBatch, rules: Rules) -> None:
    """Raises InvalidRecordError for a batch that the sender must not send or the wanted magic cannot store."""
    if rules.from_client:
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
