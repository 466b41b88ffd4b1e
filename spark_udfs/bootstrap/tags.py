"""Which wheels fit this interpreter: the compatibility tags of PEP 425, 600 and 656, standard library only.

A Spark executor may have neither pip nor `packaging`, so the part of their logic that wheels with a C
extension need is here: CPython, Linux with glibc or musl, macOS. Tags are strings
"cp311-abi3-manylinux_2_28_x86_64", best first.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

# PEP 600: the names that came before manylinux_x_y, and the glibc minor version each one stands for.
LEGACY_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# abi3 began with CPython 3.2; no wheel of ours is older than this.
FIRST_ABI3_MINOR = 2


class Interpreter:
    """The properties that determine the tags: of this interpreter or (in the wheelhouse builder) of another one."""

    def __init__(self, version: tuple[int, int], abiflags: str, platforms: list[str], libc: str) -> None:
        self.version = version
        self.abiflags = abiflags
        self.platforms = platforms
        self.libc = libc

    @property
    def name(self) -> str:
        """`cp311`; `cp313t` where the GIL is disabled."""
        return f"cp{self.version[0]}{self.version[1]}{self.abiflags}"

    def __repr__(self) -> str:
        return f"<{self.name} on {self.platforms[0] if self.platforms else 'an unknown platform'}, {self.libc}>"


def this_interpreter() -> Interpreter:
    libc = libc_version()
    flags = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return Interpreter((sys.version_info[0], sys.version_info[1]), flags, list(platform_tags(libc)), libc)


def libc_version() -> str:
    """`glibc-2.36`, `musl-1.2`, `macos-14`, or `unknown`."""
    if sys.platform == "darwin":
        return "macos-" + platform.mac_ver()[0].split(".")[0]
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc" and re.fullmatch(r"\d+\.\d+.*", version):
            return f"glibc-{version}"
    except (AttributeError, OSError, ValueError):
        pass  # confstr does not have this name: not glibc
    return _musl_version()


def _musl_version() -> str:
    """The version of musl, which only its loader prints; the interpreter's ELF header has the path of the loader."""
    try:
        with open(sys.executable, "rb") as file:
            loader = re.search(rb"/[\w/.-]*ld-musl-[\w.-]+", file.read(1 << 16))
        if loader:
            output = subprocess.run([os.fsdecode(loader[0])], capture_output=True, text=True, check=False).stderr
            version = re.search(r"Version (\d+\.\d+)", output)
            if version:
                return f"musl-{version[1]}"
    except OSError:
        pass
    return "unknown"


def this_machine() -> str:
    """The processor that this interpreter is compiled for."""
    machine = platform.machine() or "unknown"
    if sys.maxsize <= 2**32:  # a 32-bit interpreter on a 64-bit kernel
        machine = {"x86_64": "i686", "aarch64": "armv7l"}.get(machine, machine)
    return machine


def platform_tags(libc: str, machine: str = "") -> Iterator[str]:
    """Platform tags, best first, for a libc and a machine; "": this one."""
    machine = machine or this_machine()
    family, _, version = libc.partition("-")
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    if family == "glibc" and len(numbers) >= 2:
        for minor in range(numbers[1], 4, -1):
            yield f"manylinux_{numbers[0]}_{minor}_{machine}"
            if minor in LEGACY_MANYLINUX:
                yield f"{LEGACY_MANYLINUX[minor]}_{machine}"
    elif family == "musl" and len(numbers) >= 2:
        for minor in range(numbers[1], -1, -1):
            yield f"musllinux_{numbers[0]}_{minor}_{machine}"
    elif family == "macos" and numbers:
        for major in range(max(numbers[0], 11), 10, -1):
            yield f"macosx_{major}_0_{machine}"
            yield f"macosx_{major}_0_universal2"
        if machine == "x86_64":
            for minor in range(16, 8, -1):
                yield f"macosx_10_{minor}_x86_64"
                yield f"macosx_10_{minor}_universal2"
        return
    yield re.sub(r"[-.]", "_", sysconfig.get_platform()) if sys.platform != "linux" else f"linux_{machine}"


def compatible_tags(python: Interpreter) -> list[str]:
    """Every tag this interpreter can use, best first."""
    major, minor = python.version
    own = f"cp{major}{minor}"
    tags = [f"{own}-{python.name}-{each}" for each in python.platforms]
    if "t" not in python.abiflags:  # free-threaded builds cannot load the stable ABI
        for older in range(minor, FIRST_ABI3_MINOR - 1, -1):
            tags += [f"cp{major}{older}-abi3-{each}" for each in python.platforms]
    tags += [f"{own}-none-{each}" for each in python.platforms]
    pure = [
        own,
        f"py{major}{minor}",
        f"py{major}",
        *(f"py{major}{older}" for older in range(minor - 1, -1, -1)),
    ]
    tags += [f"{each}-none-{where}" for where in [*python.platforms, "any"] for each in pure]
    return tags


def wheel_tags(file_name: str) -> list[str]:
    """The tags in a wheel's file name; `a.b-c-d.e` means four of them (PEP 425)."""
    parts = file_name.removesuffix(".whl").split("-")
    if len(parts) not in (5, 6) or not file_name.endswith(".whl"):
        raise ValueError(f"not the name of a wheel: {file_name!r}")
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    return [f"{python}-{abi}-{where}" for python in pythons for abi in abis for where in platforms]
