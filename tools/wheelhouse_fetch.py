"""The dependency wheels at their locked versions, per platform and CPython, from .cache/wheels or else by pip download.

The locks (requirements/) hold hashes, so pip refuses a file that is not the locked one; a cached wheel is compared with
the same hashes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from wheelhouse_pack import sha256
from wheelhouse_platforms import LOCKS, Platform

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


def dependencies(platform: Platform) -> dict[str, tuple[str, frozenset[str]]]:
    """The same for the locks of a platform, without what has no wheel for it."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for name in platform.locks:
        found |= locked(LOCKS / f"{name}.txt")
    return {project: line for project, line in found.items() if project not in platform.lacks}


def dependency_wheels(
    platform: Platform, pythons: tuple[str, ...], cache: Path
) -> tuple[list[Path], dict[str, list[str]]]:
    """(the wheels, CPython -> a line for each of its wheels that does not exist). Pure wheels serve all."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels: set[Path] = set()
    absent: dict[str, list[str]] = {}
    for project, (version, hashes) in dependencies(platform).items():
        for python in pythons:
            wanted = platform.interpreter(python)
            wheel = _cached(cache, project, version, hashes, wanted)
            if wheel is None:
                said = _download(cache, project, version, hashes, wanted)
                wheel = _cached(cache, project, version, hashes, wanted)
            if wheel is None:
                absent.setdefault(python, []).append(
                    f"{project} {version} for CPython {python} on {platform.name} ({said})"
                )
            else:
                wheels.add(wheel)
    return sorted(wheels), absent


def _cached(cache: Path, project: str, version: str, hashes: frozenset[str], wanted: tags.Interpreter) -> Path | None:
    rank = {tag: place for place, tag in enumerate(tags.compatible_tags(wanted))}
    stem = project.replace("-", "_")
    fitting = [
        (min(rank[tag] for tag in tags.wheel_tags(file.name) if tag in rank), file)
        for file in cache.glob(f"*-{version}-*.whl")
        if file.name.split("-")[0].lower().replace(".", "_") == stem
        and any(tag in rank for tag in tags.wheel_tags(file.name))
    ]
    good = [(place, file) for place, file in fitting if not hashes or sha256(file) in hashes]
    return min(good)[1] if good else None


def _download(cache: Path, project: str, version: str, hashes: frozenset[str], wanted: tags.Interpreter) -> str:
    """Runs pip; returns the last line of its output, for the case that no wheel was downloaded."""
    line = cache / "wanted.txt"
    line.write_text(
        f"{project}=={version} " + " ".join(f"--hash=sha256:{digest}" for digest in sorted(hashes)) + "\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", ".".join(map(str, wanted.version))]
    for tag in wanted.platforms:
        command += ["--platform", tag]
    command += ["--dest", str(cache), "-r", str(line)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    line.unlink()
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else "pip gave no reason"
