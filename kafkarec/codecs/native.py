"""Finds C functions of the installed codec libraries, which the core and the writer call without the GIL.

The wheels do not document them (gzip's are those of ISA-L). If an extension module exports all of its codec, they are
tested with ctypes (the decompressed bytes must be right), and their addresses are passed to `_core.pyx`; otherwise
all payloads go through the library's Python calls. cramjam exports none: for snappy the core has a function of its own.
`KAFKAREC_NATIVE_CODECS=0` turns all of this off; `doctor` shows what is in use.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import zlib
from ctypes import c_char_p, c_int, c_size_t, c_ulonglong, c_void_p
from functools import cache
from struct import Struct
from typing import Any

from kafkarec._checksum import address_of, extension_file
from kafkarec._core import install_codec

in_use: set[str] = set()
"""Names of the codecs whose usual payloads are decompressed in C, and those of lz4 and zstd compressed."""

OWN = frozenset({"snappy"})
"""Those of them for which the core has its own function: the library exports none."""
WRITTEN = frozenset({"lz4", "zstd"})
"""Those of them that are compressed in C, too."""

SAMPLE = bytes(i * i & 0x3F for i in range(32)) * 160
"""The content with which the functions are tested."""

_INFLATE_OUT = Struct("<QI")  # address of the output, its capacity
_INFLATE_IN = Struct("<QQI")  # address of the input, bits that were read, its length
_INFLATE_IN_AT = 16
_INFLATE_STATE = 128 << 10  # bytes that the core reserves for the state
_INFLATE_BUFFER = 2 * _INFLATE_STATE


def _isal() -> list[Any] | None:
    """ISA-L's inflate, whose state begins with the fields that `_c/decompress.pxd` sets (`igzip_lib.h`)."""
    if importlib.import_module("isal._isal").ISAL_MAJOR_VERSION != 2:
        return None
    library = ctypes.CDLL(importlib.import_module("isal.igzip_lib").__file__)
    begin, inflate = library.isal_inflate_init, library.isal_inflate_stateless
    packed = zlib.compress(SAMPLE)[2:-4]
    source = ctypes.create_string_buffer(packed, len(packed))
    out = ctypes.create_string_buffer(len(SAMPLE))
    state = ctypes.create_string_buffer(b"\xa5" * _INFLATE_BUFFER, _INFLATE_BUFFER)

    begin(state)
    _INFLATE_OUT.pack_into(state, 0, ctypes.addressof(out), len(SAMPLE))
    _INFLATE_IN.pack_into(state, _INFLATE_IN_AT, ctypes.addressof(source), 0, len(packed))
    status = inflate(state)
    left_in, left_out = _INFLATE_IN.unpack_from(state, _INFLATE_IN_AT)[2], _INFLATE_OUT.unpack_from(state)[1]
    right = (status, left_in, left_out) == (0, 0, 0) and out.raw == SAMPLE
    return [begin, inflate] if right and not state.raw[_INFLATE_STATE:].strip(b"\xa5") else None


_LZ4 = ("decompress_safe", "compress_fast_extState", "compress_HC_extStateHC", "sizeofState", "sizeofStateHC")


def _lz4() -> list[Any] | None:
    block = importlib.import_module("lz4.block")
    library = ctypes.CDLL(importlib.import_module("lz4.frame._frame").__file__)
    functions = [getattr(library, f"LZ4_{name}") for name in _LZ4]
    decompress, fast, high, fast_size, high_size = functions
    state = ctypes.create_string_buffer(max(fast_size(), high_size()))
    size = len(SAMPLE)
    out = ctypes.create_string_buffer(size)
    packed = [block.compress(SAMPLE, store_size=False)]
    for compress, level in ((fast, 1), (high, 8)):
        used = compress(state, SAMPLE, out, size, size - 1, level)
        packed.append(out.raw[: max(used, 0)])
    right = all(decompress(piece, out, len(piece), size) == size and out.raw == SAMPLE for piece in packed)
    return functions if right else None


_ZSTD: dict[str, tuple[Any, ...]] = {  # name -> result, parameters
    "createDCtx": (c_void_p,),
    "freeDCtx": (c_size_t, c_void_p),
    "findFrameCompressedSize": (c_size_t, c_char_p, c_size_t),
    "decompressBound": (c_ulonglong, c_char_p, c_size_t),
    "decompressDCtx": (c_size_t, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t),
    "createCCtx": (c_void_p,),
    "freeCCtx": (c_size_t, c_void_p),
    "compress2": (c_size_t, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t),
    "compressBound": (c_size_t, c_size_t),
    "CCtx_setParameter": (c_size_t, c_void_p, c_int, c_int),
}
_FIRST_PARAMETER = 101  # ZSTD_c_windowLog; the others follow


def _zstd() -> list[Any] | None:
    library = ctypes.CDLL(extension_file("zstandard", "_cffi"))  # not imported, as that needs cffi
    functions = []
    for name, (result, *parameters) in _ZSTD.items():
        function = getattr(library, f"ZSTD_{name}")
        function.restype, function.argtypes = result, parameters
        functions.append(function)
    create, free, frame_size, bound, decompress, create_out, free_out, compress, out_bound, set_parameter = functions
    size = len(SAMPLE)
    capacity = out_bound(size)  # error codes are the largest values of size_t
    packed, out = ctypes.create_string_buffer(capacity), ctypes.create_string_buffer(size)
    reader, writer = create(), create_out()
    try:
        levels = enumerate(zstd_stream_parameters(3), _FIRST_PARAMETER)
        refused = [set_parameter(writer, parameter, value) > capacity for parameter, value in levels]
        used = compress(writer, packed, capacity, SAMPLE, size)
        frame = packed.raw[:used]
        right = decompress(reader, out, size, frame, used) == size and out.raw == SAMPLE
    finally:
        free(reader)
        free_out(writer)
    right = right and not any(refused) and frame_size(frame, used) == used and bound(frame, used) >= size
    return functions if right else None


def _snappy() -> list[Any]:
    """None, but only where the library is installed: it reads what the core's function leaves to it."""
    importlib.import_module("cramjam")
    return []


@cache
def zstd_stream_parameters(level: int) -> tuple[int, ...]:
    """The seven parameters of a level for an input of unknown size, as in the JVM's streams. For a small input the
    library would choose others, which compress 7 % worse at level 9."""
    zstandard = importlib.import_module("zstandard")
    parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=0)
    return tuple(getattr(parameters, name) for name in ZSTD_PARAMETERS)


ZSTD_PARAMETERS = ("window_log", "hash_log", "chain_log", "search_log", "min_match", "target_length", "strategy")

# Name -> codec id, finder: the functions in the order of their struct in `_c/compress.pxd`; None: not those.
_FINDERS = {"gzip": (1, _isal), "snappy": (2, _snappy), "lz4": (3, _lz4), "zstd": (4, _zstd)}


@cache
def install(codec: str) -> None:
    """Finds the functions of `codec`, once, when its library is first needed. A library may be missing or differ."""
    if codec not in _FINDERS or os.environ.get("KAFKAREC_NATIVE_CODECS", "1") == "0":
        return
    codec_id, find = _FINDERS[codec]
    try:
        functions = find()
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return
    if functions is not None:
        install_codec(codec_id, list(map(address_of, functions)))
        in_use.add(codec)
