"""validate: the checks of a broker on a produce request, and the bytes that it appends to its log.

in place    base or last offset, leader epoch, timestamp type and max timestamp are set by `write/stamping.py`;
            plain messages are written by the writer
rewritten   one batch, message set or wrapper is written from the decoded columns: offsets count up from the first
            one, producer fields are kept, control and delete horizon flags are lost (buildRecordsAndAssignOffsets,
            convertAndAssignOffsetsNonCompressed)
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._verbs import RequestCheck, stamp_messages, writable_view
from kafkarec.codecs import checked_level
from kafkarec.format import layout
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.read.decode_options import checked_bytes, checked_limit, checked_record_limit
from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader, checked_int, checked_magic
from kafkarec.write.stamping import stamp

from .rules import (
    ORIGINS,
    FirstBatch,
    RecordValidationStats,
    Rules,
    ValidatedRecords,
    check_batch,
    check_rewrite,
    checked_most,
    refuse,
    refuse_records,
    validated,
)

_COLUMNS = ("timestamp", "key", "value", "headers")


class RecordSummary(NamedTuple):
    """What the scan found of all records: timestamps in ms.

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
    summary: RecordSummary
    rules: Rules

    @property
    def next_offset(self) -> int:
        return wrapped(self.rules.first_offset + self.summary.records, 64)


def stamp_in_place(request: ProduceRequest) -> ValidatedRecords:
    """Batches that keep their magic and codec, or a control batch that comes uncompressed and stays so
    (LogValidator.assignOffsetsNonCompressed, or the end of validateMessagesAndAssignOffsetsCompressed)."""
    rules, first = request.rules, request.first
    is_plain = first.magic < BATCH_MAGIC and not first.codec
    has_times = rules.magic > 0
    max_timestamp = request.summary.greatest if has_times or is_plain else -1
    if not rules.create_time:
        max_timestamp = rules.now if has_times or not is_plain else -1
    result = validated(request.view, rules.now, max_timestamp, request.next_offset)
    if is_plain:
        stamp_messages(writable_view(result), rules.first_offset, rules.timestamp_type, rules.now)
    else:
        stamp(
            writable_view(result),
            last_offset=wrapped(request.next_offset - 1, 64),
            partition_leader_epoch=rules.leader_epoch if rules.magic >= BATCH_MAGIC else None,
            timestamp_type=TimestampType(rules.timestamp_type) if has_times else None,
            max_timestamp=(request.summary.greatest if rules.create_time else rules.now) if has_times else None,
        )
    return result


def rewrite_batch(request: ProduceRequest) -> ValidatedRecords:
    """The records rewritten in the wanted magic and codec."""
    rules, first, summary = request.rules, request.first, request.summary
    check_rewrite(first, rules, summary.headers, summary.least)
    max_timestamp = (summary.greatest if rules.magic > 0 else -1) if rules.create_time else rules.now
    data = b""
    if summary.records:
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
        data = record_input_of(decoded_records(request)).write(header)
    elif not rules.create_time and (rules.codec or rules.magic >= layout.BATCH_MAGIC):
        refuse("record_count_invalid", expected=1, found=0, detail="under log append time")
    result = validated(data, rules.now, max_timestamp, request.next_offset)
    result.size_changed, result.stats = True, RecordValidationStats(summary.records)
    return result


def decoded_records(request: ProduceRequest) -> RecordColumns:
    """The decoded records for the new batch; raises the errors of a full decode."""
    data: Any = request.view
    if request.payload is not None and request.first.codec:  # it is already decompressed
        data = bytes(layout.header_for_payload(data, len(request.payload), 0)) + request.payload
    return decode(
        data,
        columns=_COLUMNS,
        control=True,
        check_crcs=False,
        max_decompressed_bytes=request.rules.limit,
        timestamp_unit="int64",
        header_keys="binary",
    )


