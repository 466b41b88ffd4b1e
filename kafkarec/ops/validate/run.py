"""validate: the checks of a broker on a produce request, and the bytes that it appends to its log."""

from __future__ import annotations

import time
from typing import Any

from kafkarec import codecs
from kafkarec._verbs import Request
from kafkarec.codecs import checked_level
from kafkarec.format.enums import Compression, TimestampType
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.ops.validate.accepted_batches import (
    ProduceRequest,
    RecordStats,
    accept_uncompressed,
    rewritten,
    rows,
    stamped,
)
from kafkarec.ops.validate.batch_rules import FirstBatch, check, check_magic, first_of
from kafkarec.ops.validate.result import ValidatedRecords, validated
from kafkarec.ops.validate.topic_rules import NO_LIMIT, Rules, checked_origin, time_limit
from kafkarec.ops.validate.validation_errors import refuse, refuse_records
from kafkarec.read.decode_options import checked_bytes, checked_limit, checked_record_limit
from kafkarec.write.fields import checked_magic, fitting


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
    sender = checked_origin(origin)
    rules = Rules(
        magic=2 if magic is None else checked_magic(magic),
        codec=0,
        level=None,
        create_time=TimestampType.of(timestamp_type) is TimestampType.CREATE_TIME,
        compacted=bool(compacted),
        before_ms=time_limit("timestamp_before_max_ms", timestamp_before_max_ms),
        after_ms=time_limit("timestamp_after_max_ms", timestamp_after_max_ms),
        leader_epoch=fitting("partition_leader_epoch", partition_leader_epoch, 32),
        from_client=sender == "client",
        now=time.time_ns() // 1_000_000 if now is None else fitting("now", now, 64),
        first_offset=fitting("first_offset", first_offset, 64),
        limit=checked_limit(max_decompressed_bytes),
        most_body=checked_record_limit(max_decompressed_message_bytes),
    )
    view = checked_bytes(data)
    request = Request(
        view,
        check_crcs=bool(check_crcs),
        from_zero=append_checks and sender == "client",
        rising=not assign_offsets,
        leader_epoch=partition_leader_epoch if append_checks and sender == "raft_leader" else None,
        most_bytes=NO_LIMIT if max_message_bytes is None else fitting("max_message_bytes", max_message_bytes, 64),
    )
    if not assign_offsets:
        return _follower_append(view, request, rules)
    first = first_of(request)
    codec = request.codec if topic_codec is None else topic_codec
    rules = rules._replace(
        magic=first.magic if magic is None else magic,
        codec=codec,
        level=None if level is None else checked_level(codec, level),
    )
    check(first, rules)
    return _validate_records(view, request, first, rules)


def _follower_append(view: memoryview, request: Request, rules: Rules) -> ValidatedRecords:
    """A follower's append: unchanged batches from `first_offset` on (UnifiedLog.appendAsFollower)."""
    if request.batches:
        first = FirstBatch(*request.first)
        begin = first.base_offset if first.magic >= BATCH_MAGIC else first.last_offset
        if begin < rules.first_offset:
            refuse("offsets_out_of_order", base_offset=first.base_offset, expected=rules.first_offset - 1, found=begin)
    return validated(
        view[: request.end],
        now=-1,
        max_timestamp=request.max_timestamp,
        next_offset=request.last_offset + 1 if request.batches else rules.first_offset,
    )


def _validate_records(view: memoryview, batches: Request, first: FirstBatch, rules: Rules) -> ValidatedRecords:
    """Scans the records, then modifies or rewrites the batches (validateMessagesAndAssignOffsets)."""
    plain = first.codec == rules.codec == 0
    stays = first.codec == rules.codec and first.magic == rules.magic and batches.one_magic
    if not plain:
        # inner offsets of magic 0 are absolute, so it is rewritten; control batches are never compressed by a broker
        stays = (stays and rules.magic > 0) or (first.codec == 0 and first.is_control)
    payload = _records(view, batches, first, rules, stays)
    place = batches.scan_records(payload, rules, stays and first.codec > 0, rules.limit)
    stats = RecordStats(*batches.stats)
    kept = payload if first.magic >= BATCH_MAGIC else None
    request = ProduceRequest(view[: batches.end], first, kept, stats, rules)
    converts = plain and not stays
    wrong = batches.refused()
    if wrong[0] and converts:
        rows(request)  # Kafka reads all records first, for the size of the result
    if wrong[0] and not (converts and stats.unfit):  # then it writes each record right after checking it
        refuse_records(wrong, place, first.magic, rules)
    check_magic(batches, first)
    if plain and stays:
        return accept_uncompressed(request)
    if stays and (stats.in_order or rules.magic == 0):
        return stamped(request)
    if stays and first.codec and first.magic >= BATCH_MAGIC:
        # Kafka would rewrite it and fails, as it has skipped keys and values of the records
        detail = "they do not count up from 0 in a compressed batch that keeps its codec"
        first.refuse("offsets_out_of_order", detail=detail)
    return rewritten(request)


def _records(view: memoryview, batches: Request, first: FirstBatch, rules: Rules, stays: bool) -> Any:
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
                codecs.probe(first.codec, payload, rules.limit, first.magic)
            return b""
        return codecs.decompress(first.codec, payload, rules.limit, 0, first.magic)
    except codecs.MissingCodec as missing:
        first.refuse("missing_codec", detail=str(missing))
    except codecs.LimitReached as reached:
        detail = f"max_decompressed_bytes={rules.limit} can be raised ({reached.detail})"
        first.refuse("limit_exceeded", expected=rules.limit, found=rules.limit, detail=detail)
    except codecs.CodecError as error:
        first.refuse("payload_corrupt", detail=error.detail)
