"""The wheels inside the `spark_udfs` wheel: chooses those that fit, and checks every file before it is unpacked.

A wheel is a zip with a RECORD: one line per file, `path,sha256=<urlsafe base64>,size`.  Every file is checked
against RECORD before it is written, and every name is checked before it becomes a path.  That proves that the
files are those that the builder of the wheel listed; it does not prove who built the wheel.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import tags
from .errors import BootstrapError

MANIFEST = "spark_udfs/_wheels/manifest.json"
MANIFEST_FORMAT = 1
# Far above the size of any file in our wheels; without a limit a crafted wheel could fill the memory.
MAX_FILE_BYTES = 256 << 20
# What `served` looks for: versions of CPython; systems with a C library that is newer than any wheel needs.
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
GLIBC, MUSL, MACOS = "glibc-2.99", "musl-1.99", "macos-99"
SYSTEMS = (
    (GLIBC, "x86_64"),
    (GLIBC, "aarch64"),
    (MUSL, "x86_64"),
    (MUSL, "aarch64"),
    (MACOS, "arm64"),
    (MACOS, "x86_64"),
)
# RECORD and its signatures, which RECORD does not list (PEP 427).
UNLISTED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")


@dataclass(frozen=True)
class Wheel:
    """One line of the manifest."""

    file: str
    project: str
    version: str
    sha256: str
    size: int


class PackageOrigin:
    """The place `spark_udfs` was imported from: a wheel or zip on sys.path, or an installed folder."""

    def __init__(self, location: str, is_archive: bool) -> None:
        self.location = os.path.abspath(location)  # executors have relative sys.path entries
        self.is_archive = is_archive

    def read(self, name: str) -> bytes | None:
        """The bytes of one member (`spark_udfs/...`), None where there is no such member."""
        try:
            if self.is_archive:
                with zipfile.ZipFile(self.location) as archive:
                    return archive.read(name)
            with open(os.path.join(self.location, *name.split("/")), "rb") as file:
                return file.read()
        except (KeyError, FileNotFoundError):
            return None
        except (OSError, zipfile.BadZipFile, RuntimeError) as error:
            raise BootstrapError(f"cannot read {name} in {self.location}: {error}") from None


def find_origin(package_file: str) -> PackageOrigin:
    """The archive or folder that contains the package; package_file: `spark_udfs.__file__`."""
    parent = os.path.dirname(os.path.dirname(os.path.abspath(package_file)))
    return PackageOrigin(parent, is_archive=os.path.isfile(parent))


def load_manifest(origin: PackageOrigin) -> dict[str, Any] | None:
    """The manifest inside the wheel of spark_udfs; None in a source checkout, which contains no wheels."""
    raw = origin.read(MANIFEST)
    if raw is None:
        return None
    manifest: dict[str, Any] = json.loads(raw)
    if manifest.get("format") != MANIFEST_FORMAT:
        raise BootstrapError(
            f"{origin.location} has a wheel manifest of format {manifest.get('format')!r}; "
            f"this bootstrap reads format {MANIFEST_FORMAT}"
        )
    return manifest


def choose(manifest: dict[str, Any], python: tags.Interpreter) -> list[Wheel]:
    """One wheel per project: the best one that fits; small wheels first.

    Raises BootstrapError with the list of wheels seen where a project has none that fits.
    """
    rank = {tag: place for place, tag in enumerate(tags.compatible_tags(python))}
    best: dict[str, tuple[int, Wheel]] = {}
    projects: dict[str, list[str]] = {}
    for line in manifest["wheels"]:
        wheel = Wheel(**line)
        projects.setdefault(wheel.project, []).append(wheel.file)
        fitting = [rank[tag] for tag in tags.wheel_tags(wheel.file) if tag in rank]
        if fitting and (wheel.project not in best or min(fitting) < best[wheel.project][0]):
            best[wheel.project] = (min(fitting), wheel)
    missing = sorted(set(projects) - set(best))
    if missing:
        seen = "\n".join(f"  {name}: " + ", ".join(sorted(projects[name])) for name in missing)
        raise BootstrapError(
            f"no wheel of {', '.join(missing)} fits this interpreter ({python.name}, {python.libc}, "
            f"{python.platforms[0] if python.platforms else 'unknown platform'}): this spark_udfs wheel serves "
            f"{served(manifest)}. `make wheelhouse` in kafkarec's checkout makes the one for CPython 3.11 to 3.14 on "
            f"x86_64 and aarch64 with glibc; for another one, ship a whole environment: spark-submit --archives "
            f"env.tar.gz#env --conf spark.pyspark.python=env/bin/python\nWheels seen:\n{seen}"
        )
    return sorted((wheel for _, wheel in best.values()), key=lambda wheel: (wheel.size, wheel.file))


def served(manifest: dict[str, Any]) -> str:
    """The interpreters for which every project has a wheel: "CPython 3.11 to 3.14 on x86_64 with glibc"."""
    projects: dict[str, list[str]] = {}
    for line in manifest["wheels"]:
        projects.setdefault(line["project"], []).extend(tags.wheel_tags(line["file"]))
    systems: dict[str, list[str]] = {}  # versions -> systems
    for libc, machine in SYSTEMS:
        pythons = [
            f"{major}.{minor}"
            for major, minor in PYTHONS
            for python in [tags.Interpreter((major, minor), "", list(tags.platform_tags(libc, machine)), libc)]
            if all(set(found) & set(tags.compatible_tags(python)) for found in projects.values())
        ]
        if pythons:
            versions = pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
            systems.setdefault(versions, []).append(f"{machine} with {libc.partition('-')[0]}")
    return " and ".join(f"CPython {versions} on {', '.join(each)}" for versions, each in systems.items()) or "none"


def fetch(origin: PackageOrigin, wheel: Wheel) -> bytes:
    """The bytes of a wheel. BootstrapError if their hash is not the one in the manifest."""
    if "/" in wheel.file or "\\" in wheel.file or wheel.file.startswith("."):
        raise BootstrapError(f"refused: the manifest names a wheel outside its folder: {wheel.file!r}")
    raw = origin.read(f"{MANIFEST.rpartition('/')[0]}/{wheel.file}")
    if raw is None:
        raise BootstrapError(f"{origin.location} lists the wheel {wheel.file} but does not contain it")
    digest = hashlib.sha256(raw).hexdigest()
    if digest != wheel.sha256:
        raise BootstrapError(
            f"refused: {wheel.file} in {origin.location} is not the wheel the manifest lists: "
            f"sha256 {digest}, listed {wheel.sha256}"
        )
    return raw


def safe_path(name: str, wheel: str) -> str:
    """The relative path of a member, refused if it could leave the folder it is unpacked into."""
    parts = name.split("/")
    if (
        not name
        or name.startswith(("/", "~"))
        or "\\" in name
        or "\0" in name
        or re.match(r"[A-Za-z]:", name)
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise BootstrapError(f"refused: {wheel} has a file with the name {name!r}")
    return name


def members(raw: bytes, wheel: str) -> Iterator[tuple[str, bytes]]:
    """Yields (path, content) of every file to install. All names are checked first, then each file against RECORD."""
    with _opened(raw, wheel) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        names = [safe_path(info.filename, wheel) for info in infos]
        if len(set(names)) != len(names):
            raise BootstrapError(f"refused: {wheel} has two files of one name")
        for info in infos:
            mode = info.external_attr >> 16
            if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise BootstrapError(f"refused: {wheel} has a symlink or special file, {info.filename!r}")
            if info.file_size > MAX_FILE_BYTES:
                raise BootstrapError(f"refused: {info.filename!r} in {wheel} is {info.file_size} bytes")
        listed = _record(archive, names, wheel)
        unlisted = sorted(set(names) - set(listed) - {n for n in names if _is_record(n)})
        absent = sorted(set(listed) - set(names))
        if unlisted or absent:
            raise BootstrapError(
                f"refused: {wheel} and its RECORD differ; not listed: {unlisted or 'none'}, missing: {absent or 'none'}"
            )
        for name in names:
            try:
                content = archive.read(name)
            except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
                raise BootstrapError(f"refused: {name} in {wheel} cannot be read: {error}") from None
            if not _is_record(name) and not _matches(content, listed[name]):
                raise BootstrapError(f"refused: {name} in {wheel} does not have the hash that RECORD lists")
            target = _install_path(name)
            if target:
                yield target, content


def _opened(raw: bytes, wheel: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(raw))
    except zipfile.BadZipFile as error:
        raise BootstrapError(f"refused: {wheel} is not a zip file: {error}") from None


def _is_record(name: str) -> bool:
    return ".dist-info/" in name and name.endswith(UNLISTED)


def _record(archive: zipfile.ZipFile, names: list[str], wheel: str) -> dict[str, str]:
    records = [name for name in names if name.endswith(".dist-info/RECORD") and name.count("/") == 1]
    if len(records) != 1:
        raise BootstrapError(f"refused: {wheel} has {len(records)} RECORD files")
    rows = csv.reader(io.StringIO(archive.read(records[0]).decode("utf-8")))
    listed = {row[0]: row[1] for row in rows if len(row) == 3}
    return {name: digest for name, digest in listed.items() if not _is_record(name)}


def _matches(content: bytes, listed: str) -> bool:
    algorithm, _, digest = listed.partition("=")
    if algorithm not in ("sha256", "sha384", "sha512"):  # PEP 427 forbids weaker ones
        return False
    computed = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=")
    return computed.decode() == digest


def _install_path(name: str) -> str | None:
    """The path at which a file is installed: `y` for `x.data/purelib/y`; None for scripts, headers and data, which
    workers do not need."""
    scheme = re.match(r"[^/]+\.data/(\w+)/(.+)", name)
    if scheme:
        return scheme[2] if scheme[1] in ("purelib", "platlib") else None
    return name
