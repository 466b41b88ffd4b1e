"""Recycled buffers: the compiled modules keep one list of them (see `_pages.pyx`), and encode those of its last calls."""

from __future__ import annotations

from kafkarec import _pages, _writer


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    _writer.forget_options()
    return _pages.release_memory()
