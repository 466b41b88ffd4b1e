"""The dependency wheels at their locked versions, per CPython, from .cache/wheels or else by pip download.

The lock (requirements/runtime.txt) holds hashes, so pip refuses a file that is not the locked one; a cached
wheel is compared with the same hashes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from wheelhouse_pack import sha256

from spark_udfs.bootstrap import tags


def locked(lock: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """project -> (version, sha256 of its files)."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8")):
        head = re.match(r"([\w.-]+)==([^\s;\\]+)", entry)
        if head:
            name = re.sub(r"[-_.]+", "-", head[1]).lower()
            found[name] = (head[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
    return found


def dependency_wheels(lock: Path, pythons: tuple[str, ...], cache: Path) -> tuple[list[Path], dict[str, list[str]]]:
    """(the wheels, CPython -> a line for each of its wheels that does not exist). Pure wheels serve all."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels: set[Path] = set()
    absent: dict[str, list[str]] = {}
    for project, (version, hashes) in locked(lock).items():
        for python in pythons:
            wheel = _cached(cache, project, version, hashes, python)
            if wheel is None:
                said = _download(cache, project, version, hashes, python)
                wheel = _cached(cache, project, version, hashes, python)
            if wheel is None:
                absent.setdefault(python, []).append(f"{project} {version} for CPython {python} here ({said})")
            else:
                wheels.add(wheel)
    return sorted(wheels), absent


def _cached(cache: Path, project: str, version: str, hashes: frozenset[str], python: str) -> Path | None:
    here = tags.this_interpreter()
    major, minor = map(int, python.split("."))
    wanted = tags.compatible_tags(tags.Interpreter((major, minor), "", here.platforms, here.libc))
    rank = {tag: place for place, tag in enumerate(wanted)}
    stem = project.replace("-", "_")
    fitting = [
        (min(rank[tag] for tag in tags.wheel_tags(file.name) if tag in rank), file)
        for file in cache.glob(f"*-{version}-*.whl")
        if file.name.split("-")[0].lower().replace(".", "_") == stem
        and any(tag in rank for tag in tags.wheel_tags(file.name))
    ]
    good = [(place, file) for place, file in fitting if not hashes or sha256(file) in hashes]
    return min(good)[1] if good else None


def _download(cache: Path, project: str, version: str, hashes: frozenset[str], python: str) -> str:
    """Runs pip; returns the last line of its output, for the case that no wheel was downloaded."""
    wanted = cache / "wanted.txt"
    wanted.write_text(
        f"{project}=={version} " + " ".join(f"--hash=sha256:{digest}" for digest in sorted(hashes)) + "\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    command += ["--dest", str(cache), "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wanted.unlink()
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else "pip gave no reason"
