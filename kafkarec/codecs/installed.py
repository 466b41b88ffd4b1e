"""Installed codec libraries, and how payloads are decompressed and compressed with each: for `doctor`."""

from __future__ import annotations

from importlib import metadata

from . import CODECS, Codec, native_compress, native_decompress
from .codec_errors import MissingCodec, load


def versions() -> dict[str, dict[str, str | None]]:
    """Codec name -> library (its pip name), version (None: missing), how payloads are read and written.

    Imports all the libraries.
    """
    return {
        codec.name: {"library": codec.pip_name, "version": _version(codec.pip_name), "how": _calls(codec)}
        for codec in CODECS
        if codec.pip_name and codec.module
    }


def _calls(codec: Codec) -> str | None:
    """The module in use, and what is done by direct calls of its C functions, or by ours; None: it is not installed."""
    try:
        load(str(codec.module), codec.name, str(codec.pip_name))
    except MissingCodec:
        return None
    native_compress.install(codec.name)
    used = (("read", native_decompress.in_use), ("written", native_compress.in_use))
    direct = [word for word, names in used if codec.name in names]
    how = "by kafkarec" if codec.name in native_decompress.OWN else "by pointer"
    return f"{codec.module}, plain payloads {' and '.join(direct)} {how}" if direct else codec.module


def _version(pip_name: str) -> str | None:
    try:
        return metadata.version(pip_name)
    except metadata.PackageNotFoundError:
        return None
