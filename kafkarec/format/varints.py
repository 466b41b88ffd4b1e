"""Varints in Python: 7 bits a byte, the low group first; the high bit says that another byte follows.

    0xxxxxxx                      1 byte
    1xxxxxxx 0xxxxxxx             2 bytes
    varint: at most 5 bytes, varlong: at most 10; excess bits of the last byte are dropped
    zig-zag, in records of magic 2: 0, -1, 1, -2, ...  ->  0, 1, 2, 3, ...

Follows ByteUtils. The engine reads records with `_c/numbers.pxd`; these functions serve messages of KIP-482, `explain`
and `study`; tests/unit/format/test_varints.py compares the two, and sizes with what is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

VARINT_BYTES, VARLONG_BYTES = 5, 10


class BadVarint(Exception):
    """No varint: `cut` if the bytes end inside of it, else it is too long. `groups`: the bits that were read."""

    def __init__(self, cut: bool, groups: int) -> None:
        super().__init__(cut, groups)
        self.cut, self.groups = cut, groups


class ReadVarint(NamedTuple):
    """value: the 7-bit groups, not cut to a width; end: the position after the last byte."""

    value: int
    end: int


def read_groups(data: Any, at: int, end: int, most: int = VARINT_BYTES) -> ReadVarint:
    """The groups of the varint at byte `at`; BadVarint if `end` comes first or `most` bytes do not end it."""
    value = 0
    for number in range(most):
        if at + number >= end:
            raise BadVarint(True, value)
        byte = data[at + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return ReadVarint(value, at + number + 1)
    raise BadVarint(False, value)


def read_unsigned(data: Any, at: int, end: int) -> ReadVarint:
    """An unsigned varint of 32 bits (ByteUtils.readUnsignedVarint, whose result is not negative here)."""
    value, after = read_groups(data, at, end)
    return ReadVarint(value & 0xFFFFFFFF, after)


def read_signed(data: Any, at: int, end: int, most: int = VARINT_BYTES) -> ReadVarint:
    """A zig-zag varint, or varlong with `most` 10 (ByteUtils.readVarint, readVarlong)."""
    groups, after = read_groups(data, at, end, most)
    bits = 32 if most == VARINT_BYTES else 64
    groups &= (1 << bits) - 1
    return ReadVarint(groups >> 1 ^ -(groups & 1), after)


def unsigned_varint(number: int) -> bytes:
    """The bytes of an unsigned varint (ByteUtils.writeUnsignedVarint). `number`: not below 0."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
