"""The platforms that wheels are made for: one table for fetching, compiling, packing and for RELEASING.md."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple

from spark_udfs.bootstrap import tags

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"


class Platform(NamedTuple):
    """One platform.

    name      as on the command line
    machine   as Python's platform.machine()
    libc      the oldest that is supported, as spark_udfs.bootstrap.tags writes it
    target    of `zig cc`
    tag       of a kafkarec wheel that was compiled for `target`
    locks     the lock files of its dependencies; a later one replaces lines of an earlier one
    fat       whether the spark_udfs wheel has it
    lacks     dependencies that have no wheel for it
    """

    name: str
    machine: str
    libc: str
    target: str
    tag: str
    locks: tuple[str, ...]
    fat: bool = False
    lacks: tuple[str, ...] = ()

    def interpreter(self, python: str) -> tags.Interpreter:
        """A CPython, such as "3.12", on the oldest system of this platform."""
        major, minor = map(int, python.split("."))
        return tags.Interpreter((major, minor), "", list(tags.platform_tags(self.libc, self.machine)), self.libc)


_GLIBC, _OTHER = ("runtime", "glibc217"), ("runtime",)
_X86, _ARM, _LZ4 = "x86_64", "aarch64", ("lz4",)
PLATFORMS = (
    Platform("manylinux-x86_64", _X86, "glibc-2.17", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", _GLIBC, True),
    Platform("manylinux-aarch64", _ARM, "glibc-2.17", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", _GLIBC, True),
    Platform("musllinux-x86_64", _X86, "musl-1.2", "x86_64-linux-musl", "musllinux_1_2_x86_64", _OTHER, lacks=_LZ4),
    Platform("musllinux-aarch64", _ARM, "musl-1.2", "aarch64-linux-musl", "musllinux_1_2_aarch64", _OTHER, lacks=_LZ4),
    Platform("macos-arm64", "arm64", "macos-11", "aarch64-macos.11.0", "macosx_11_0_arm64", _OTHER),
    Platform("macos-x86_64", _X86, "macos-11", "x86_64-macos.11.0", "macosx_11_0_x86_64", _OTHER),
)
BY_NAME = {one.name: one for one in PLATFORMS}


def here() -> Platform | None:
    """The platform of this machine; None: none of the table."""
    family = tags.libc_version().partition("-")[0]
    matches = (one for one in PLATFORMS if (one.machine, one.libc.partition("-")[0]) == (platform.machine(), family))
    return next(matches, None)
