"""Java's int and long arithmetic, which Kafka's offsets, timestamps and sequences follow: overflow wraps around."""

from __future__ import annotations

from contextlib import suppress
from operator import index
from typing import SupportsIndex

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def wrapped(value: int, bits: int) -> int:
    """Two's complement overflow to `bits`: 32 (int) or 64 (long)."""
    half = 1 << (bits - 1)
    return value if -half <= value < half else (value + half) % (half << 1) - half


def number_or_none(
    name: str, value: SupportsIndex | None, what: str, least: int = -LONG_MAX - 1, most: int = LONG_MAX
) -> int | None:
    """`value` as an int, also one of NumPy or pandas; None stays None. ValueError, which says `what` it has to be, for
    anything else than a whole number from `least` to `most`, and for True and False."""
    if value is None:
        return None
    with suppress(TypeError):
        if not isinstance(value, bool) and least <= (number := index(value)) <= most:
            return number
    raise ValueError(f"{name} {value!r}: {what}")


def increment_sequence(sequence: int, increment: int) -> int:
    """DefaultRecordBatch.incrementSequence: 0 follows 2^31-1."""
    if sequence > wrapped(INT_MAX - increment, 32):
        return wrapped(increment - (INT_MAX - sequence) - 1, 32)
    return wrapped(sequence + increment, 32)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """DefaultRecordBatch.decrementSequence."""
    if sequence < decrement:
        return wrapped(INT_MAX - (decrement - sequence) + 1, 32)
    return wrapped(sequence - decrement, 32)
