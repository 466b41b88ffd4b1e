"""The size classes of recycled buffers, as `_c/pages.pxd` describes them: 4, 5, 6, 7, 8, 10, 12 ... KiB."""

from __future__ import annotations

CLASSES = [(4 + k % 4) << (10 + k // 4) for k in range(80)]
"""Bytes of each class."""


def class_of(size: int) -> int:
    """Return the bytes that a buffer of `size` takes."""
    return next(one for one in CLASSES if one >= size)
