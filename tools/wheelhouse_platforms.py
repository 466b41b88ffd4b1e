"""The platforms that wheels are made for: one table for fetching, compiling, packing and for RELEASING.md; and the
dependency wheels at their locked versions, per platform and CPython, from .cache/wheels or else by pip download.

The locks (requirements/) hold hashes: pip refuses a file that is not the locked one, and no other cached one is used.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from packaging import tags
from packaging.utils import canonicalize_name
from wheelhouse_pack import sha256

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


class Locked(NamedTuple):
    """A project's version in a lock file, and the SHA-256 of its files."""

    project: str
    version: str
    hashes: frozenset[str]

    @property
    def line(self) -> str:
        """As a requirement for pip."""
        return " ".join((f"{self.project}=={self.version}", *(f"--hash=sha256:{each}" for each in sorted(self.hashes))))


def locked(*names: str) -> dict[str, Locked]:
    """project -> what these lock files have of it, of several the last."""
    found = {}
    for name in names:
        for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", (LOCKS / f"{name}.txt").read_text(encoding="utf-8")):
            if head := re.match(r"([\w.-]+)==([^\s;\\]+)", entry):
                hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
                found[canonicalize_name(head[1])] = Locked(canonicalize_name(head[1]), head[2], hashes)
    return found


def dependencies(platform: Platform) -> list[Locked]:
    """What kafkarec's wheel for a platform needs, without what has no wheel for it."""
    return [one for one in locked(*platform.locks).values() if one.project not in platform.lacks]


def dependency_wheels(platform: Platform, python: str, cache: Path) -> tuple[list[Path], list[str]]:
    """(the wheels for a CPython, such as "3.12"; a line for each that does not exist)."""
    return wheels_of(dependencies(platform), platform, python, cache / f"{platform.name}-{python}")


def wheels_of(wanted: list[Locked], platform: Platform, python: str, folder: Path) -> tuple[list[Path], list[str]]:
    """The same of these projects, downloaded into a folder that has no other platform's."""
    folder.mkdir(parents=True, exist_ok=True)
    lacking = [one for one in wanted if cached(folder, one) is None]
    said = _download(folder, lacking, platform, python) if lacking else ""
    absent = []
    for one in lacking:
        if cached(folder, one) is None and len(lacking) > 1:  # pip downloads all or none
            said = _download(folder, [one], platform, python)
        if cached(folder, one) is None:
            absent.append(f"{one.project} {one.version} for CPython {python} on {platform.name} ({said})")
    return [wheel for one in wanted if (wheel := cached(folder, one))], absent


def cached(folder: Path, wanted: Locked) -> Path | None:
    """Its wheel, if pip has downloaded it there."""
    files = folder.glob(f"*-{wanted.version}-*.whl")
    return next((file for file in files if sha256(file) in wanted.hashes), None)


def _download(folder: Path, wanted: list[Locked], platform: Platform, python: str) -> str:
    """Runs pip; returns the last line of its output, for the case that a wheel was not downloaded."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for tag in platform.tags:
        command += ["--platform", tag]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.writelines(f"{one.line}\n" for one in wanted)
        listed.flush()
        command += ["--dest", str(folder), "-r", listed.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = (done.stderr or done.stdout).strip().splitlines()
    return printed[-1] if printed else "pip gave no reason"
