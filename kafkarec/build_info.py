"""Versions of the package and its libraries, and the CRC and codec routines in use."""

from __future__ import annotations

import sys
from typing import Any

from kafkarec._version import __version__


def _version(package: str) -> str | None:
    from importlib import metadata  # not at the top: it takes longer than all of `kafkarec --help`

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def build_info() -> dict[str, Any]:
    """Versions and implementations in use, for `doctor`: the package, its build, the CRC routine, each codec."""
    from kafkarec import _core
    from kafkarec.codecs import installed

    crc_routines = {
        "isal": "ISA-L's routine, by pointer",
        "own": "own routine, with the processor's CRC instructions",
        "table": "own table, no hardware",
    }
    return {
        "kafkarec": __version__,
        "python": sys.version.split()[0],
        "abi": "abi3" if ".abi3." in (_core.__file__ or "") else sys.implementation.cache_tag,
        "cython": _core.CYTHON_VERSION,
        "crc32c": {"way": crc_routines[_core.CRC32C_WAY], "library": _version("isal")},
        "codecs": installed.versions(),
    }
