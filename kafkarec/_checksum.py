"""Finds ISA-L's CRC-32C routine, so that the engine can call it without the GIL.

The isal package, which decompresses gzip, has all of ISA-L in its extension modules and exports its functions, among
them `crc32_iscsi` (`crc.h`), which chooses the best instructions of the processor when it is first called. It is used
only if it agrees with the crc32c package on every length from 0 to 300 and on one long block. The environment variable
`KAFKAREC_CRC32C` = isal | own | table selects the implementation.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

import crc32c

_ONES = 0xFFFFFFFF
_BLOCK = bytes((i * 131 + (i >> 8) * 17) & 0xFF for i in range(20_011))


@cache
def find() -> tuple[int, str]:
    """(address of the routine or 0, the implementation to use: "isal", "own" or "table")."""
    setting = os.environ.get("KAFKAREC_CRC32C", "isal")
    if setting not in ("isal", "own", "table"):
        raise ValueError(f"KAFKAREC_CRC32C={setting!r}: one of isal, own, table")
    if setting != "isal":
        return 0, setting
    try:
        routine = ctypes.CDLL(module_file(_folder(), "igzip_lib")).crc32_iscsi
    except (ImportError, OSError, AttributeError, StopIteration, TypeError):
        return 0, "own"
    routine.restype = ctypes.c_uint32
    routine.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
    for length in (*range(301), len(_BLOCK)):
        if routine(_BLOCK[:length], length, _ONES) ^ _ONES != crc32c.crc32c(_BLOCK[:length]):
            return 0, "own"
    return ctypes.cast(routine, ctypes.c_void_p).value or 0, "isal"


def _folder() -> str:
    """The folder of the package, which is not imported: that is left to the gzip codec."""
    package = find_spec("isal")
    if package is None:
        raise ImportError("isal is not installed")
    return next(iter(package.submodule_search_locations or ()))


def module_file(folder: str, module: str) -> str:
    """The file of this interpreter's extension module, which is not imported. StopIteration: there is none."""
    files = (os.path.join(folder, module + suffix) for suffix in EXTENSION_SUFFIXES)
    return next(filter(os.path.exists, files))
