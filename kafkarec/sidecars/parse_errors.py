"""Raises CorruptRecordError for side files, with a reason of `errors.REASONS`, the position, expected and found."""

from __future__ import annotations

from typing import NoReturn

from kafkarec.damage import error


def refuse(
    reason: str,
    detail: str,
    *,
    position: int = 0,
    expected: int | None = None,
    found: int | None = None,
    file: str | None = None,
) -> NoReturn:
    """Raises CorruptRecordError for byte `position` of the file; detail: the text for its message."""
    raise error(
        reason, {"position": position, "expected": expected, "found": found, "detail": detail, "file": file}
    ) from None


def demand_whole_entries(data: bytes, size: int, file: str | None) -> None:
    """CorruptRecordError if the bytes of an index are not whole entries of `size` bytes."""
    left_over = len(data) % size
    if left_over:
        detail = f"{len(data)} bytes are no multiple of {size}, the size of an entry"
        refuse("index_invalid", detail, position=len(data) - left_over, file=file)
