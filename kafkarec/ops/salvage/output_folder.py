"""Checks the free space of the output folder."""

from __future__ import annotations

import os

from kafkarec.storage.output_rules import Refused, self_and_parents

_LOG_BYTES_PER_INDEX_BYTE = 64  # at the default index interval
_SPARE = 1 << 20


class NotEnoughSpace(Refused):
    """The file system of the output folder has too little free space."""


def check_space(out: str, needed: int) -> None:
    """Raises NotEnoughSpace if the file system of `out` has less free space than a log of `needed` bytes and its
    indexes take."""
    place = next(place for place in self_and_parents(out) if os.path.isdir(place))
    stats = os.statvfs(place)
    free = stats.f_bavail * stats.f_frsize
    wanted = needed + needed // _LOG_BYTES_PER_INDEX_BYTE + _SPARE
    if free < wanted:
        raise NotEnoughSpace(
            f"{out} has {free} bytes free, and up to {wanted} may be needed; --dry-run prints how many are "
            "needed (--ignore-space skips this check)"
        )
