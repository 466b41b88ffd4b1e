"""`make aarch64`: the wheels for aarch64 run here, under qemu-user (Debian, Ubuntu), natively on an aarch64 machine.

    .cache/aarch64/root       a Python for aarch64, unpacked from this system's packages and not installed
    .cache/aarch64/packages   what the tests import and what has compiled modules of its own
    .cache/aarch64/python     starts that Python under qemu; tests start it again in processes of their own
    .cache/aarch64/unpacked   what the spark_udfs wheel's bootstrap unpacks there

The bootstrap of the spark_udfs wheel decodes some vectors, `kafkarec doctor` says what was found, then FILES run with
the unpacked wheels. usage: aarch64.py [ARGUMENTS OF pytest]
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import wheelhouse_check  # noqa: E402
from wheelhouse_platforms import BY_NAME  # noqa: E402

import wheelhouse  # noqa: E402

FILES = (
    "tests/unit/core/test_checksum.py",
    "tests/unit/core/test_native.py",
    "tests/unit/read/test_vectors.py",
    "tests/unit/read/test_invalid.py",
    "tests/unit/write/test_encode.py",
)
WORK = ROOT / ".cache" / "aarch64"
QEMU = "qemu-aarch64-static"
TARGET = BY_NAME["manylinux-aarch64"]
LIBRARIES = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libssl3")
COMPILED = ("hypothesis", "pyarrow")


def needed(command: str, package: str) -> None:
    """Installs a package where that is allowed; else ends with what to type."""
    if shutil.which(command):
        return
    line = ["apt-get", "install", "-y", "--no-install-recommends", package]
    if os.geteuid() or not shutil.which("apt-get"):
        raise SystemExit(f"{command} is missing: {' '.join(line)}, or another system's package of it")
    print("+", *line, flush=True)
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def python_packages() -> tuple[str, ...]:
    """The packages of this system's own Python, in another architecture too."""
    listed = subprocess.run(["apt-cache", "depends", "python3-minimal"], capture_output=True, text=True, check=True)
    version = re.search(r"python(3\.\d+)-minimal", listed.stdout)
    if version is None:
        raise SystemExit("this system has no package python3-minimal: make aarch64 needs Debian or Ubuntu")
    return f"python{version[1]}-minimal", f"libpython{version[1]}-minimal", f"libpython{version[1]}-stdlib"


def unpack_python() -> Path:
    """The Python for aarch64. Its packages are fetched with lists of their own, so the system is not changed."""
    root = WORK / "root"
    found = sorted(root.glob("usr/bin/python3.*[0-9]"))
    if found:
        return found[0]
    packages = WORK / "packages.deb"
    for folder in (WORK / "lists" / "partial", WORK / "archives" / "partial", packages):
        folder.mkdir(parents=True, exist_ok=True)
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State::lists": WORK / "lists",
        "Dir::Cache": WORK,
        "Dir::State::status": "/dev/null",
    }
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    for words in (["update"], ["download", *python_packages(), *LIBRARIES]):
        subprocess.run([*apt, *words], cwd=packages, check=True, stdout=subprocess.DEVNULL)
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    return unpack_python()


def wrapper(python: Path) -> Path:
    """A command that is that Python. sys.executable is the wrapper, so that tests start it, too."""
    site = WORK / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(WORK / 'python')!r}\n")
    started = WORK / "python"
    started.write_text(f'#!/bin/sh\nexec {QEMU} -L {WORK / "root"} {python} "$@"\n')
    started.chmod(0o755)
    return started


def fetch_packages(python: Path) -> Path:
    """What the tests import that is compiled, at the locked versions."""
    target = WORK / "packages"
    locked = (ROOT / "requirements" / "test.txt").read_text(encoding="utf-8")
    wanted = [line[0] for name in COMPILED if (line := re.search(rf"(?m)^{name}==[^\s;]+", locked))]
    version = python.name.removeprefix("python")
    if all(list(target.glob(f"{each.replace('==', '-')}.dist-info")) for each in wanted):
        return target
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--upgrade"]
    command += ["--python-version", version, "--implementation", "cp", "--abi", f"cp{version.replace('.', '')}"]
    command += ["--abi", "abi3", "--abi", "none", "--platform", "manylinux_2_28_aarch64", "--target", str(target)]
    for tag in TARGET.interpreter(version).platforms:
        command += ["--platform", tag]
    subprocess.run([*command, *wanted], check=True)
    return target


def main(arguments: list[str]) -> int:
    if platform.machine() == "aarch64":
        return subprocess.run([sys.executable, "-m", "pytest", *(arguments or FILES)], cwd=ROOT, check=False).returncode
    needed(QEMU, "qemu-user-static")
    python = unpack_python()
    command, packages = wrapper(python), fetch_packages(python)
    fat = ROOT / "wheelhouse" / f"spark_udfs-{wheelhouse.version()}-py3-none-any.whl"
    outcome = wheelhouse_check.try_in(str(command), fat, ROOT, WORK / "unpacked")
    print(f"aarch64: {fat.name}, {fat.stat().st_size / 1e6:.1f} MB: {outcome.words}", flush=True)
    if not outcome.passed:
        return 1
    (manifest,) = sorted((WORK / "unpacked").glob("*/*/kafkarec/__init__.py"), key=os.path.getmtime)[-1:]
    path = [manifest.parents[1], WORK / "site", packages, *(ROOT / ".venv").glob("lib/python3*/site-packages")]
    env = os.environ | {"PYTHONPATH": ":".join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([str(command), "-m", "kafkarec", "doctor"], cwd=WORK, env=env, check=True)
    tests = [str(ROOT / each) if (ROOT / each.partition("::")[0]).exists() else each for each in arguments or FILES]
    words = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run([str(command), "-m", "pytest", *words, *tests], cwd=WORK, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
