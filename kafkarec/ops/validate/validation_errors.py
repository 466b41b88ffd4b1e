"""The errors of refused requests, for batches and for single records (RecordValidationException)."""

from __future__ import annotations

from typing import Any, NoReturn

from kafkarec.damage import error
from kafkarec.format.java_integers import wrapped
from kafkarec.ops.validate.result import RecordError
from kafkarec.ops.validate.topic_rules import Rules

OTHER_MAGIC, NO_KEY, OUT_OF_RANGE, APPEND_TIME = 1, 2, 3, 4  # the C enum RecordError of `_c/record_stats.pxd`


def refuse(reason: str, *, position: int = 0, base_offset: int | None = None, **sides: Any) -> NoReturn:
    """sides: expected, found, next_position, detail"""
    raise error(reason, {"position": position, "base_offset": base_offset, **sides})


def refuse_records(
    wrong: tuple[int, bool, list[tuple[int, int, int, int, int]]], batch: tuple[int, int, int], magic: int, rules: Rules
) -> NoReturn:
    """`wrong`: from `_verbs.Request.refused`; `batch`: position, base offset and next position of the batch."""
    count, of_time, notes = wrong
    errors = tuple(RecordError(index, _why(what, magic, rules, *rest)) for index, what, *rest in notes)
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


def _why(what: int, magic: int, rules: Rules, timestamp: int, offset: int, own_magic: int) -> str:
    if what == OTHER_MAGIC:
        return f"its magic {own_magic} is not the outer magic {magic}"
    if what == NO_KEY:
        return "it has no key, and the topic is compacted"
    if what == APPEND_TIME:
        return "its timestamp type is log append time, which a producer does not set"
    least, most = wrapped(rules.now - rules.before_ms, 64), wrapped(rules.now + rules.after_ms, 64)
    return f"timestamp {timestamp} of offset {offset} is out of range: from {least} to {most}"
