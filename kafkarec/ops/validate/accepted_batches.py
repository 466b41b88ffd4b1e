"""The bytes of an accepted request: batches modified in place, or records rewritten.

in place    base or last offset, leader epoch, timestamp type and max timestamp are set by `write/stamping.py`;
            plain messages are written by the writer
rewritten   one batch, message set or wrapper is written from the decoded columns: offsets count up from the first
            one, producer fields are kept, control and delete horizon flags are lost (buildRecordsAndAssignOffsets,
            convertAndAssignOffsetsNonCompressed)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkarec._verbs import stamp_messages, writable_view
from kafkarec.format import layout
from kafkarec.format.enums import TimestampType
from kafkarec.format.java_integers import wrapped
from kafkarec.ops.validate.batch_rules import FirstBatch, check_rewrite
from kafkarec.ops.validate.result import ValidatedRecords, validated
from kafkarec.ops.validate.topic_rules import Rules
from kafkarec.ops.validate.validation_errors import refuse
from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader
from kafkarec.write.stamping import stamp

_COLUMNS = ("timestamp", "key", "value", "headers")


class RecordStats(NamedTuple):
    """Statistics of all records from the scan: timestamps in ms.

    unfit: a record that cannot be written in the wanted magic comes before the first one that is refused
    """

    records: int
    in_order: bool
    least: int
    greatest: int
    headers: int
    unfit: bool


class ProduceRequest(NamedTuple):
    """An accepted request. `payload`: the decompressed records of a batch of magic 2; None for magic 0 and 1."""

    view: memoryview
    first: FirstBatch
    payload: Any
    stats: RecordStats
    rules: Rules

    @property
    def next_offset(self) -> int:
        return wrapped(self.rules.first_offset + self.stats.records, 64)

    def result(self, data: bytes | memoryview, max_timestamp: int, *, rewritten: bool = False) -> ValidatedRecords:
        return validated(
            data,
            now=self.rules.now,
            max_timestamp=max_timestamp,
            next_offset=self.next_offset,
            size_changed=rewritten,
            records_converted=self.stats.records if rewritten else 0,
        )


def accept_uncompressed(request: ProduceRequest) -> ValidatedRecords:
    """Uncompressed batches of the wanted magic (LogValidator.assignOffsetsNonCompressed)."""
    rules, magic = request.rules, request.first.magic
    max_timestamp = request.stats.greatest
    if not rules.create_time:
        max_timestamp = rules.now if magic > 0 else -1
    result = request.result(request.view, max_timestamp)
    if magic >= layout.BATCH_MAGIC:
        _stamp_batch(result, request, leader_epoch=True, times=True)
    else:
        stamp_messages(writable_view(result), rules.first_offset, rules.timestamp_type, rules.now)
    return result


def stamped(request: ProduceRequest) -> ValidatedRecords:
    """A compressed batch that keeps its codec, or a control batch that comes uncompressed and stays so."""
    rules = request.rules
    greatest = request.stats.greatest if rules.magic > 0 else -1
    max_timestamp = greatest if rules.create_time else rules.now
    result = request.result(request.view, max_timestamp)
    _stamp_batch(result, request, leader_epoch=rules.magic >= layout.BATCH_MAGIC, times=rules.magic > 0)
    return result


def _stamp_batch(result: ValidatedRecords, request: ProduceRequest, *, leader_epoch: bool, times: bool) -> None:
    rules = request.rules
    stamp(
        writable_view(result),
        last_offset=wrapped(request.next_offset - 1, 64),
        partition_leader_epoch=rules.leader_epoch if leader_epoch else None,
        timestamp_type=TimestampType(rules.timestamp_type) if times else None,
        max_timestamp=(request.stats.greatest if rules.create_time else rules.now) if times else None,
    )


def rewritten(request: ProduceRequest) -> ValidatedRecords:
    """The records rewritten in the wanted magic and codec."""
    rules, first, stats = request.rules, request.first, request.stats
    check_rewrite(first, rules, stats.headers, stats.least)
    max_timestamp = (stats.greatest if rules.magic > 0 else -1) if rules.create_time else rules.now
    data = b""
    if stats.records:
        data = _write(request)
    elif not rules.create_time and (rules.codec or rules.magic >= layout.BATCH_MAGIC):
        refuse("record_count_invalid", expected=1, found=0, detail="under log append time")
    return request.result(data, max_timestamp, rewritten=True)


def rows(request: ProduceRequest) -> RecordColumns:
    """The decoded records for the new batch; raises the errors of a full decode."""
    return decode(
        request.view if request.payload is None else _plain(request),
        columns=_COLUMNS,
        control=True,
        check_crcs=False,
        max_decompressed_bytes=request.rules.limit,
        timestamp_unit="int64",
        header_keys="binary",
    )


def _write(request: ProduceRequest) -> bytes:
    rules, first = request.rules, request.first
    header = BatchHeader(
        magic=rules.magic,
        codec=rules.codec,
        level=rules.level,
        timestamp_type=rules.timestamp_type,
        base_offset=rules.first_offset,
        partition_leader_epoch=rules.leader_epoch,
        log_append_time=rules.now,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        is_transactional=first.is_transactional,
    )
    return record_input_of(rows(request)).write(header)


def _plain(request: ProduceRequest) -> Any:
    """The batch with the codec removed and the payload that is already decompressed."""
    if not request.first.codec:
        return request.view
    return bytes(layout.header_for_payload(request.view, len(request.payload), 0)) + request.payload
