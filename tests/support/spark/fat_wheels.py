"""Small fat wheels for the bootstrap tests: a fake `kafkarec` with one real shared library."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wheelhouse_pack
from paths import ROOT

import wheelhouse
from spark_udfs.bootstrap import TREES

VERSION = "9.8.7"

# Run with -I -S: nothing but the standard library and the fat wheel. Prints one line of JSON.
PROGRAM = r"""
import json, os, sys
sys.path.insert(0, sys.argv[1])
from spark_udfs import bootstrap
try:
    activated = bootstrap.activate()
    import kafkarec
    output = {"path": activated.path, "source": activated.source, "notes": activated.notes, "file": kafkarec.__file__}
except bootstrap.BootstrapError as error:
    output = {"error": str(error)}
print(json.dumps(output))
"""


def program(code: str) -> str:
    """PROGRAM with more code between finding spark_udfs and using it."""
    return PROGRAM.replace("try:\n", f"{code}\ntry:\n", 1)


def a_shared_library() -> bytes:
    """Return the bytes of a real extension module of this interpreter, for the bootstrap to load."""
    spec = importlib.util.find_spec("crc32c._crc32c")
    return Path(spec.origin).read_bytes()


def kafkarec_wheel(folder: Path, version: str = VERSION) -> Path:
    """Write a fake kafkarec wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    dist_info = f"kafkarec-{version}.dist-info"
    files = {
        "kafkarec/__init__.py": b"from ._version import __version__\n",
        "kafkarec/_version.py": f'__version__ = "{version}"\n'.encode(),
        "kafkarec/_library.so": a_shared_library(),
        f"{dist_info}/METADATA": f"Name: kafkarec\nVersion: {version}\nRequires-Dist: crc32c>=2.7\n".encode(),
    }
    return wheelhouse_pack.write_wheel(folder / f"kafkarec-{version}-py3-none-any.whl", files, dist_info)


def fat_wheel(folder: Path, version: str = VERSION, *libraries: Path) -> Path:
    """Write a fat wheel with the fake kafkarec and these wheels, for each CPython on this machine."""
    wheels = (kafkarec_wheel(folder, version), *libraries)
    trees = [wheelhouse_pack.Tree(python, platform.machine(), (2, 17), wheels) for python in wheelhouse.PYTHONS]
    return wheelhouse_pack.fat_wheel(ROOT / "spark_udfs", version, wheelhouse_pack.trees_data(version, trees), folder)


def edited(fat: Path, target: Path, name: str, edit: Callable[[bytes], bytes | None]) -> Path:
    """A copy of the fat wheel in which one file of its data is another one; None: it is missing."""
    files, dist_info = wheelhouse_pack.read_wheel(fat)
    content = edit(files.pop(f"{TREES}/{name}"))
    if content is not None:
        files[f"{TREES}/{name}"] = content
    return wheelhouse_pack.write_wheel(target, files, dist_info)


def activate(fat: Path, root: Path | None, code: str = PROGRAM, **options) -> dict[str, Any]:
    """Run the bootstrap in a new process and return its JSON output."""
    python = options.pop("python", sys.executable)
    done = subprocess.run(command(fat, code, python), **settings(root, **options))
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def command(fat: Path, code: str = PROGRAM, python: str = sys.executable) -> list[str]:
    return [python, "-I", "-S", "-c", code, str(fat)]


def settings(root: Path | None, environ: dict[str, str] | None = None, **options) -> dict[str, Any]:
    """Return arguments of subprocess.run: an environment of PATH and what the test sets, no HOME."""
    chosen = {"PATH": os.environ.get("PATH", "")} | (environ or {})
    if root is not None:
        chosen["KAFKAREC_CACHE"] = str(root)
    return {"capture_output": True, "text": True, "check": False, "env": chosen} | options
