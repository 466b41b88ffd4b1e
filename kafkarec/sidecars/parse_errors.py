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
