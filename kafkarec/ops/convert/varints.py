"""How many bytes the numbers of a magic 2 record take: zig-zag varints of 7 bits a byte."""

from __future__ import annotations

from collections.abc import Iterable


def varint_size(value: int) -> int:
    """Bytes of a varint or varlong; a delta outside of 64 bits wraps around."""
    if -8192 <= value < 8192:
        return 1 if -64 <= value < 64 else 2
    value = (value + 2**63) % 2**64 - 2**63
    return (max(value, ~value).bit_length() + 7) // 7


def sized(length: int) -> int:
    """Bytes of a length and of what it is the length of; -1 is null."""
    return varint_size(length) + length if length > 0 else 1


_SHORT = [sized(length) for length in range(1024)] + [1]  # the last one is that of -1


def all_sized(lengths: Iterable[int]) -> list[int]:
    """`sized` of each."""
    lengths = list(lengths)
    if max(lengths, default=0) < len(_SHORT) - 1:
        return list(map(_SHORT.__getitem__, lengths))
    return list(map(sized, lengths))
