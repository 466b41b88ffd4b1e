"""Java's int and long arithmetic, which Kafka's offsets, timestamps and sequences follow: overflow wraps around."""

from __future__ import annotations

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def wrapped(value: int, bits: int) -> int:
    """Two's complement overflow to `bits`: 32 (int) or 64 (long)."""
    half = 1 << (bits - 1)
    return value if -half <= value < half else (value + half) % (half << 1) - half


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
