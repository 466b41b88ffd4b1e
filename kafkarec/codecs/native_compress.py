"""Finds C functions of the installed codec libraries that the writer can call without the GIL to compress.

The counterpart of `native_decompress.py`: functions that an extension module exports are tested (their output must
decompress to the input), then their addresses are passed to the writer; otherwise all payloads go through the
libraries' Python calls. `KAFKAREC_NATIVE_CODECS=0` turns this off; `doctor` shows what is in use.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache

from kafkarec._checksum import address_of, extension_file
from kafkarec._writer import install_native
from kafkarec.codecs import BY_NAME, CODECS, checked_level, lz4, zstd

# for _writer.pyx, to which this module is passed: payloads that the installed C functions do not compress
from kafkarec.codecs import MissingCodec as MissingCodec
from kafkarec.codecs import compress as compress
from kafkarec.codecs.native_decompress import SAMPLE, try_finder

in_use: set[str] = set()
"""Names of the codecs with which the writer compresses through C functions."""

LZ4_HEADS = lz4.KAFKA_HEADER + lz4.MAGIC_0_HEADER


def _install_lz4() -> None:
    block = importlib.import_module("lz4.block")
    library = ctypes.CDLL(block._block.__file__)
    fast, high = library.LZ4_compress_fast_extState, library.LZ4_compress_HC_extStateHC
    sizes = library.LZ4_sizeofState(), library.LZ4_sizeofStateHC()
    state = ctypes.create_string_buffer(max(sizes))
    for function, level in ((fast, 1), (high, 8)):
        out = ctypes.create_string_buffer(len(SAMPLE))
        size = function(state, SAMPLE, out, len(SAMPLE), len(SAMPLE) - 1, level)
        if size <= 0 or block.decompress(out.raw[:size], uncompressed_size=len(SAMPLE)) != SAMPLE:
            return
        if function(state, SAMPLE, out, len(SAMPLE), size - 1, level) != 0:
            return
    install_native("lz4", [address_of(fast), address_of(high), *sizes])
    in_use.add("lz4")


def _install_zstd() -> None:
    library = ctypes.CDLL(extension_file("zstandard", "_cffi"))
    names = ("createCCtx", "freeCCtx", "compress2", "compressBound", "CCtx_setParameter")
    create, free, compress, bound, set_parameter = (getattr(library, f"ZSTD_{name}") for name in names)
    create.restype, free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    bound.restype, bound.argtypes = ctypes.c_size_t, (ctypes.c_size_t,)
    compress.restype = ctypes.c_size_t
    size_t, text = ctypes.c_size_t, ctypes.c_char_p
    compress.argtypes = (ctypes.c_void_p, text, size_t, text, size_t)
    set_parameter.restype, set_parameter.argtypes = size_t, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    capacity = bound(len(SAMPLE))
    out = ctypes.create_string_buffer(capacity)
    context = create()
    try:
        values = enumerate(_zstd_parameters(3), _FIRST_PARAMETER)
        refused = [set_parameter(context, parameter, value) > capacity for parameter, value in values]
        size = compress(context, out, capacity, SAMPLE, len(SAMPLE))
        packed = out.raw[:size]
        short = compress(context, out, size - 1, SAMPLE, len(SAMPLE)) > capacity
    finally:
        free(context)
    if any(refused) or not short or packed != zstd.compress(SAMPLE, 3):
        return
    install_native("zstd", [address_of(f) for f in (create, free, compress, bound, set_parameter)])
    in_use.add("zstd")


_FINDERS = {"lz4": _install_lz4, "zstd": _install_zstd}


@cache
def install(codec: str) -> None:
    """Finds the functions of `codec` and passes them to the writer, once."""
    try_finder(_FINDERS.get(codec))


@cache
def _zstd_parameters(level: int) -> tuple[int, ...]:
    """The seven parameters of a level for an input of unknown size, as in the JVM's streams. For a small input the
    library would choose others, which compress 7 % worse at level 9."""
    zstandard = importlib.import_module("zstandard")
    parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=0)
    return tuple(getattr(parameters, name) for name in _PARAMETERS)


_PARAMETERS = ("window_log", "hash_log", "chain_log", "search_log", "min_match", "target_length", "strategy")
_FIRST_PARAMETER = 101  # ZSTD_c_windowLog; the others follow


@cache
def levels(codec_id: int | None, level: int | None) -> tuple[list[int], tuple[int, ...]]:
    """(levels by codec id, zstd's parameters) for the writer. Installs the codecs' C functions first.

    codec_id None: each row has its own codec, and each codec its default level. ValueError for a level that Kafka
    refuses.
    """
    by_codec = [codec.default_level or 0 for codec in CODECS]
    for codec in CODECS:
        if codec_id is None or codec.id == codec_id:
            install(codec.name)
    if codec_id is not None:
        by_codec[codec_id] = checked_level(codec_id, level) or 0
    return by_codec, _zstd_parameters(by_codec[BY_NAME["zstd"].id]) if "zstd" in in_use else (0,) * len(_PARAMETERS)
