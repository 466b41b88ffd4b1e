"""Recycled buffers: the compiled modules keep one list of them (see `_pages.pyx`)."""

from __future__ import annotations

from kafkarec import _pages
from kafkarec.read.decode_options import forget_requests


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    forget_requests()
    return _pages.release_memory()
