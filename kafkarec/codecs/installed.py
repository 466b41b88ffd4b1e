"""Installed codec libraries, and how payloads are decompressed and compressed with each: for `doctor`."""

from __future__ import annotations

from importlib import metadata

from . import CODECS, Codec, native
from .codec_errors import MissingCodec, load


def versions() -> dict[str, dict[str, str | None]]:
    """Codec name -> library (its pip name), version (None: missing), how payloads are read and written.

    Imports all the libraries.
    """
    return {
        codec.name: {"library": codec.pip_name, "version": _version(codec.pip_name), "how": _how_called(codec)}
        for codec in CODECS
        if codec.pip_name and codec.module
    }


def _how_called(codec: Codec) -> str | None:
    """The module in use, and what is done by direct calls of its C functions, or by ours; None: it is not installed."""
    try:
        load(str(codec.module), codec.name, str(codec.pip_name))
    except MissingCodec:
        return None
    if codec.name not in native.in_use:
        return codec.module
    words = "read and written" if codec.name in native.WRITTEN else "read"
    return f"{codec.module}, plain payloads {words} by {'kafkarec' if codec.name in native.OWN else 'pointer'}"


def _version(pip_name: str) -> str | None:
    try:
        return metadata.version(pip_name)
    except metadata.PackageNotFoundError:
        return None
