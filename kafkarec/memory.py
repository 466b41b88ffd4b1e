"""The recycled buffers of all desks: each compiled module keeps its own list (see `_c/page_pool.pxd`)."""

from __future__ import annotations

import sys

_DESKS = ("_core", "_writer", "_validator")


def release_memory() -> int:
    """Gives the recycled buffers back to the system; answers how many bytes. Columns in use stay."""
    loaded = (sys.modules.get(f"{__package__}.{desk}") for desk in _DESKS)
    return sum(desk.release_memory() for desk in loaded if desk is not None)
