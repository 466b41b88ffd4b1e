"""validate: a produce request through the checks of a broker, to the bytes that go into its log."""

from __future__ import annotations

from typing import Any

from kafkarec import _validator, codecs
from kafkarec.enums import Compression, TimestampType
from kafkarec.validation.batch import First, check, check_magic, first_of
from kafkarec.validation.refusals import refuse, refuse_records
from kafkarec.validation.result import ValidatedRecords, validated
from kafkarec.validation.rules import NO_LIMIT, Rules, checked_origin, wanted
from kafkarec.validation.taking import Request, Weight, rows, stamped, stamped_plain, written_anew


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
    assign_offsets: bool = True,
    max_decompressed_bytes: int = 128 << 20,
) -> ValidatedRecords:
    """What a broker does to a produce request: checks it, gives its records their offsets, and writes it anew where the
    topic wants another codec or magic. Follows Kafka 4.3's LogValidator.

    data: the records: one batch of magic 2, or messages of magic 0 or 1. A cut one at the end is left out
    first_offset: of the first record in the log
    magic: of the batches in the log; None: as they come. A broker of today wants 2
    compression, level: the topic's compression.type; None or "producer": as the records come
    timestamp_type: the topic's message.timestamp.type
    timestamp_before_max_ms, timestamp_after_max_ms: how far from `now` create times may be; None: as far as they like
        (a broker's own settings are no limit before, and 3 600 000 ms after)
    compacted: records need a key
    partition_leader_epoch: is stamped on batches of magic 2
    origin: "client", "replication", "coordinator" or "raft_leader": others than clients may write control batches
    now: ms, the broker's clock; None: this machine's
    check_crcs: of every batch; those of inner messages are always checked
    append_checks, max_message_bytes: what the log checks around LogValidator (UnifiedLog.analyzeAndValidateRecords): a
        client's batch begins at offset 0, a raft leader's has its epoch; no batch is larger
    assign_offsets: False is a follower's append: offsets stay and must increase, from `first_offset` on; no record is
        looked at

    InvalidRecordError and CorruptRecordError where a broker refuses; `.record_errors` lists single records, the first
    10 000 of them.
    LimitExceededError above max_decompressed_bytes, ValueError for options that do not fit. Header keys that are not
    UTF-8 are copied as they are.
    """
    wishes = wanted(
        magic=magic,
        compression=compression,
        level=level,
        timestamp_type=timestamp_type,
        timestamp_before_max_ms=timestamp_before_max_ms,
        timestamp_after_max_ms=timestamp_after_max_ms,
        compacted=compacted,
        partition_leader_epoch=partition_leader_epoch,
        origin=origin,
        now=now,
        first_offset=first_offset,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    request = _validator.Request(
        view,
        check_crcs=bool(check_crcs),
        from_zero=append_checks and checked_origin(origin) == "client",
        rising=not assign_offsets,
        leader_epoch=partition_leader_epoch if append_checks and checked_origin(origin) == "raft_leader" else None,
        most_bytes=NO_LIMIT if max_message_bytes is None else max_message_bytes,
    )
    if not assign_offsets:
        return _later_segment(view, request, wishes.rest)
    first = first_of(request)
    rules = wishes.of(first.magic, request.codec)
    check(first, rules)
    return _weighed(view, request, first, rules)


def _later_segment(view: memoryview, request: _validator.Request, rules: Rules) -> ValidatedRecords:
    """Batches as they are, behind `first_offset` (UnifiedLog.appendAsFollower)."""
    if request.batches:
        first = First(*request.first)
        begin = first.base_offset if first.magic == 2 else first.last_offset
        if begin < rules.first_offset:
            refuse("offsets_out_of_order", base_offset=first.base_offset, expected=rules.first_offset - 1, found=begin)
    return validated(
        view[: request.end],
        now=-1,
        max_timestamp=request.max_timestamp,
        next_offset=request.last_offset + 1 if request.batches else rules.first_offset,
    )


def _weighed(view: memoryview, batches: _validator.Request, first: First, rules: Rules) -> ValidatedRecords:
    """Sees the records, then takes them (validateMessagesAndAssignOffsets)."""
    plain = first.codec == rules.codec == 0
    stays = first.codec == rules.codec and first.magic == rules.magic and batches.one_magic
    if not plain:
        # offsets of magic 0 lie inside of what is compressed; control batches are never compressed by a broker
        stays = (stays and rules.magic > 0) or (first.codec == 0 and first.is_control)
    payload = _records(view, batches, first, rules, stays)
    place = batches.weigh(payload, rules, stays and first.codec > 0, rules.limit)
    weight = Weight(*batches.weight)
    kept = payload if first.magic == 2 else None
    request = Request(view[: batches.end], first, batches.batches, kept, weight, rules)
    converts = plain and not stays
    wrong = batches.refused()
    if wrong[0] and converts:
        rows(request)  # Kafka reads all records to know how large the result will be
    if wrong[0] and not (converts and weight.unfit):  # and writes each of them as soon as it has seen it
        refuse_records(wrong, place, first.magic, rules)
    check_magic(batches, first)
    if plain and stays:
        return stamped_plain(request)
    if stays and (weight.in_order or rules.magic == 0):
        return stamped(request)
    if stays and first.codec and first.magic == 2:
        # Kafka would write it anew, and fails: of records that it stepped over it has neither key nor value
        told = "they do not count up from 0 in a compressed batch that keeps its codec"
        refuse("offsets_out_of_order", base_offset=first.base_offset, next_position=first.size, detail=told)
    return written_anew(request)


def _records(view: memoryview, batches: _validator.Request, first: First, rules: Rules, stays: bool) -> Any:
    """The bytes of the records of the one batch, decompressed; None for plain messages."""
    if first.magic < 2 and not first.codec:
        return None
    if first.magic < 2 and codecs.CODECS[first.codec].name == "zstd":
        _refuse_payload(first, "unsupported_codec", expected=3, found=first.codec)
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
        _refuse_payload(first, "missing_codec", detail=str(missing))
    except codecs.LimitReached as reached:
        told = f"max_decompressed_bytes={rules.limit} can be raised ({reached.detail})"
        _refuse_payload(first, "limit_exceeded", expected=rules.limit, found=rules.limit, detail=told)
    except codecs.CodecError as error:
        _refuse_payload(first, "payload_corrupt", detail=f"{codecs.CODECS[first.codec].name}: {error.detail}")


def _refuse_payload(first: First, reason: str, **sides: Any) -> None:
    refuse(reason, base_offset=first.base_offset, next_position=first.size, **sides)
