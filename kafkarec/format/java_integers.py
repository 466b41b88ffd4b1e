"""Java's int and long arithmetic, which Kafka's offsets, timestamps and sequences follow: overflow wraps around.

Varints: 7 bits a byte, the low group first; the high bit says that another byte follows.

    0xxxxxxx                      1 byte
    1xxxxxxx 0xxxxxxx             2 bytes
    varint: at most 5 bytes, varlong: at most 10; excess bits of the last byte are dropped
    zig-zag, in records of magic 2: 0, -1, 1, -2, ...  ->  0, 1, 2, 3, ...

Follows ByteUtils. The engine reads records with `_c/numbers.pxd`; these functions serve messages of KIP-482, `explain`
and `study`; tests/unit/format/test_varints.py compares the two.
"""

from __future__ import annotations

from contextlib import suppress
from operator import index
from typing import Any, SupportsIndex

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


# ---- varints

VARINT_BYTES, VARLONG_BYTES = 5, 10


class BadVarint(Exception):
    """No varint: `cut` if the bytes end inside of it, else it is too long. `bits_read`: their value."""

    def __init__(self, cut: bool, bits_read: int) -> None:
        super().__init__(cut, bits_read)
        self.cut, self.bits_read = cut, bits_read


def read_unsigned(data: Any, at: int, end: int, most: int = VARINT_BYTES) -> tuple[int, int]:
    """(an unsigned varint of 32 bits, or of 64 with `most` 10, at byte `at`; the position after it).

    BadVarint if `end` comes first or `most` bytes do not end it. ByteUtils.readUnsignedVarint, whose result is not
    negative here.
    """
    value = 0
    for number in range(most):
        if at + number >= end:
            raise BadVarint(True, value)
        byte = data[at + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value & (1 << (32 if most == VARINT_BYTES else 64)) - 1, at + number + 1
    raise BadVarint(False, value)


def read_signed(data: Any, at: int, end: int, most: int = VARINT_BYTES) -> tuple[int, int]:
    """As `read_unsigned`, of a zig-zag varint, or varlong with `most` 10 (ByteUtils.readVarint, readVarlong)."""
    groups, after = read_unsigned(data, at, end, most)
    return groups >> 1 ^ -(groups & 1), after


def unsigned_varint(number: int) -> bytes:
    """The bytes of an unsigned varint (ByteUtils.writeUnsignedVarint). `number`: not below 0."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
