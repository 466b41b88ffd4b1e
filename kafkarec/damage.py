"""Makes exceptions and Damage, with their messages, from the decoder's errors; both use `errors.REASONS`."""

from __future__ import annotations

import errno
import os
from typing import Any, NamedTuple

from .errors import REASONS, KafkaRecordError

_HEX = {"crc_mismatch", "inner_crc_mismatch"}


class Damage(NamedTuple):
    """A range of bytes without a good batch.

    file: str | None              the file, when one was read
    position, length: int         bytes [position, position + length) of the input
    lost_from, lost_to: int | None   offsets that may be lost: from the next offset of the last good batch to the base
                                  offset of the next one less 1 (an upper bound on compacted logs); None at the ends
    next_position: int            where reading went on
    reason: str                   a word of `errors.REASONS`
    detail: str                   the sentence an exception would carry
    """

    file: str | None
    position: int
    length: int
    lost_from: int | None
    lost_to: int | None
    next_position: int
    reason: str
    detail: str


def _number(reason: str, value: int) -> str:
    return f"0x{value & 0xFFFFFFFF:08x}" if reason in _HEX else str(value)


def sentence(reason: str, fault: dict[str, Any]) -> str:
    """One line: what, where, both sides. `fault` has position, base_offset, expected, found, record, detail, file."""
    entry = REASONS[reason]
    place = f"in {fault['file']} at byte" if fault.get("file") else "at byte"
    text = f"{entry.sentence} {place} {fault['position']}"
    if fault.get("base_offset") is not None:
        text += f" (base offset {fault['base_offset']})"
    if fault.get("record", -1) >= 0:
        text += f", record {fault['record']} of its batch"
    sides = []
    if entry.expected and fault.get("expected") is not None:
        sides.append(f"{entry.expected} {_number(reason, fault['expected'])}")
    if entry.found and fault.get("found") is not None:
        sides.append(f"{entry.found} {_number(reason, fault['found'])}")
    if fault.get("detail"):
        sides.append(fault["detail"])
    return f"{text}: {', '.join(sides)}" if sides else text


def why_unreadable(code: int) -> str:
    """What the system said of bytes that could not be read; 0: the file ended before the size it had when opened."""
    if not code:
        return "the file is shorter now than when it was opened"
    return _UNPACKING.get(code) or os.strerror(code).lower()


# What storage.wrapped answers where the .gz or .zst around a file ends too early; no disk answers so.
_UNPACKING = {
    errno.EPROTO: "the gzip or zstd data around the file is cut off, and this is where its content ends",
    errno.EILSEQ: "the gzip or zstd data around the file is corrupt, and this is where its content ends",
}


def error(reason: str, fault: dict[str, Any]) -> KafkaRecordError:
    """The exception for a fault."""
    two_sided = bool(REASONS[reason].expected)
    return REASONS[reason].error(
        sentence(reason, fault),
        reason=reason,
        position=fault["position"],
        base_offset=fault.get("base_offset"),
        next_position=fault.get("next_position"),
        expected=fault.get("expected") if two_sided else None,
        found=fault.get("found") if two_sided else None,
        file=fault.get("file"),
        record_errors=fault.get("record_errors"),
    )


def resolve(
    entries: list[tuple[Any, ...]], following: list[int | None], file: str | None, final: bool
) -> tuple[list[tuple[int, int, Damage]], list[tuple[Any, ...]]]:
    """What the decoder noted of damage, as ([(batch, record, Damage)], notes that wait).

    entries: (position, length, reason, fault, next offset of the last good batch, batch row, record row)
    following: the first offset of the batch behind each, None where there is none yet

    `batch` and `record` are the rows in front of which the damage lies. A note without a batch behind it waits for the
    next chunk's first one unless `final`.
    """
    ready, waiting = [], []
    for (position, length, reason, fault, lost_from, batch, record), offset in zip(entries, following, strict=True):
        if offset is None and not final:
            waiting.append((position, length, reason, fault, lost_from, 0, 0))
            continue
        lost_to = None if offset is None else offset - 1
        text = sentence(reason, fault)
        found = Damage(file, position, length, lost_from, lost_to, position + length, reason, text)
        ready.append((batch, record, found))
    return ready, waiting
