"""Finds the crc32c library's hardware routine, so that the engine can call it without the GIL.

The library documents no C interface, but its extension module exports the routine. Its address is looked up and the
routine is tested: it is used only if it agrees with the library's Python function on every length from 0 to 300 and on
one long block. The environment variable `KAFKAREC_CRC32C` = library | own | table selects the implementation.
"""

from __future__ import annotations

import ctypes
import os

import crc32c as library

# Of the library on x86-64 and on aarch64.
_SYMBOLS = ("_crc32c_hw_adler", "_crc32c_hw_arm64")
_ONES = 0xFFFFFFFF


def find() -> tuple[int, str]:
    """(address of the routine or 0, the implementation to use: "library", "own" or "table")."""
    setting = os.environ.get("KAFKAREC_CRC32C", "library")
    if setting not in ("library", "own", "table"):
        raise ValueError(f"KAFKAREC_CRC32C={setting!r}: one of library, own, table")
    if setting != "library" or not library.hardware_based:
        return 0, "own" if setting == "library" else setting
    try:
        from crc32c import _crc32c

        exported = ctypes.CDLL(_crc32c.__file__)
        routine = next(getattr(exported, name) for name in _SYMBOLS if hasattr(exported, name))
    except (ImportError, OSError, StopIteration, TypeError):
        return 0, "own"
    routine.restype = ctypes.c_uint32
    routine.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_ulong)
    block = bytes((i * 131 + (i >> 8) * 17) & 0xFF for i in range(20_011))
    for length in (*range(301), len(block)):
        if routine(_ONES, block[:length], length) ^ _ONES != library.crc32c(block[:length]):
            return 0, "own"
    return ctypes.cast(routine, ctypes.c_void_p).value or 0, "library"
