"""Ranges of offsets and timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RecordRange(NamedTuple):
    """Offsets, and timestamps in ms: (first, end), the end exclusive; None: no bound."""

    offsets: tuple[int | None, int | None] | None = None
    times: tuple[int | None, int | None] | None = None

    @classmethod
    def of(
        cls,
        start_offset: int | None,
        end_offset: int | None,
        start_timestamp: int | datetime | None,
        end_timestamp: int | datetime | None,
    ) -> RecordRange:
        offsets = (_number("start_offset", start_offset), _number("end_offset", end_offset))
        times = (_ms("start_timestamp", start_timestamp), _ms("end_timestamp", end_timestamp))
        return cls(offsets if offsets != (None, None) else None, times if times != (None, None) else None)

    @property
    def first_offset(self) -> int | None:
        return self.offsets[0] if self.offsets else None

    @property
    def end_offset(self) -> int | None:
        return self.offsets[1] if self.offsets else None

    @property
    def start_timestamp(self) -> int | None:
        return self.times[0] if self.times else None


EVERYTHING = RecordRange()


def _number(name: str, value: int | None) -> int | None:
    if value is None or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    raise ValueError(f"{name} {value!r}: an offset (int64) or None")


def _ms(name: str, value: int | datetime | None) -> int | None:
    """Milliseconds since 1970 of an int or an aware datetime, rounded up, so that no earlier record is included."""
    if not isinstance(value, datetime):
        if value is None or (isinstance(value, int) and -(2**63) <= value < 2**63):
            return value
        raise ValueError(f"{name} {value!r}: milliseconds (int) or an aware datetime")
    if value.tzinfo is None:
        raise ValueError(f"{name} {value!r} has no time zone; set one, e.g. .replace(tzinfo=datetime.UTC)")
    return -((_EPOCH - value) // timedelta(milliseconds=1))
