"""Finds the C functions of installed libraries that compute checksums; `_core.pyx` calls them without the GIL.

    CRC-32C below 256 bytes     crc32c's with the processor's CRC instructions, else ISA-L's `crc32_iscsi`
    CRC-32C from 256 bytes on   ISA-L's, else crc32c's; on x86-64 without 512-bit instructions as below 256
    CRC-32                      ISA-L's `crc32_gzip_refl`

The extension modules of isal, the package for gzip, export all of ISA-L. On macOS with arm64 crc32c has only software,
which is used where ISA-L is missing; the last resort is a table of ours. A function that does not compute the known
checksums of 302 blocks is not used, and `doctor` says so.

KAFKAREC_CRC32C=isal|crc32c|table   only functions of this library, for all lengths; table: ours
CRC32C_SW_MODE=force                as for crc32c itself: CRC-32C without the processor's instructions
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, module_from_spec
from typing import Any, NamedTuple

CRC32C, CRC32 = 0x6C68F7AC, 0xB307B527
"""The checksums of the first bytes of _BLOCK, of as many as the first of _LENGTHS, then of the second, to the last."""
_BLOCK = bytes(range(251)) * 80
_LENGTHS = (*range(301), 20_011)
_ONES = 0xFFFFFFFF


class Routine(NamedTuple):
    """A C function: the pip name of its library, its name there, its address. No library: our table."""

    library: str | None = None
    function: str = "table"
    address: int = 0


class Routines(NamedTuple):
    """How checksums are computed (small: CRC-32C below 256 bytes, large: from there on), and the functions that are
    not used, as they compute others."""

    small: Routine
    large: Routine
    crc32: Routine
    wrong: tuple[Routine, ...]


class _LibraryFunction(NamedTuple):
    """Functions of one signature: their names, the first that is exported counts; a checksum of _BLOCK by one of them:
    (function, checksum of the bytes before, length) -> checksum; the known checksum of all lengths."""

    library: str
    module: str
    names: tuple[str, ...]
    arguments: tuple[Any, ...]
    checksum: Callable[[Any, int, int], int]
    known: int


_ISCSI = _LibraryFunction(
    "isal",
    "igzip_lib",
    ("crc32_iscsi",),
    (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32),
    lambda function, crc, length: function(_BLOCK, length, crc ^ _ONES) ^ _ONES,
    CRC32C,
)
_GZIP = _LibraryFunction(
    "isal",
    "igzip_lib",
    ("crc32_gzip_refl",),
    (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64),
    lambda function, crc, length: function(crc, _BLOCK, length),
    CRC32,
)
_SOFTWARE = _LibraryFunction(
    "crc32c",
    "_crc32c",
    ("_crc32c_sw_slicing_by_8",),
    (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_ulong),
    lambda function, crc, length: function(crc ^ _ONES, _BLOCK, length) ^ _ONES,
    CRC32C,
)
_INSTRUCTIONS = _SOFTWARE._replace(names=("_crc32c_hw_adler", "_crc32c_hw_arm64"))  # x86-64, aarch64


def find(isal_is_faster: bool) -> Routines:
    """The routines of this process: `_core.ROUTINES`. ValueError for an unknown KAFKAREC_CRC32C.

    isal_is_faster: for the CRC-32C of many bytes, than crc32c's with the processor's instructions
    """
    setting = os.environ.get("KAFKAREC_CRC32C", "")
    if setting not in ("", "isal", "crc32c", "table"):
        raise ValueError(f"KAFKAREC_CRC32C={setting!r}: one of isal, crc32c, table")
    kinds = [kind for kind in (_ISCSI, _GZIP, _SOFTWARE) if setting in ("", kind.library)]
    if not setting and os.environ.get("CRC32C_SW_MODE") == "force":
        kinds.remove(_ISCSI)
    if _SOFTWARE in kinds and _crc32c_has_instructions():
        kinds.append(_INSTRUCTIONS)
    wrong: list[Routine] = []
    found = {kind: _tested(kind, wrong) for kind in kinds}

    def first(*wanted: _LibraryFunction) -> Routine:
        return next(filter(None, map(found.get, wanted)), Routine())

    small = first(_INSTRUCTIONS, _ISCSI, _SOFTWARE)
    large = first(_ISCSI, _INSTRUCTIONS, _SOFTWARE) if isal_is_faster else small
    return Routines(small, large, first(_GZIP), tuple(wrong))


def _crc32c_has_instructions() -> bool:
    """Whether crc32c uses the processor's instructions. Loads its extension module, which fills the tables of that
    function, but not the package, whose import takes 40 ms: it reads its metadata."""
    try:
        file = extension_file(_SOFTWARE.library, _SOFTWARE.module)
        loader = ExtensionFileLoader("crc32c._crc32c", file)
        module = module_from_spec(ModuleSpec(loader.name, loader, origin=file))
        loader.exec_module(module)
    except ImportError:
        return False
    return bool(getattr(module, "hardware_based", False))


def _tested(kind: _LibraryFunction, wrong: list[Routine]) -> Routine | None:
    """The first function of this kind, None: the library or the function is missing; or it is wrong, and noted."""
    try:
        library = ctypes.CDLL(extension_file(kind.library, kind.module))
    except (ImportError, OSError):
        return None
    for name in kind.names:
        if not hasattr(library, name):
            continue
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_uint32, kind.arguments
        crc = 0
        for length in _LENGTHS:
            crc = kind.checksum(function, crc, length)
        routine = Routine(kind.library, name, address_of(function))
        if crc == kind.known:
            return routine
        wrong.append(routine)
    return None


def extension_file(package: str, module: str) -> str:
    """The file of an extension module; neither it nor the package is imported. ImportError: there is none."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    names = (os.path.join(folder, module + suffix) for folder in folders for suffix in EXTENSION_SUFFIXES)
    found = next(filter(os.path.exists, names), None)
    if found is None:
        raise ImportError(f"{package} has no extension module {module} for this Python")
    return found


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