def validate(
    data: Any,
    *,
    first_offset: int = 0,
    magic: int | None = None,
    compression: Compression | str | None = None,
    level: int | None = None,
    timestamp_type: TimestampType | str = "create_time",
    timestamp_before_max_ms: int | None = None,
    timestamp_after_max_ms: int | None = None,
    compacted: bool = False,
    partition_leader_epoch: int = -1,
    origin: str = "client",
    now: int | None = None,
    check_crcs: bool = True,
    append_checks: bool = False,
    max_message_bytes: int | None = None,
    max_decompressed_message_bytes: int | None = None,
    assign_offsets: bool = True,
    max_decompressed_bytes: int = 128 << 20,
) -> ValidatedRecords:
    """What a broker does to a produce request: checks it, assigns offsets to its records, and rewrites it if the topic
    has another codec or magic. Follows Kafka 4.4's LogValidator.

    data: one batch of magic 2, or messages of magic 0 or 1; an incomplete one at the end is left out
    first_offset: of the first record in the log
    magic: of the batches in the log, 2 for a current broker; None: that of the request
    compression, level: the topic's compression.type; None or "producer": that of the request
    timestamp_type: the topic's message.timestamp.type
    timestamp_before_max_ms, timestamp_after_max_ms: how far create times may be from `now`; None: no limit (a broker's
        defaults are no limit before, and 3 600 000 ms after)
    compacted: records need a key
    partition_leader_epoch: set in batches of magic 2
    origin: "client", "replication", "coordinator" or "raft_leader": only clients must not write control batches
    now: ms, the broker's clock; None: this machine's
    check_crcs: of every batch; those of inner messages are always checked
    append_checks, max_message_bytes: the log's own checks (UnifiedLog.analyzeAndValidateRecords): a client's batch has
        base offset 0, a raft leader's has its epoch, no batch is larger than max_message_bytes
    max_decompressed_message_bytes: the topic's max.decompressed.message.bytes, 1 to 2^31-9: the largest record in a
        compressed batch, without its length (in magic 0 and 1 without its offset and size); None: 2^31-9
    assign_offsets: False is a follower's append: offsets are kept and must ascend from `first_offset` on; records are
        not read

    InvalidRecordError and CorruptRecordError if a broker refuses the request; `.record_errors` lists the refused
    records, at most 10 000. LimitExceededError above max_decompressed_bytes, ValueError for invalid options. Header
    keys that are not UTF-8 are copied unchanged.
    """
    topic_codec = None if compression in (None, "producer") else int(Compression.of(compression))
    if topic_codec is not None:
        checked_level(topic_codec, level)
    sender = origin.lower() if isinstance(origin, str) else origin  # Kafka's spelling is accepted, too
    if sender not in ORIGINS:
        raise ValueError(f"origin {origin!r}: one of {', '.join(ORIGINS)}")
    rules = Rules(
        magic=2 if magic is None else checked_magic(magic),
        codec=0,
        level=None,
        create_time=TimestampType.of(timestamp_type) is TimestampType.CREATE_TIME,
        compacted=bool(compacted),
        before_ms=checked_most("timestamp_before_max_ms", timestamp_before_max_ms),
        after_ms=checked_most("timestamp_after_max_ms", timestamp_after_max_ms),
        leader_epoch=checked_int("partition_leader_epoch", partition_leader_epoch, 32),
        from_client=sender == "client",
        now=time.time_ns() // 1_000_000 if now is None else checked_int("now", now, 64),
        first_offset=checked_int("first_offset", first_offset, 64),
        limit=checked_limit(max_decompressed_bytes),
        most_body=checked_record_limit(max_decompressed_message_bytes),
    )
    view = checked_bytes(data)
    request = RequestCheck(
        view,
        check_crcs=bool(check_crcs),
        from_zero=append_checks and sender == "client",
        rising=not assign_offsets,
        leader_epoch=partition_leader_epoch if append_checks and sender == "raft_leader" else None,
        most_bytes=checked_most("max_message_bytes", max_message_bytes),
    )
    first = FirstBatch(*request.first_batch) if request.batches else None
    if not assign_offsets:  # unchanged batches from the first offset on (UnifiedLog.appendAsFollower)
        next_offset = rules.first_offset
        if first:
            begin = first.base_offset if first.magic >= BATCH_MAGIC else first.last_offset
            if begin < next_offset:
                refuse("offsets_out_of_order", base_offset=first.base_offset, expected=next_offset - 1, found=begin)
            next_offset = request.last_offset + 1
        return validated(view[: request.end], -1, request.max_timestamp, next_offset)
    if first is None:
        refuse("request_empty")
    if request.batches > 1 and (first.magic >= BATCH_MAGIC or request.codec):
        refuse("batch_not_alone", position=first.size)
    codec = request.codec if topic_codec is None else topic_codec
    rules = rules._replace(
        magic=first.magic if magic is None else magic,
        codec=codec,
        level=None if level is None else checked_level(codec, level),
    )
    check_batch(first, rules)
    return _validate_and_assign_offsets(view, request, first, rules)


