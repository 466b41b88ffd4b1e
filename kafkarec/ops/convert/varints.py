"""Sizes of the zig-zag varints in a magic 2 record (7 bits per byte)."""

from __future__ import annotations

from collections.abc import Iterable


def varint_size(value: int) -> int:
    """Bytes of a varint or varlong; a value outside of 64 bits wraps around."""
    if -8192 <= value < 8192:
        return 1 if -64 <= value < 64 else 2
    value = (value + 2**63) % 2**64 - 2**63
    return (max(value, ~value).bit_length() + 7) // 7


def size_with_length(length: int) -> int:
    """Bytes of a varint length plus that many bytes of data; length -1 is null."""
    return varint_size(length) + length if length > 0 else 1


_SHORT = [size_with_length(length) for length in range(1024)] + [1]  # index -1: null


def sizes_with_length(lengths: Iterable[int]) -> list[int]:
    """`size_with_length` of each length."""
    lengths = list(lengths)
    if max(lengths, default=0) < len(_SHORT) - 1:
        return list(map(_SHORT.__getitem__, lengths))
    return list(map(size_with_length, lengths))
