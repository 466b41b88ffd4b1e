"""Guesses about the cause of damage: a flipped bit, a wrong length, a range of zeros.

A CRC is linear: changing one bit changes the checksum by a pattern that depends on the bit's position alone. So the
difference between the stored and the computed checksum, reversed byte by byte, gives the one flipped bit, if there is
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkarec.format.checksum import batch_checksums
from kafkarec.format.layout import BATCH_MAGIC, CHECKED_FROM, MAGICS

_CASTAGNOLI, _ZIP = 0x82F63B78, 0xEDB88320
_LONGEST_SEARCH = 8 << 20  # bytes; a second or so of plain Python
_SECTOR = 512
_LENGTH = range(8, 12)


class Hint(NamedTuple):
    """A guess, and the bytes of the batch that it names."""

    words: str
    suspects: range


def _table(polynomial: int) -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ polynomial if value & 1 else value >> 1
        table.append(value)
    return table


def flipped_bit(magic: int, difference: int, start: int, stop: int) -> tuple[int, int] | None:
    """(byte, bit 0-7) in [start, stop) whose flip explains the CRC `difference`. None: no single bit does."""
    if stop - start > _LONGEST_SEARCH:
        return None
    table = _table(_CASTAGNOLI if magic >= BATCH_MAGIC else _ZIP)
    bits = {table[1 << bit]: bit for bit in range(8)}
    by_top = {entry >> 24: index for index, entry in enumerate(table)}
    state = difference
    for position in range(stop - 1, start - 1, -1):
        if state in bits:
            return position, bits[state]
        index = by_top[state >> 24]
        state = (state ^ table[index]) << 8 & 0xFFFFFFFF | index
    return None


def of_checksum(data: memoryview, magic: int, stored: int, computed: int, field: int, start: int) -> Iterator[Hint]:
    """Guesses about a checksum mismatch; `field`: position of the stored CRC, `start`: of the first byte it covers."""
    difference = stored ^ computed
    if difference.bit_count() == 1:
        words = (
            f"the stored checksum and the computed one differ in one bit: only the checksum itself (bytes {field} to "
            f"{field + 3} of the batch) may be damaged"
        )
        yield Hint(words, range(field, field + 4))
        return
    bit = flipped_bit(magic, difference, start, len(data))
    if bit:
        words = f"one flipped bit explains it: bit {bit[1]} of byte {bit[0]} of the batch (0x{1 << bit[1]:02x})"
        yield Hint(words, range(bit[0], bit[0] + 1))
        return
    if stored == 0:
        words = "the stored checksum is 0: it was never written, or zeros were written over it"
        yield Hint(words, range(field, field + 4))
    yield from _zeros(data, start)


def _zeros(data: memoryview, start: int) -> Iterator[Hint]:
    """A guess if there is a run of 512 or more zeros, a disk sector."""
    view = bytes(data)
    at = view.find(bytes(_SECTOR), start)
    if at < 0:
        return
    end = at + _SECTOR
    while end < len(view) and not view[end]:
        end += 1
    words = f"bytes {at} to {end - 1} of the batch are zeros: sectors that were never written, or could not be read"
    yield Hint(words, range(at, end))


def of_length(data: memoryview, stored: int, magic: int) -> Iterator[Hint]:
    """Guesses about an invalid length, from the bytes up to the next batch."""
    if magic not in MAGICS or len(data) <= CHECKED_FROM[magic]:
        return
    stored_crc, computed = batch_checksums(data, magic)
    if computed == stored_crc:
        words = (
            f"the checksum matches for a length of {len(data) - 12} (stored: {stored}): only the length field is "
            "damaged, the rest of the batch is intact"
        )
        yield Hint(words, _LENGTH)