def _validate_and_assign_offsets(
    view: memoryview, request: RequestCheck, first: FirstBatch, rules: Rules
) -> ValidatedRecords:
    """Checks the records, in Kafka's order, and assigns their offsets (LogValidator.validateMessagesAndAssignOffsets).

    first, rules: the first batch, checked, and the rules with the magic and codec of the batches in the log
    """
    plain = first.codec == rules.codec == 0
    stays = first.codec == rules.codec and first.magic == rules.magic and request.one_magic
    if not plain:
        # inner offsets of magic 0 are absolute, so it is rewritten; control batches are never compressed by a broker
        stays = (stays and rules.magic > 0) or (first.codec == 0 and first.is_control)
    payload = _decompressed_records(view, request, first, rules, stays)
    place = request.scan_records(payload, rules, stays and first.codec > 0, rules.limit)
    summary = RecordSummary(*request.summary)
    kept = payload if first.magic >= BATCH_MAGIC else None
    accepted = ProduceRequest(view[: request.end], first, kept, summary, rules)
    converts = plain and not stays
    wrong = request.refused_records()
    if wrong[0] and converts:
        decoded_records(accepted)  # Kafka reads all records first, for the size of the result
    if wrong[0] and not (converts and summary.unfit):  # then it writes each record right after checking it
        refuse_records(wrong, place, first.magic, rules)
    if not request.one_magic:  # Kafka scans the messages before it first
        refuse("batch_magic_differs", position=request.other_position, expected=first.magic, found=request.other_magic)
    if stays and (plain or summary.in_order or rules.magic == 0):
        return stamp_in_place(accepted)
    if stays and first.codec and first.magic >= BATCH_MAGIC:
        # Kafka would rewrite it and fails, as it has skipped keys and values of the records
        detail = "they do not count up from 0 in a compressed batch that keeps its codec"
        first.refuse("offsets_out_of_order", detail=detail)
    return rewrite_batch(accepted)


def _decompressed_records(view: memoryview, batches: RequestCheck, first: FirstBatch, rules: Rules, stays: bool) -> Any:
    """The decompressed records of the one batch; None for plain messages."""
    if first.magic < BATCH_MAGIC and not first.codec:
        return None
    known = LATEST_CODECS[first.magic]
    if first.codec > known:
        first.refuse("unsupported_codec", expected=known, found=first.codec)
    position, length = batches.payload()
    payload = view[position : position + length]
    if not first.codec:
        return payload
    try:
        if first.record_count == 0:
            if not stays:
                codecs.check_stream_start(first.codec, payload, rules.limit, first.magic)
            return b""
        return codecs.decompress(first.codec, payload, rules.limit, first.magic)
    except codecs.CodecError as refused:
        first.refuse(refused.reason, **refused.sides(rules.limit))
