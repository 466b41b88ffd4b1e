"""The platforms that wheels are made for: one table for fetching, compiling, packing and for RELEASING.md."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import NamedTuple

from packaging import tags

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
# PEP 600: the names that came before manylinux_2_y, by y.
_OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


class Platform(NamedTuple):
    """One platform.

    name      as on the command line
    machine   as Python's platform.machine()
    libc      glibc, musl or macos
    oldest    the oldest version of it that is supported
    target    of `zig cc`
    tag       of a kafkarec wheel that was compiled for `target`
    locks     the lock files of its dependencies; a later one replaces lines of an earlier one
    fat       whether the spark_udfs wheel has it
    lacks     dependencies that have no wheel for it
    """

    name: str
    machine: str
    libc: str
    oldest: tuple[int, int]
    target: str
    tag: str
    locks: tuple[str, ...]
    fat: bool = False
    lacks: tuple[str, ...] = ()

    @property
    def tags(self) -> list[str]:
        """The tags of its oldest system, best first (PEP 600, PEP 656)."""
        if self.libc == "macos":
            return list(tags.mac_platforms(self.oldest, self.machine))
        if self.libc == "musl":
            return [f"musllinux_1_{minor}_{self.machine}" for minor in range(self.oldest[1], -1, -1)]
        names = [f"manylinux_2_{minor}" for minor in range(self.oldest[1], 4, -1)]
        return [f"{each}_{self.machine}" for each in (*names, *_OLD_NAMES.values())]

    def ranks(self, python: str) -> dict[tags.Tag, int]:
        """What a CPython, such as "3.12", can use there: tag -> place, 0 is the best."""
        version = tuple(map(int, python.split(".")))
        interpreter = f"cp{python.replace('.', '')}"
        own = tags.cpython_tags(version, [interpreter], self.tags)
        return {tag: n for n, tag in enumerate([*own, *tags.compatible_tags(version, interpreter, self.tags)])}


_GLIBC, _OTHER = ("runtime", "glibc217"), ("runtime",)
_X86, _ARM, _LZ4 = "x86_64", "aarch64", ("lz4",)
_2_17 = ("glibc", (2, 17))
_1_2 = ("musl", (1, 2))
_11 = ("macos", (11, 0))
PLATFORMS = (
    Platform("manylinux-x86_64", _X86, *_2_17, "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", _GLIBC, True),
    Platform("manylinux-aarch64", _ARM, *_2_17, "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", _GLIBC, True),
    Platform("musllinux-x86_64", _X86, *_1_2, "x86_64-linux-musl", "musllinux_1_2_x86_64", _OTHER, lacks=_LZ4),
    Platform("musllinux-aarch64", _ARM, *_1_2, "aarch64-linux-musl", "musllinux_1_2_aarch64", _OTHER, lacks=_LZ4),
    Platform("macos-arm64", "arm64", *_11, "aarch64-macos.11.0", "macosx_11_0_arm64", _OTHER),
    Platform("macos-x86_64", _X86, *_11, "x86_64-macos.11.0", "macosx_11_0_x86_64", _OTHER),
)
BY_NAME = {one.name: one for one in PLATFORMS}


def here() -> Platform | None:
    """The platform of this machine; None: none of the table."""
    libc = "macos" if sys.platform == "darwin" else platform.libc_ver()[0] or "musl"
    matches = (one for one in PLATFORMS if (one.machine, one.libc) == (platform.machine(), libc))
    return next(matches, None)
