"""The platforms that wheels are made for: one table for fetching, compiling, packing and for RELEASING.md; and the
dependency wheels at their locked versions, per platform and CPython, from .cache/wheels or else by pip download.

The locks (requirements/) hold hashes, so pip refuses a file that is not the locked one; a cached wheel is compared with
the same hashes.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from packaging import tags
from packaging.utils import parse_wheel_filename
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


def locked(lock: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """project -> (version, sha256 of its files)."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8")):
        head = re.match(r"([\w.-]+)==([^\s;\\]+)", entry)
        if head:
            name = re.sub(r"[-_.]+", "-", head[1]).lower()
            found[name] = (head[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
    return found


def dependencies(platform: Platform) -> dict[str, tuple[str, frozenset[str]]]:
    """The same for the locks of a platform, without what has no wheel for it."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for name in platform.locks:
        found |= locked(LOCKS / f"{name}.txt")
    return {project: line for project, line in found.items() if project not in platform.lacks}


def dependency_wheels(
    platform: Platform, pythons: tuple[str, ...], cache: Path
) -> tuple[dict[str, list[Path]], dict[str, list[str]]]:
    """(CPython -> its wheels, CPython -> a line for each of its wheels that does not exist)."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels: dict[str, list[Path]] = {}
    absent: dict[str, list[str]] = {}
    wanted = dependencies(platform)
    for python in pythons:
        lacking = {name: line for name, line in wanted.items() if not _cached(cache, name, *line, platform, python)}
        said = _download(cache, lacking, platform, python) if lacking else ""
        for name, line in wanted.items():
            wheel = _cached(cache, name, *line, platform, python)
            if wheel is None and len(lacking) > 1:  # pip downloads all or none
                said = _download(cache, {name: line}, platform, python)
                wheel = _cached(cache, name, *line, platform, python)
            if wheel:
                wheels.setdefault(python, []).append(wheel)
            else:
                absent.setdefault(python, []).append(
                    f"{name} {line[0]} for CPython {python} on {platform.name} ({said})"
                )
    return wheels, absent


def _cached(
    cache: Path, project: str, version: str, hashes: frozenset[str], platform: Platform, python: str
) -> Path | None:
    ranks = platform.ranks(python)
    fitting = []
    for file in cache.glob(f"*-{version}-*.whl"):
        name, _, _, tags = parse_wheel_filename(file.name)
        places = [ranks[tag] for tag in tags if tag in ranks]
        if name == project and places and (not hashes or sha256(file) in hashes):
            fitting.append((min(places), file))
    return min(fitting)[1] if fitting else None


def _download(cache: Path, lines: dict[str, tuple[str, frozenset[str]]], platform: Platform, python: str) -> str:
    """Runs pip; returns the last line of its output, for the case that a wheel was not downloaded."""
    listed = cache / "wanted.txt"
    hashed = [
        (f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sorted(hashes)))
        for name, (version, hashes) in lines.items()
    ]
    listed.write_text("".join(" ".join(words) + "\n" for words in hashed), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for tag in platform.tags:
        command += ["--platform", tag]
    command += ["--dest", str(cache), "-r", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed.unlink()
    printed = (done.stderr or done.stdout).strip().splitlines()
    return printed[-1] if printed else "pip gave no reason"
