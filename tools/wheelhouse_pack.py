"""Wheels with fixed bytes: members in sorted order, one timestamp, one mode, RECORD last.

RECORD (PEP 376, PEP 427): `path,sha256=<urlsafe base64 without padding>,size` per file, and itself with no
hash.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import wheelhouse_strip

from spark_udfs.bootstrap import TREES

# The earliest time a zip can contain; with the build time every build would be another file.
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
FIXED_MODE = 0o100644 << 16
# Spark imports installed packages whose names begin with pyspark_, and looks for data sources in them.
SPARK_FINDS = "pyspark_kafkarec"


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def copy(wheel: Path, folder: Path) -> Path:
    target = folder / wheel.name
    shutil.copyfile(wheel, target.with_suffix(".part"))
    return target.with_suffix(".part").replace(target)


def stripped(wheel: Path, cache: Path) -> Path:
    """The same wheel without the debugging information of its compiled modules, made once per content."""
    target = cache / sha256(wheel)[:16] / wheel.name
    if not target.exists():
        files, dist_info = read_wheel(wheel)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_wheel(target, {name: wheelhouse_strip.stripped(content) for name, content in files.items()}, dist_info)
    return target


def write_wheel(target: Path, files: dict[str, bytes], dist_info: str) -> Path:
    """Writes `files` (path -> content, without RECORD) as a wheel."""
    contents = sorted(files.items())
    record = [f"{name},sha256={_record_hash(content)},{len(content)}" for name, content in contents]
    record.append(f"{dist_info}/RECORD,,")
    temporary = target.with_suffix(".part")
    temporary.write_bytes(zipped([*contents, (f"{dist_info}/RECORD", ("\n".join(record) + "\n").encode())]))
    temporary.replace(target)
    return target


def zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """A zip of (path, content), in this order; zips inside it are only stored."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, content in files:
            info = zipfile.ZipInfo(name, FIXED_TIME)
            info.external_attr = FIXED_MODE
            info.create_system = 3  # Unix, whatever the machine
            stored = name.endswith(".zip")
            archive.writestr(info, content, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED, 9)
    return raw.getvalue()


def _record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def read_wheel(wheel: Path) -> tuple[dict[str, bytes], str]:
    """(path -> content without RECORD, name of the .dist-info folder)."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    dist_info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/METADATA"))
    files.pop(f"{dist_info}/RECORD", None)
    return files, dist_info


def retagged(wheel: Path, platform: str, folder: Path, modules: dict[str, bytes] | None = None) -> Path:
    """The same wheel with another platform tag and fixed bytes; modules: name -> content of its compiled modules, for
    another machine."""
    files, dist_info = read_wheel(wheel)
    files |= modules or {}
    stem, python, abi, _ = wheel.name.removesuffix(".whl").rsplit("-", 3)
    described = files[f"{dist_info}/WHEEL"].decode()
    described = re.sub(r"(?m)^Tag: .*$", f"Tag: {python}-{abi}-{platform}", described)
    files[f"{dist_info}/WHEEL"] = described.encode()
    return write_wheel(folder / f"{stem}-{python}-{abi}-{platform}.whl", files, dist_info)


def fat_wheel(package: Path, version: str, trees: dict[str, bytes], out: Path) -> Path:
    """`spark_udfs-<version>-py3-none-any.whl`: spark_udfs, pyspark_kafkarec, and as data the files of `trees`."""
    dist_info = f"spark_udfs-{version}.dist-info"
    files = {
        file.relative_to(package.parent).as_posix(): file.read_bytes()
        for each in (package, package.with_name(SPARK_FINDS))
        for file in sorted(each.rglob("*"))
        if file.suffix in (".py", ".typed") and "__pycache__" not in file.parts
    }
    files |= {f"{TREES}/{name}": content for name, content in trees.items()}
    files[f"{dist_info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: spark_udfs\nVersion: {version}\n"
        f"Summary: Spark functions over Kafka record batches, with the compiled packages they need\n"
        f"License: Apache-2.0\nRequires-Python: >=3.11\n"
    ).encode()
    files[f"{dist_info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tools/wheelhouse.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{dist_info}/top_level.txt"] = f"{SPARK_FINDS}\nspark_udfs\n".encode()
    return write_wheel(out / f"spark_udfs-{version}-py3-none-any.whl", files, dist_info)


def unpack_data(fat: Path, root: Path) -> None:
    """Puts the data of the spark_udfs wheel into the package's source folder, too: a Spark worker that starts in the
    checkout imports that folder and not the wheel."""
    files, _ = read_wheel(fat)
    folder = root / TREES
    part = folder.with_suffix(".part")
    for each in (part, folder):
        shutil.rmtree(each, ignore_errors=True)
    part.mkdir()
    for name, content in files.items():
        if name.startswith(f"{TREES}/"):
            (part / Path(name).name).write_bytes(content)
    part.rename(folder)
