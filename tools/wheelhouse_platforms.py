"""The platforms that wheels are made for: one table for fetching, compiling, packing and for RELEASING.md; and the
dependency wheels at their locked versions, per platform and CPython, from .cache/wheels or else by pip download.

The locks (requirements/) hold hashes: pip refuses a file that is not the locked one.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from commands import CACHE, ROOT, contains, run
from packaging.utils import canonicalize_name

LOCKS = ROOT / "requirements"
# PEP 600: the names that came before manylinux_2_y, by y.
_OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


class Platform(NamedTuple):
    """One platform.

    name      in messages
    machine   as Python's platform.machine()
    libc      glibc, musl or macos
    oldest    the oldest version of it that is supported
    target    of `zig cc`
    tag       of a kafkarec wheel that was compiled for `target`
    """

    name: str
    machine: str
    libc: str
    oldest: tuple[int, int]
    target: str
    tag: str

    @property
    def fat(self) -> bool:
        """Whether the spark_udfs wheel has it."""
        return self.libc == "glibc"

    @property
    def tags(self) -> list[str]:
        """The tags of its oldest system, best first (PEP 600, PEP 656)."""
        if self.libc == "macos":
            return [self.tag]  # pip knows the older ones
        if self.libc == "musl":
            return [f"musllinux_1_{minor}_{self.machine}" for minor in range(self.oldest[1], -1, -1)]
        names = [f"manylinux_2_{minor}" for minor in range(self.oldest[1], 4, -1)]
        return [f"{each}_{self.machine}" for each in (*names, *_OLD_NAMES.values())]


_X86, _ARM = "x86_64", "aarch64"
PLATFORMS = (
    Platform("manylinux-x86_64", _X86, "glibc", (2, 17), "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    Platform("manylinux-aarch64", _ARM, "glibc", (2, 17), "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    Platform("musllinux-x86_64", _X86, "musl", (1, 2), "x86_64-linux-musl", "musllinux_1_2_x86_64"),
    Platform("musllinux-aarch64", _ARM, "musl", (1, 2), "aarch64-linux-musl", "musllinux_1_2_aarch64"),
    Platform("macos-arm64", "arm64", "macos", (11, 0), "aarch64-macos.11.0", "macosx_11_0_arm64"),
    Platform("macos-x86_64", _X86, "macos", (11, 0), "x86_64-macos.11.0", "macosx_11_0_x86_64"),
)
BY_NAME = {one.name: one for one in PLATFORMS}


def here() -> Platform:
    """The platform of this machine; ends this process if it is none of the table."""
    libc = "macos" if sys.platform == "darwin" else platform.libc_ver()[0] or "musl"
    for one in PLATFORMS:
        if (one.machine, one.libc) == (platform.machine(), libc):
            return one
    raise SystemExit(f"this machine's platform is none of tools/wheelhouse_platforms.py: {', '.join(BY_NAME)}")


def locked(*names: str) -> dict[str, str]:
    """project -> its entry in these lock files, a requirement with hashes, of several the last."""
    found: dict[str, str] = {}
    for name in names:
        entries = re.split(r"(?m)^(?=[A-Za-z0-9])", (LOCKS / f"{name}.txt").read_text(encoding="utf-8"))[1:]
        found |= {canonicalize_name(entry.partition("==")[0]): entry for entry in entries}
    return found


def dependencies(platform: Platform) -> dict[str, str]:
    """What kafkarec's wheel for a platform needs, without lz4 where that has no wheel."""
    found = locked("runtime", "glibc217") if platform.libc == "glibc" else locked("runtime")
    return {name: entry for name, entry in found.items() if not (platform.libc == "musl" and name == "lz4")}


def dependency_wheels(platform: Platform, python: str) -> list[Path]:
    """Their wheels for a CPython, such as "3.12"."""
    wanted = dependencies(platform).values()
    return wheels_of(wanted, platform, python, CACHE / "wheels" / f"{platform.name}-{python}")


def wheels_of(entries: Iterable[str], platform: Platform, python: str, folder: Path) -> list[Path]:
    """The wheels of these entries of locks, downloaded once into a folder of their own."""
    wanted, done, listed = "".join(entries), folder / "downloaded.txt", folder / "wanted.txt"
    if not contains(done, wanted):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        listed.write_text(wanted)
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        those = ("--only-binary=:all:", "--implementation=cp", f"--python-version={python}")
        those += tuple(f"--platform={tag}" for tag in platform.tags)
        run(*pip, *those, "--dest", folder, "-r", listed)
        listed.rename(done)
    return sorted(folder.glob("*.whl"))
