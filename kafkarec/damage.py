"""Creates exceptions and Damage, with their messages, from the decoder's errors. Both use `errors.REASONS`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .errors import REASONS, KafkaRecordError, LimitExceededError, MissingCodecError, PackedFileError
from .support.text_table import lost_offsets


class _DamageFields(NamedTuple):
    file: str | None
    position: int
    length: int
    lost_from: int | None
    lost_to: int | None
    next_position: int
    reason: str
    detail: str


class Damage(_DamageFields):
    """A range of bytes without a good batch. A tuple of these fields:

    file: str | None              the file, if one was read
    position, length: int         bytes [position, position + length) of the input
    lost_from, lost_to: int | None   offsets that may be lost: from the next offset of the last good batch to the base
                                  offset of the next one less 1 (an upper bound on compacted logs; below lost_from
                                  where the next one has lower offsets); None at the ends
    next_position: int            the position where reading went on
    reason: str                   a key of `errors.REASONS`
    detail: str                   the message that an exception would have

    Attributes that are not part of the tuple: expected, found, cause, as of `KafkaRecordError`.
    """

    expected: int | None = None
    found: int | None = None
    cause: str | None = None

    def with_values(self, expected: int | None, found: int | None, cause: str | None) -> Damage:
        """Sets these attributes of a new Damage and returns it."""
        self.expected, self.found, self.cause = expected, found, cause
        return self

    def as_dict(self) -> dict[str, Any]:
        """The fields and attributes, for JSON."""
        return self._asdict() | {"expected": self.expected, "found": self.found, "cause": self.cause}

    def _replace(self, **changes: Any) -> Damage:
        return Damage(*super()._replace(**changes)).with_values(self.expected, self.found, self.cause)


class UndecidedTransaction(NamedTuple):
    """A transaction whose marker may be lost in damage, so that it is not known how it ended. read_committed leaves it
    out.

    producer_id, producer_epoch: int   of its last data
    first_offset, last_offset: int     of its data before the damage
    lost_from, lost_to: int            the offsets in which the marker may be
    why: str                           one sentence
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    lost_from: int
    lost_to: int | None
    why: str

    def __str__(self) -> str:
        offsets, lost = f"offsets {self.first_offset} to {self.last_offset}", lost_offsets(self.lost_from, self.lost_to)
        why = f"its marker may be in the damage ({lost}): {self.why}"
        return f"the transaction of producer {self.producer_id}, {offsets}, is left out: {why}"


def restored_text(fields: Mapping[str, tuple[int, int]], proof: str) -> str:
    """`base offset is 0, not 16777216: proven by the checksum`. fields: name -> (stored value, used value)."""
    values = (f"{name.replace('_', ' ')} is {used}, not {stored}" for name, (stored, used) in fields.items())
    return f"{', '.join(values)}: proven by {proof}"


class Restored(NamedTuple):
    """A batch in whose first 17 bytes, which no checksum covers, fields were restored.

    file: str | None              the file, if one was read
    position: int                 where the batch begins
    fields: dict                  name of a batch column -> (stored value, used value)
    evidence: str                 what proves the used values
    """

    file: str | None
    position: int
    fields: dict[str, tuple[int, int]]
    evidence: str

    @classmethod
    def of(cls, file: str | None, position: int, changes: Mapping[str, tuple[int, int, str]]) -> Restored:
        """From field -> (stored value, used value, evidence)."""
        reasons = dict.fromkeys(evidence for _, _, evidence in changes.values())
        fields = {name: (stored, used) for name, (stored, used, _) in changes.items()}
        return cls(file, position, fields, "; ".join(reasons))

    def __str__(self) -> str:
        return restored_text(self.fields, self.evidence)

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        fields = {name: {"stored": stored, "used": used} for name, (stored, used) in self.fields.items()}
        return self._asdict() | {"fields": fields}


def message(reason: str, fault: dict[str, Any]) -> str:
    """The message: the reason's sentence, the place, the expected and the found value. `fault` has the keys position,
    base_offset, expected, found, record, detail and file."""
    entry = REASONS[reason]
    place = f"in {fault['file']} at byte" if fault.get("file") else "at byte"
    text = f"{entry.sentence} {place} {fault['position']}"
    if fault.get("base_offset") is not None:
        text += f" (base offset {fault['base_offset']})"
    record = fault.get("record")
    if record is not None and record >= 0:
        text += f", record {record} of its batch"
    sides = comparison_text(reason, fault)
    return f"{text}: {sides}" if sides else text


