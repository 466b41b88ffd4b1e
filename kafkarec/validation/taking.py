"""A request that is taken: its batches stamped where they stand, or its records written anew.

    stamped    base or last offset, leader epoch, timestamp type and max timestamp: `writing/stamping.py`, and for plain
               messages the desk
    anew       one batch, message set or wrapper: decoded columns through the writing desk, offsets counted from the
               first one, producer fields kept, control and delete horizon flags lost (buildRecordsAndAssignOffsets,
               convertAndAssignOffsetsNonCompressed)
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kafkarec._validator import stamp_messages, unsealed
from kafkarec.enums import TimestampType
from kafkarec.reader import decode
from kafkarec.records import RecordColumns
from kafkarec.validation.batch import First, check_rewrite
from kafkarec.validation.refusals import refuse
from kafkarec.validation.result import RecordValidationStats, ValidatedRecords, validated
from kafkarec.validation.rules import Rules
from kafkarec.writing.fields import wrapped
from kafkarec.writing.header import BatchHeader
from kafkarec.writing.sheets import record_input_of
from kafkarec.writing.sizes import BATCH_OVERHEAD, batch_header_size
from kafkarec.writing.stamping import stamp

_COLUMNS = ("timestamp", "key", "value", "headers")
_ATTRIBUTES_LOW_AT, _CODEC_MASK = 22, 7


class Weight(NamedTuple):
    """All records, as the desk saw them: timestamps in ms, sizes in bytes.

    unfit: a record that cannot be written in the wanted magic stands before the first that is refused
    """

    records: int
    in_order: bool
    least: int
    greatest: int
    size: int
    rewritten: int
    headers: int
    unfit: bool


class Request(NamedTuple):
    """What is to be taken. `payload`: the records of a batch of magic 2, decompressed; None below it."""

    view: memoryview
    first: First
    batches: int
    payload: Any
    weight: Weight
    rules: Rules

    @property
    def next_offset(self) -> int:
        return wrapped(self.rules.first_offset + self.weight.records, 64)

    @property
    def header_bytes(self) -> int:
        """Of the batches as they came, counted as of the wanted magic."""
        return self.batches * batch_header_size(self.rules.magic, self.first.codec)

    def taken(
        self, data: bytes | memoryview, max_timestamp: int, stats: RecordValidationStats, *, anew: bool = False
    ) -> ValidatedRecords:
        return validated(
            data,
            now=self.rules.now,
            max_timestamp=max_timestamp,
            next_offset=self.next_offset,
            size_changed=anew,
            stats=stats,
        )


def stamped_plain(request: Request) -> ValidatedRecords:
    """Uncompressed batches of the wanted magic (LogValidator.assignOffsetsNonCompressed)."""
    rules, magic = request.rules, request.first.magic
    max_timestamp = request.weight.greatest
    if not rules.create_time:
        max_timestamp = rules.now if magic > 0 else -1
    taken = request.taken(request.view, max_timestamp, RecordValidationStats())
    if magic == 2:
        _stamp_batch(taken, request, leader_epoch=True, times=True)
    else:
        stamp_messages(unsealed(taken), rules.first_offset, rules.timestamp_type, rules.now)
    return taken


def stamped(request: Request) -> ValidatedRecords:
    """A compressed batch that keeps its codec, or a control batch that comes uncompressed and stays so."""
    rules = request.rules
    memory = wrapped(request.weight.size + request.header_bytes, 32)
    greatest = request.weight.greatest if rules.magic > 0 else -1
    max_timestamp = greatest if rules.create_time else rules.now
    taken = request.taken(request.view, max_timestamp, RecordValidationStats(memory))
    _stamp_batch(taken, request, leader_epoch=rules.magic == 2, times=rules.magic > 0)
    return taken


def _stamp_batch(taken: ValidatedRecords, request: Request, *, leader_epoch: bool, times: bool) -> None:
    rules = request.rules
    stamp(
        unsealed(taken),
        last_offset=wrapped(request.next_offset - 1, 64),
        partition_leader_epoch=rules.leader_epoch if leader_epoch else None,
        timestamp_type=TimestampType(rules.timestamp_type) if times else None,
        max_timestamp=(request.weight.greatest if rules.create_time else rules.now) if times else None,
    )


def written_anew(request: Request) -> ValidatedRecords:
    """The records in the wanted magic and codec."""
    start = time.perf_counter_ns()
    rules, first, weight = request.rules, request.first, request.weight
    check_rewrite(first, rules, weight.headers, weight.least)
    max_timestamp = (weight.greatest if rules.magic > 0 else -1) if rules.create_time else rules.now
    data = b""
    if weight.records:
        data = _write(request)
    elif not rules.create_time and (rules.codec or rules.magic == 2):
        refuse("record_count_invalid", expected=1, found=0, detail="under log append time")
    memory = weight.rewritten + batch_header_size(rules.magic, rules.codec)
    if first.codec or rules.codec:
        memory += weight.size + request.header_bytes
    stats = RecordValidationStats(wrapped(memory, 32), weight.records, time.perf_counter_ns() - start)
    return request.taken(data, max_timestamp, stats, anew=True)


def rows(request: Request) -> RecordColumns:
    """What of the records goes into the new batch; whoever asks for it has them read whole, errors and all."""
    return decode(
        request.view if request.payload is None else _plain(request),
        columns=_COLUMNS,
        control=True,
        check_crcs=False,
        max_decompressed_bytes=request.rules.limit,
        timestamp_unit="int64",
        header_keys="binary",
    )


def _write(request: Request) -> bytes:
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


def _plain(request: Request) -> Any:
    """The batch of magic 2 as if it had come uncompressed: what is decompressed already is not decompressed again."""
    if not request.first.codec:
        return request.view
    data = bytearray(request.view[:BATCH_OVERHEAD])
    data += request.payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[_ATTRIBUTES_LOW_AT] &= ~_CODEC_MASK & 0xFF
    return data
