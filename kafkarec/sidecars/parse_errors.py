"""How a reader of a small file says no: a reason of `errors.REASONS`, the place, both sides"""

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
    """Raises CorruptRecordError for byte `position` of the file; `detail` says in words what does not hold."""
    raise error(
        reason, {"position": position, "expected": expected, "found": found, "detail": detail, "file": file}
    ) from None