def comparison_text(reason: str, fault: Mapping[str, Any]) -> str:
    """The end of the message: the expected and the found value, and the detail; empty: there are none. `fault` has the
    keys expected, found and detail."""
    entry = REASONS[reason]
    sides = []
    for word, value in ((entry.expected, fault.get("expected")), (entry.found, fault.get("found"))):
        if word and value is not None:
            sides.append(f"{word} 0x{value & 0xFFFFFFFF:08x}" if entry.in_hexadecimal else f"{word} {value}")
    if fault.get("detail"):
        sides.append(fault["detail"])
    return ", ".join(sides)


def why_unreadable(code: int) -> str:
    """The text for bytes that could not be read. code: an errno; 0: the file ended before the size that it had when it
    was opened; below 0: the cause of a PackedFileError."""
    if not code:
        return "the file is shorter now than when it was opened"
    return _PACKED_FILE_CAUSES[code] if code < 0 else os.strerror(code).lower()


def begins_with_zeros(reason: str, found: int | None) -> bool:
    """Whether damage is zeros where a batch should begin: a page that was never written, or wiped."""
    return reason == "size_too_small" and found == 0


def is_unchecked(reason: str) -> bool:
    """Whether the reason is a limit or a missing library, which is no damage."""
    return issubclass(REASONS[reason].error, LimitExceededError | MissingCodecError)


def is_read_failure(damage: Damage) -> bool:
    """Whether there may be more than was found: bytes could not be read, on a failing disk or behind a file server, or
    were not searched to the end."""
    unreadable = damage.reason == "unreadable" and damage.cause not in _PACKED_FILE_CAUSES.values()
    return unreadable or damage.reason == "search_limit"


_PACKED_FILE_CAUSES = {
    PackedFileError.CUT_OFF: "the gzip or zstd file is cut off, and its content ends here",
    PackedFileError.CORRUPT: "the gzip or zstd file is corrupt, and its readable content ends here",
}


def error(reason: str, fault: dict[str, Any]) -> KafkaRecordError:
    """The exception for a fault."""
    record = fault.get("record")
    return REASONS[reason].error(
        message(reason, fault),
        reason=reason,
        position=fault["position"],
        base_offset=fault.get("base_offset"),
        next_position=fault.get("next_position"),
        record=record if record is not None and record >= 0 else None,
        **_compared_values(reason, fault),
        file=fault.get("file"),
        record_errors=fault.get("record_errors"),
    )


def _compared_values(reason: str, fault: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an error and a Damage have of a fault: expected, found, cause."""
    values = {name: fault.get(name) if REASONS[reason].expected else None for name in ("expected", "found")}
    return values | {"cause": fault.get("detail") or None}


def damage_from_fault(
    file: str | None,
    position: int,
    length: int,
    lost_from: int | None,
    lost_to: int | None,
    reason: str,
    fault: dict[str, Any],
) -> Damage:
    """The Damage for a fault."""
    text = message(reason, fault)
    damage = Damage(file, position, length, lost_from, lost_to, position + length, reason, text)
    return damage.with_values(**_compared_values(reason, fault))


def relocated(one: KafkaRecordError, *, position: int, file: str | None) -> KafkaRecordError:
    """An error of bytes that were decoded alone, as the error of the file in which they begin at `position`."""
    fault: dict[str, Any] = {name: getattr(one, name) for name in ("base_offset", "expected", "found", "record")}
    fault |= {"detail": one.cause, "position": position, "file": file}
    if one.next_position is not None and one.position is not None:
        fault["next_position"] = one.next_position - one.position + position
    return error(str(one.reason), fault)


def damage_from_entries(
    entries: list[tuple[Any, ...]], following: list[int | None], file: str | None, final: bool
) -> tuple[list[tuple[int, int, Damage]], list[tuple[Any, ...]]]:
    """Converts the decoder's damage entries to ([(batch row, record row, Damage)], waiting entries).

    entries: (position, length, reason, fault, next offset of the last good batch, batch row, record row)
    following: the first offset of the batch after each entry; None: there is none yet

    The batch row and record row are those before which the damage is. An entry without a batch after it waits for the
    first batch of the next chunk, unless `final`.
    """
    ready, waiting = [], []
    for (position, length, reason, fault, lost_from, batch, record), offset in zip(entries, following, strict=True):
        if offset is None and not final:
            waiting.append((position, length, reason, fault, lost_from, 0, 0))
            continue
        lost_to = None if offset is None else offset - 1
        damage = damage_from_fault(file, position, length, lost_from, lost_to, reason, fault)
        ready.append((batch, record, damage))
    return ready, waiting
