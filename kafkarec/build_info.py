"""Versions of the package and its libraries, and the routines of checksums and codecs in use."""

from __future__ import annotations

import sys

from kafkarec._version import __version__

TYPE_CHECKING = False  # as in kafkarec/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from kafkarec._checksum import Routine
    from kafkarec.codecs import Codec


def version_of(package: str) -> str | None:
    """The installed version; None: not installed."""
    from importlib import metadata  # not at the top: it takes longer than all of `kafkarec --help`

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def build_info() -> dict[str, Any]:
    """Versions and implementations in use, for `doctor`: the package, its build, checksums, each codec with its library
    (pip name), its version (None: missing), and how payloads are read and written. Imports all these libraries."""
    from kafkarec import _core
    from kafkarec.codecs import CODECS

    routines = _core.ROUTINES
    return {
        "kafkarec": __version__,
        "python": sys.version.split()[0],
        "abi": "abi3" if ".abi3." in (_core.__file__ or "") else sys.implementation.cache_tag,
        "cython": _core.CYTHON_VERSION,
        "crc32c": {
            "small": f"{_routine_text(routines.small)} (below 256 bytes)",
            "large": f"{_routine_text(routines.large)} (from 256 bytes on)",
        },
        "crc32": _routine_text(routines.crc32),
        "wrong_checksums": list(map(_routine_text, routines.wrong)),
        "codecs": {
            codec.name: {"library": codec.pip_name, "version": version_of(codec.pip_name), "how": _how_called(codec)}
            for codec in CODECS
            if codec.pip_name
        },
    }


def _routine_text(routine: Routine) -> str:
    if routine.library is None:
        return f"kafkarec's {routine.function}"
    return f"{routine.library} {version_of(routine.library)} {routine.function}"


def _how_called(codec: Codec) -> str | None:
    """The module in use, and what is done by direct calls of its C functions, or by ours; None: it is not installed."""
    from kafkarec.codecs import MissingCodec, native
    from kafkarec.codecs.codec_errors import load

    try:
        load(str(codec.module), codec.name, str(codec.pip_name))
    except MissingCodec:
        return None
    if codec.name not in native.in_use:
        return codec.module
    words = "read and written" if codec.name in native.WRITTEN else "read"
    return f"{codec.module}, plain payloads {words} by {'kafkarec' if codec.name in native.OWN else 'pointer'}"
