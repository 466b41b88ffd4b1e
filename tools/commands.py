"""What the tools have in common: where they are, commands that they run, and commands that they write."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"  # downloads and builds
# what tests fetch, outside of the checkout: tools/kafka_jars
CACHE_OF_TESTS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkarec-tests"

# for pip: pyspark's wheel is made in less than half of the time
STORED = {"DIST_EXTRA_CONFIG": str(ROOT / "requirements" / "sources.cfg")}


def run(
    *command: object, cwd: Path | str | None = None, env: Mapping[str, str] = os.environ, may_complain: bool = True
) -> str:
    """Standard output; ends this process with all output if the command fails, or prints what it may not."""
    words = list(map(str, command))
    own = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=own)
    if done.returncode or (done.stderr and not may_complain):
        output = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{output}")
    return done.stdout


def contains(file: Path, text: str) -> bool:
    """Whether it is there with this content: what has been made so is not made again."""
    return file.exists() and file.read_text() == text


def write_command(path: Path, script: str) -> Path:
    """Writes a script of the shell that can be started."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def application_folders(python: Path | str) -> set[Path]:
    """The folders, below that of Spark, in which local-cluster workers have those of their executors."""
    return set(Path(python).parents[1].glob("lib/python3*/site-packages/pyspark/work/app-*"))


@contextmanager
def applications_removed(python: Path | str) -> Iterator[None]:
    """At the end, removes the folders of applications that ran meanwhile, with their copies of the wheel."""
    others = application_folders(python)
    try:
        yield
    finally:
        for folder in application_folders(python) - others:
            shutil.rmtree(folder, ignore_errors=True)
