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
    wanted = dependencies(platform)
    for python in pythons:
        interpreter = platform.interpreter(python)
        lacking = {name: line for name, line in wanted.items() if not _cached(cache, name, *line, interpreter)}
        said = _download(cache, lacking, interpreter) if lacking else ""
        for name, line in wanted.items():
            wheel = _cached(cache, name, *line, interpreter)
            if wheel is None and len(lacking) > 1:  # pip downloads all or none
                said = _download(cache, {name: line}, interpreter)
                wheel = _cached(cache, name, *line, interpreter)
            if wheel:
                wheels.add(wheel)
            else:
                absent.setdefault(python, []).append(
                    f"{name} {line[0]} for CPython {python} on {platform.name} ({said})"
                )
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


def _download(cache: Path, lines: dict[str, tuple[str, frozenset[str]]], wanted: tags.Interpreter) -> str:
    """Runs pip; returns the last line of its output, for the case that a wheel was not downloaded."""
    listed = cache / "wanted.txt"
    hashed = [
        (f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sorted(hashes)))
        for name, (version, hashes) in lines.items()
    ]
    listed.write_text("".join(" ".join(words) + "\n" for words in hashed), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", ".".join(map(str, wanted.version))]
    for tag in wanted.platforms:
        command += ["--platform", tag]
    command += ["--dest", str(cache), "-r", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed.unlink()
    printed = (done.stderr or done.stdout).strip().splitlines()
    return printed[-1] if printed else "pip gave no reason"
