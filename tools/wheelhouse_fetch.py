"""The dependency wheels at their locked versions, per platform and CPython, from .cache/wheels or else by pip download.

The locks (requirements/) hold hashes, so pip refuses a file that is not the locked one; a cached wheel is compared with
the same hashes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from packaging.utils import parse_wheel_filename
from wheelhouse_pack import sha256
from wheelhouse_platforms import LOCKS, Platform


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
) -> tuple[dict[str, list[Path]], dict[str, list[str]]]:
    """(CPython -> its wheels, CPython -> a line for each of its wheels that does not exist)."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels: dict[str, list[Path]] = {}
    absent: dict[str, list[str]] = {}
    wanted = dependencies(platform)
    for python in pythons:
        lacking = {name: line for name, line in wanted.items() if not _cached(cache, name, *line, platform, python)}
        said = _download(cache, lacking, platform, python) if lacking else ""
        for name, line in wanted.items():
            wheel = _cached(cache, name, *line, platform, python)
            if wheel is None and len(lacking) > 1:  # pip downloads all or none
                said = _download(cache, {name: line}, platform, python)
                wheel = _cached(cache, name, *line, platform, python)
            if wheel:
                wheels.setdefault(python, []).append(wheel)
            else:
                absent.setdefault(python, []).append(
                    f"{name} {line[0]} for CPython {python} on {platform.name} ({said})"
                )
    return wheels, absent


def _cached(
    cache: Path, project: str, version: str, hashes: frozenset[str], platform: Platform, python: str
) -> Path | None:
    ranks = platform.ranks(python)
    fitting = []
    for file in cache.glob(f"*-{version}-*.whl"):
        name, _, _, tags = parse_wheel_filename(file.name)
        places = [ranks[tag] for tag in tags if tag in ranks]
        if name == project and places and (not hashes or sha256(file) in hashes):
            fitting.append((min(places), file))
    return min(fitting)[1] if fitting else None


def _download(cache: Path, lines: dict[str, tuple[str, frozenset[str]]], platform: Platform, python: str) -> str:
    """Runs pip; returns the last line of its output, for the case that a wheel was not downloaded."""
    listed = cache / "wanted.txt"
    hashed = [
        (f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sorted(hashes)))
        for name, (version, hashes) in lines.items()
    ]
    listed.write_text("".join(" ".join(words) + "\n" for words in hashed), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for tag in platform.tags:
        command += ["--platform", tag]
    command += ["--dest", str(cache), "-r", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed.unlink()
    printed = (done.stderr or done.stdout).strip().splitlines()
    return printed[-1] if printed else "pip gave no reason"
