"""The recycled buffers of all modules: each compiled module keeps its own list (see `_c/page_pool.pxd`)."""

from __future__ import annotations

import sys

_MODULES = ("_core", "_writer", "_validator")


def release_memory() -> int:
    """Returns the recycled buffers to the system; returns how many bytes. Columns in use stay."""
    loaded = (sys.modules.get(f"{__package__}.{module}") for module in _MODULES)
    return sum(module.release_memory() for module in loaded if module is not None)
