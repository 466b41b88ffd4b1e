"""Recycled buffers: the compiled modules keep one list of them (see `_pages.pyx`)."""

from __future__ import annotations

from kafkarec import _pages


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    return _pages.release_memory()
