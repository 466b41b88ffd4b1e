"""`make aarch64`, `make python3.14`, `make musl`: the wheels in a CPython that this machine does not have.

| name | interpreter | started by | needs |
|---|---|---|---|
| aarch64 | Debian's packages for that processor | qemu-user | Debian or Ubuntu; natively: an aarch64 machine |
| python3.14 | packages of the next Debian | its own dynamic linker | Debian |
| musl | Debian's sources of CPython 3.13, compiled by zig (tools/musl_python.py) | itself | Debian |

    .cache/NAME/root       what was unpacked; nothing is installed
    .cache/NAME/python     starts that Python; tests start it again in processes of their own
    .cache/NAME/packages   what the tests import and what has compiled modules of its own, from .cache/NAME/downloads
    .cache/NAME/wheels     kafkarec and its dependencies, unpacked; by the spark_udfs wheel's bootstrap if it has them

The bootstrap decodes some vectors, `kafkarec doctor` says what was found, then FILES run with the unpacked wheels.
usage: other_pythons.py NAME [ARGUMENTS OF pytest]
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import musl_python
import system_packages
import wheelhouse_build
import wheelhouse_check
from commands import CACHE, ROOT, write_command
from wheelhouse_platforms import BY_NAME, dependency_wheels, locked, wheels_of

import wheelhouse

FILES = (
    "tests/unit/core/test_checksum.py",
    "tests/unit/core/test_native.py",
    "tests/unit/read/test_vectors.py",
    "tests/unit/read/test_invalid.py",
    "tests/unit/write/test_encode.py",
)
COMPILED = ("hypothesis", "pyarrow")
NEWER_GLIBC = (2, 28)  # that these two have wheels for
_PACKAGES = "python{},libstdc++6"  # pyarrow is linked with the second


def aarch64(work: Path) -> tuple[str, Path]:
    """(the words that start it, its executable)."""
    qemu = system_packages.command("qemu-aarch64-static", "qemu-user-static")
    root = system_packages.unpacked(work, _PACKAGES.format("3.11"), "bookworm", "--architectures=arm64")
    python = root / "usr" / "bin" / "python3.11"
    return f"{qemu} -L {root} {python}", python


def python314(work: Path) -> tuple[str, Path]:
    """The same for CPython 3.14."""
    root = system_packages.unpacked(work, _PACKAGES.format("3.14"), "forky")
    python = root / "usr" / "bin" / "python3.14"
    (linker,) = root.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
    return f"{linker} --library-path {linker.parent} {python}", python


def musl(work: Path) -> tuple[str, Path]:
    """The same for a CPython with musl."""
    python = musl_python.build(work)
    return str(python), python


MAKERS: dict[str, tuple[Callable[[Path], tuple[str, Path]], str]] = {
    "aarch64": (aarch64, "manylinux-aarch64"),
    "python3.14": (python314, f"manylinux-{platform.machine()}"),
    "musl": (musl, f"musllinux-{platform.machine()}"),
}


def wrapper(work: Path, words: str) -> Path:
    """A command that is that Python. sys.executable is the wrapper, so that tests start it, too."""
    (work / "site").mkdir(exist_ok=True)
    (work / "site" / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(work / 'python')!r}\n")
    return write_command(work / "python", f'exec {words} "$@"')


def unpacked(wheels: list[Path], folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(folder)
        print(f"{folder.parent.name}: {wheel.name}", flush=True)
    return folder


def unpacked_by_bootstrap(work: Path, command: Path) -> Path:
    """The folder in which the bootstrap of the spark_udfs wheel has unpacked the wheels."""
    fat = ROOT / "wheelhouse" / f"spark_udfs-{wheelhouse.version()}-py3-none-any.whl"
    said = wheelhouse_check.try_in(str(command), fat, work / "wheels")
    print(f"{work.name}: {fat.name}, {fat.stat().st_size / 1e6:.1f} MB: {said}", flush=True)
    newest = max((work / "wheels").glob("*/*/kafkarec/__init__.py"), key=os.path.getmtime)
    return newest.parents[1]


def main(arguments: list[str]) -> int:
    name, *words = arguments
    maker, platform_name = MAKERS[name]
    tests = [str(ROOT / each) if (ROOT / each.partition("::")[0]).exists() else each for each in words or FILES]
    if name == platform.machine():
        return subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode
    work, target = CACHE / name, BY_NAME[platform_name]
    work.mkdir(parents=True, exist_ok=True)
    started_by, python = maker(work)
    command, version = wrapper(work, started_by), python.name.removeprefix("python")
    # What the tests import that is compiled, at the locked versions.
    its = target._replace(oldest=NEWER_GLIBC) if target.fat else target
    compiled = wheels_of([locked("test")[each] for each in COMPILED], its, version, work / "downloads")
    packages = unpacked(compiled, work / "packages")
    if target.fat:
        wheels = unpacked_by_bootstrap(work, command)
    else:  # one that the spark_udfs wheel does not have: by hand, and what lacks a wheel is compiled
        ours = wheelhouse_build.kafkarec_wheels(ROOT, [target], work)
        wheels = unpacked([*dependency_wheels(target, version), *ours], work / "wheels")
        musl_python.build_lz4(work, python, wheels)
    path = [wheels, work / "site", packages, *(ROOT / ".venv").glob("lib/python3*/site-packages")]
    # Compiled once for all processes, which costs seconds under qemu, and not beside the checkout's own.
    env = os.environ | {"PYTHONPATH": ":".join(map(str, path)), "PYTHONPYCACHEPREFIX": str(work / "pycache")}
    subprocess.run([str(command), "-m", "kafkarec", "doctor"], cwd=work, env=env, check=True)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run([str(command), "-m", "pytest", *options, *tests], cwd=work, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
