"""Tries the spark_udfs wheel in an interpreter of this machine: nothing installed, a few vectors."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import ROOT, run

# Run with -I -S: no site-packages, no PYTHONPATH, no current folder; kafkarec can only come from the wheel.
PROGRAM = r"""
import base64, json, sys
wheel, vectors = sys.argv[1:]
sys.path.insert(0, wheel)
from spark_udfs import bootstrap
kafkarec = bootstrap.kafkarec
from pathlib import Path
codecs = [codec.name.lower() for codec in kafkarec.Compression]
files = [file for codec in codecs for file in sorted(Path(vectors).glob(f"v*-{codec}-*.bin"))[:4]]
for file in files:
    batches = json.loads(file.with_suffix(".json").read_text())["batches"]
    expected = [record for batch in batches if not batch["isControl"] for record in batch["records"]]
    for record, described in zip(kafkarec.decode(file.read_bytes()), expected, strict=True):
        text = described.get("value")  # that of a long value is not described
        assert text is None or record.value == base64.b64decode(text), (file.name, record, described)
there = bootstrap.activate()
print(f"kafkarec {there.version} {there.source}, {there.interpreter} {there.libc}, {len(files)} vectors")
"""


def find_interpreter(python: str) -> str | None:
    """An executable that reports this version: on PATH, or one that pyenv or uv installed."""
    candidates = [shutil.which(f"python{python}")]
    for base in (os.environ.get("PYENV_ROOT", "~/.pyenv") + "/versions", "~/.local/share/uv/python"):
        candidates += sorted(map(str, Path(base).expanduser().glob(f"*{python}*/bin/python{python}")), reverse=True)
    for candidate in filter(None, candidates):
        words = [candidate, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        answer = subprocess.run(words, capture_output=True, text=True, check=False)
        version, _, executable = answer.stdout.strip().partition(" ")
        if answer.returncode == 0 and version == python:
            return executable
    return None


def interpreters(pythons: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(version, executable) of those that this machine has; says which it has not."""
    for python in pythons:
        if executable := find_interpreter(python):
            yield python, executable
        else:
            print(f"not tested CPython {python}: no such interpreter on this machine", flush=True)


def try_in(executable: str, fat: Path, cache: Path | None = None) -> str:
    """What the wheel says in an interpreter; its bootstrap unpacks below `cache`. Ends this process if it fails."""
    with tempfile.TemporaryDirectory(prefix="kafkarec-check-") as name:
        empty = Path(name) / "empty"
        empty.mkdir()
        env = {"PATH": os.environ.get("PATH", ""), "KAFKAREC_CACHE": str(cache or Path(name) / "root")}
        program = (executable, "-I", "-S", "-c", PROGRAM, fat, ROOT / "tests" / "vectors" / "vectors")
        return run(*program, cwd=empty, env=env).strip()
