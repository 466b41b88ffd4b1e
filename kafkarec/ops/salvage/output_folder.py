"""Whether a salvage has room for its output, and none of an earlier run's in the way."""

from __future__ import annotations

import os

from kafkarec.storage.output_rules import Refused, above

_ROOM_FOR_INDEXES = 64  # one byte of indexes for so many bytes of log, at the default interval
_SPARE = 1 << 20


class NoRoom(Refused):
    """The file system of the output is too small."""


def check_space(out: str, needed: int) -> None:
    """NoRoom when the file system of `out` has less room than `needed` bytes of log and its indexes take."""
    place = next(place for place in above(out) if os.path.isdir(place))
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    wanted = needed + needed // _ROOM_FOR_INDEXES + _SPARE
    if free < wanted:
        raise NoRoom(
            f"{out} has {free} bytes free, and up to {wanted} may be needed; --dry-run tells how many it will be "
            "(--ignore-space goes ahead)"
        )


def is_empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None
