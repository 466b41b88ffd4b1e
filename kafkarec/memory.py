"""Recycled buffers: one list of the compiled modules (see `_c/pages.pxd`), and what is kept of the last calls."""

from __future__ import annotations

from kafkarec._core import release_pages
from kafkarec._writer import forget_options
from kafkarec.read.decode_options import forget_requests


def release_memory() -> int:
    """Frees the recycled buffers and returns their size in bytes. Buffers of columns in use are kept."""
    forget_requests()
    forget_options()
    return release_pages()
