"""C functions of the installed codec libraries that compress, for the writing desk to call without the GIL.

The counterpart of `native.py`, by the same rules: an extension module that happens to export the functions is put to
the proof (what it compresses must come out right), then its addresses go to the desk; anything else leaves the Python
calls to serve every payload. `KAFKAREC_NATIVE_CODECS=0` turns this off; `doctor` says what is in use.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache

from kafkarec import _press
from kafkarec.codecs import CODECS, checked_level, lz4, native

in_use: set[str] = set()
"""Names of the codecs that the desk compresses with itself."""

_SAMPLE = bytes(i * i & 0x3F for i in range(5000))
LZ4_HEADS = lz4.KAFKA_HEADER + lz4.MAGIC_0_HEADER


def _lz4() -> None:
    block = importlib.import_module("lz4.block")
    library = ctypes.CDLL(block._block.__file__)
    fast, high = library.LZ4_compress_fast_extState, library.LZ4_compress_HC_extStateHC
    sizes = library.LZ4_sizeofState(), library.LZ4_sizeofStateHC()
    state = ctypes.create_string_buffer(max(sizes))
    for compress, level in ((fast, 1), (high, 8)):
        out = ctypes.create_string_buffer(len(_SAMPLE))
        size = compress(state, _SAMPLE, out, len(_SAMPLE), len(_SAMPLE) - 1, level)
        if size <= 0 or block.decompress(out.raw[:size], uncompressed_size=len(_SAMPLE)) != _SAMPLE:
            return
        if compress(state, _SAMPLE, out, len(_SAMPLE), size - 1, level) != 0:
            return
    _press.install_native("lz4", [native._address(fast), native._address(high), *sizes])
    in_use.add("lz4")


def _zstd() -> None:
    zstandard = importlib.import_module("zstandard")
    library = ctypes.CDLL(native._module_file(zstandard.__path__[0], "_cffi"))
    create, free, compress, bound = (
        getattr(library, f"ZSTD_{name}") for name in ("createCCtx", "freeCCtx", "compressCCtx", "compressBound")
    )
    create.restype, free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    bound.restype, bound.argtypes = ctypes.c_size_t, (ctypes.c_size_t,)
    compress.restype = ctypes.c_size_t
    size_t, text = ctypes.c_size_t, ctypes.c_char_p
    compress.argtypes = (ctypes.c_void_p, text, size_t, text, size_t, ctypes.c_int)
    room = bound(len(_SAMPLE))
    out = ctypes.create_string_buffer(room)
    context = create()
    try:
        size = compress(context, out, room, _SAMPLE, len(_SAMPLE), 3)
        short = compress(context, out, size - 1, _SAMPLE, len(_SAMPLE), 3) > room
    finally:
        free(context)
    if size > room or not short or zstandard.ZstdDecompressor().decompress(out.raw[:size]) != _SAMPLE:
        return
    _press.install_native("zstd", [native._address(f) for f in (create, free, compress, bound)])
    in_use.add("zstd")


_FINDERS = {"lz4": _lz4, "zstd": _zstd}


@cache
def _install(codec: str) -> None:
    if codec not in _FINDERS or os.environ.get("KAFKAREC_NATIVE_CODECS", "1") == "0":
        return
    try:
        _FINDERS[codec]()
    except (ImportError, OSError, AttributeError, StopIteration, TypeError, ValueError):
        return


def levels(codec_id: int | None, level: int | None) -> list[int]:
    """What the desk compresses with, by codec id, once the libraries have been looked at.

    `codec_id` None: the rows bring their own codecs, and each has its default level. ValueError for a level that Kafka
    refuses.
    """
    found = [codec.default_level or 0 for codec in CODECS]
    for codec in CODECS:
        if codec_id is None or codec.id == codec_id:
            _install(codec.name)
    if codec_id is not None:
        found[codec_id] = checked_level(codec_id, level) or 0
    return found
