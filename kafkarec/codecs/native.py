"""Finds C functions of the installed codec libraries that the core can call without the GIL to decompress.

The wheels do not document them (gzip's are those of ISA-L). If an extension module exports the functions, they are
tested with ctypes (the decompressed bytes must be right), and their addresses are passed to the core; otherwise all
payloads go through the libraries' Python calls. cramjam exports none: for snappy the core has a function of its own.
`KAFKAREC_NATIVE_CODECS=0` turns all of this off; `doctor` shows what is in use.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import zlib
from collections.abc import Callable
from functools import cache
from struct import Struct

from kafkarec._checksum import address_of, extension_file
from kafkarec._core import install_native

in_use: set[str] = set()
"""Names of the codecs whose usual payloads the core decompresses in C."""

OWN = frozenset({"snappy"})
"""Those of them for which the core has its own function: the library exports none."""

_INFLATE_OUT = Struct("<QI")  # address of the output, its capacity
_INFLATE_IN = Struct("<QQI")  # address of the input, bits that were read, its length
_INFLATE_IN_AT = 16
_INFLATE_STATE = 128 << 10  # bytes that the core reserves for the state
_INFLATE_BUFFER = 2 * _INFLATE_STATE

SAMPLE = bytes(i * i & 0x3F for i in range(5000))
"""The content with which the functions are tested."""


def _install_gzip() -> None:
    """ISA-L's inflate, whose state begins with the fields that `_c/decompress.pxd` sets (`igzip_lib.h`)."""
    if importlib.import_module("isal._isal").ISAL_MAJOR_VERSION != 2:
        return
    library = ctypes.CDLL(importlib.import_module("isal.igzip_lib").__file__)
    begin, inflate = library.isal_inflate_init, library.isal_inflate_stateless
    packed = zlib.compress(SAMPLE)[2:-4]
    source = ctypes.create_string_buffer(packed, len(packed))
    out = ctypes.create_string_buffer(len(SAMPLE))
    state = ctypes.create_string_buffer(b"\xa5" * _INFLATE_BUFFER, _INFLATE_BUFFER)

    def result(capacity: int) -> tuple[int, int, int]:
        """What the function returns, bytes left to read, bytes left to write."""
        begin(state)
        _INFLATE_OUT.pack_into(state, 0, ctypes.addressof(out), capacity)
        _INFLATE_IN.pack_into(state, _INFLATE_IN_AT, ctypes.addressof(source), 0, len(packed))
        status = inflate(state)
        left_in, left_out = _INFLATE_IN.unpack_from(state, _INFLATE_IN_AT)[2], _INFLATE_OUT.unpack_from(state)[1]
        return status, left_in, left_out

    if result(len(SAMPLE) - 1)[0] == 0 or result(len(SAMPLE)) != (0, 0, 0) or out.raw != SAMPLE:
        return
    if state.raw[_INFLATE_STATE:].strip(b"\xa5"):
        return
    install_native("gzip", [address_of(f) for f in (begin, inflate)])
    in_use.add("gzip")


def _install_lz4() -> None:
    block = importlib.import_module("lz4.block")
    library = ctypes.CDLL(importlib.import_module("lz4.frame._frame").__file__)
    decompress = library.LZ4_decompress_safe
    packed = block.compress(SAMPLE, store_size=False)
    out = ctypes.create_string_buffer(len(SAMPLE))
    if decompress(packed, out, len(packed), len(SAMPLE)) != len(SAMPLE) or out.raw != SAMPLE:
        return
    if decompress(packed, out, len(packed), len(SAMPLE) - 1) >= 0:
        return
    install_native("lz4", [address_of(decompress)])
    in_use.add("lz4")


def _install_snappy() -> None:
    install_native("snappy", [])
    in_use.add("snappy")


def _install_zstd() -> None:
    zstandard = importlib.import_module("zstandard")
    library = ctypes.CDLL(extension_file("zstandard", "_cffi"))  # not imported, as that needs cffi
    names = ("createDCtx", "freeDCtx", "findFrameCompressedSize", "decompressBound", "decompressDCtx")
    create, free, frame_size, bound, decompress = (getattr(library, f"ZSTD_{name}") for name in names)
    create.restype, free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    frame_size.restype, frame_size.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    bound.restype, bound.argtypes = ctypes.c_ulonglong, (ctypes.c_char_p, ctypes.c_size_t)
    decompress.restype = ctypes.c_size_t
    decompress.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(SAMPLE)
    out = ctypes.create_string_buffer(len(SAMPLE))
    context = create()
    try:
        right = decompress(context, out, len(SAMPLE), packed, len(packed)) == len(SAMPLE) and out.raw == SAMPLE
        short = decompress(context, out, len(SAMPLE) - 1, packed, len(packed)) > len(SAMPLE)
    finally:
        free(context)
    if not right or not short or frame_size(packed, len(packed)) != len(packed):
        return
    if bound(packed, len(packed)) < len(SAMPLE) or frame_size(packed[:-1], len(packed) - 1) < 1 << 62:
        return
    install_native("zstd", [address_of(f) for f in (create, free, frame_size, bound, decompress)])
    in_use.add("zstd")


def try_finder(find: Callable[[], None] | None) -> None:
    """Calls a codec's finder, unless turned off. Ignores its errors: a library may be missing or differ."""
    if find is None or os.environ.get("KAFKAREC_NATIVE_CODECS", "1") == "0":
        return
    try:
        find()
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return


_FINDERS = {"gzip": _install_gzip, "lz4": _install_lz4, "snappy": _install_snappy, "zstd": _install_zstd}


@cache
def install(codec: str) -> None:
    """Finds the functions of `codec` and passes them to the core, once, when its library is first needed."""
    try_finder(_FINDERS.get(codec))
