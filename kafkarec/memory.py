"""Recycled buffers: one list of the compiled modules (see `_pages.pyx`), and what is kept of the last calls."""

from __future__ import annotations

from kafkarec import _pages, _writer
from kafkarec.read.decode_options import forget_requests


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    forget_requests()
    _writer.forget_options()
    return _pages.release_memory()
