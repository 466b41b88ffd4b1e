"""Small fat wheels for the bootstrap tests: a fake `kafkarec` with one real shared library, whole or damaged."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wheelhouse_pack
from paths import ROOT

VERSION = "9.8.7"
PLATFORM_TAG = "py3-none-any"
Files = dict[str, bytes]

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


def a_shared_library() -> bytes:
    """Return the bytes of a real extension module of this interpreter, for the bootstrap to load."""
    spec = importlib.util.find_spec("crc32c._crc32c")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_bytes()


def kafkarec_files(version: str = VERSION) -> tuple[Files, str]:
    """Return the files of a fake kafkarec wheel (without RECORD) and the name of its .dist-info folder."""
    dist_info = f"kafkarec-{version}.dist-info"
    return {
        "kafkarec/__init__.py": b"from ._version import __version__\n",
        "kafkarec/_version.py": f'__version__ = "{version}"\n'.encode(),
        "kafkarec/_library.so": a_shared_library(),
        f"{dist_info}/METADATA": f"Name: kafkarec\nVersion: {version}\nRequires-Dist: crc32c>=2.7\n".encode(),
        f"{dist_info}/WHEEL": f"Wheel-Version: 1.0\nTag: {PLATFORM_TAG}\n".encode(),
    }, dist_info


def fat_wheel(
    folder: Path,
    version: str = VERSION,
    tag: str = PLATFORM_TAG,
    spoil: Callable[[bytes], bytes] | None = None,
    change: Callable[[Files], None] | None = None,
) -> Path:
    """Write a fat wheel with the fake kafkarec. `change` edits its files, `spoil` the finished wheel's bytes (the
    manifest has the damaged wheel's hash, as for a wheel that was damaged before it was packed)."""
    folder.mkdir(parents=True, exist_ok=True)
    files, dist_info = kafkarec_files(version)
    if change:
        change(files)
    wheel = wheelhouse_pack.write_wheel(folder / f"kafkarec-{version}-{tag}.whl", files, dist_info)
    if spoil:
        wheel.write_bytes(spoil(wheel.read_bytes()))
    return wheelhouse_pack.fat_wheel(ROOT / "spark_udfs", version, [wheel], folder)


def rewritten(raw: bytes, edit: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], None]) -> bytes:
    """Return a zip with its list of members edited."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    edit(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for info, content in members:
            archive.writestr(info, content)
    return out.getvalue()


def record_line(name: str, content: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n".encode()


def activate(fat: Path, root: Path | None, program: str = PROGRAM, **options: Any) -> dict[str, Any]:
    """Run the bootstrap in a new process and return its JSON output."""
    python = options.pop("python", sys.executable)
    done = subprocess.run(command(fat, program, python), **settings(root, **options))
    assert done.stdout.strip(), done.stderr
    output: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return output


def command(fat: Path, program: str = PROGRAM, python: str = sys.executable) -> list[str]:
    return [python, "-I", "-S", "-c", program, str(fat)]


def settings(root: Path | None, environ: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """Return arguments of subprocess.run: an environment of PATH and what the test sets, no HOME."""
    chosen = {"PATH": os.environ.get("PATH", "")} | (environ or {})
    if root is not None:
        chosen["KAFKAREC_CACHE"] = str(root)
    return {"capture_output": True, "text": True, "check": False, "env": chosen, "timeout": 60} | options
