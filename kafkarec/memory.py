"""Recycled buffers: one list of the compiled modules (see `_pages.pyx`), and what encode keeps of its last calls."""

from __future__ import annotations

from kafkarec import _pages, _writer


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    _writer.forget_options()
    return _pages.release_memory()
