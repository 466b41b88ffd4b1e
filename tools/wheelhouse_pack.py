"""Wheels with fixed bytes: members in sorted order, one timestamp, one mode, RECORD last. And the data of the wheel
spark_udfs: what pip would install of kafkarec and its libraries, for each interpreter.

    wheels of one interpreter  ->  a tree: path -> content
    the trees                  ->  parts: what all have in common, what those of one machine have, the rest of each

Each part is a zip with fixed bytes; index.json, which `spark_udfs.bootstrap.trees_index` describes, has its hash and
files, and for each tree its parts.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import struct
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from spark_udfs.bootstrap import FALLBACKS, TREES, TREES_FORMAT

# The earliest time a zip can contain; with the build time every build would be another file.
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
FIXED_MODE = 0o100644 << 16
# Spark imports installed packages whose names begin with pyspark_, and looks for data sources in them.
SPARK_FINDS = "pyspark_kafkarec"
_IN_FALLBACKS = ("fsspec",)


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def copy(wheel: Path, folder: Path) -> Path:
    target = folder / wheel.name
    shutil.copyfile(wheel, target.with_suffix(".part"))
    return target.with_suffix(".part").replace(target)


def loaded(elf: bytes) -> bytes:
    """A compiled module without symbols, debugging information and section headers, which are most of its bytes; other
    files unchanged. No toolchain of its machine is needed, as everything else stays at its place in the file."""
    if not elf.startswith(b"\x7fELF\x02\x01"):  # 64 bits, little-endian
        return elf
    (headers,) = struct.unpack_from("<Q", elf, 32)  # the program headers: e_phoff, e_phentsize, e_phnum of elf(5)
    size, count = struct.unpack_from("<HH", elf, 54)
    parts = [(0, 64), (headers, size * count)]  # offset, size
    for at in range(headers, headers + size * count, size):
        offset, _, _, length = struct.unpack_from("<4Q", elf, at + 8)
        parts.append((offset, length))
    result = bytearray(max(offset + length for offset, length in parts))
    for offset, length in parts:
        result[offset : offset + length] = elf[offset : offset + length]
    struct.pack_into("<Q", result, 40, 0)  # the section headers: e_shoff, e_shnum, e_shstrndx
    struct.pack_into("<HH", result, 60, 0, 0)
    return bytes(result)


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
    """As in RECORD (PEP 376, PEP 427): urlsafe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def read_wheel(wheel: Path) -> tuple[dict[str, bytes], str]:
    """(path -> content without RECORD, name of the .dist-info folder)."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    dist_info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/METADATA"))
    files.pop(f"{dist_info}/RECORD", None)
    return files, dist_info


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


# ---- trees


class Tree(NamedTuple):
    """The wheels for one CPython, such as "3.12", on one machine with this or a later glibc."""

    python: str
    machine: str
    glibc: tuple[int, int]
    wheels: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}"


def trees_data(version: str, trees: list[Tree]) -> dict[str, bytes]:
    """index.json and the parts: name -> content."""
    contents = [installed(tree.wheels) for tree in trees]
    parts: dict[str, dict[str, bytes]] = {}
    rows = []
    for tree, files in zip(trees, contents, strict=True):
        own: dict[str, dict[str, bytes]] = {}
        for path, content in sorted(files.items()):
            lacking = [other for other, its in zip(trees, contents, strict=True) if its.get(path) != content]
            of_machine = all(other.machine != tree.machine for other in lacking)
            part = "all.zip" if not lacking else f"{tree.machine}.zip" if of_machine else f"{tree.name}.zip"
            own.setdefault(part, {})[path] = content
        parts |= own
        _, library = min((len(content), path) for path, content in files.items() if path.endswith(".so"))
        rows.append(
            {
                "python": f"cp{tree.python.replace('.', '')}",
                "machine": tree.machine,
                "glibc": tree.glibc,
                "parts": sorted(own, key=lambda part: (library not in own[part], part)),
                "wheels": sorted(wheel.name for wheel in tree.wheels),
                "library": library,
            }
        )
    packed = {name: zipped(files.items()) for name, files in sorted(parts.items())}
    index = {
        "format": TREES_FORMAT,
        "version": version,
        "serves": served(trees),
        "libraries": _libraries({wheel for tree in trees for wheel in tree.wheels}),
        "parts": {name: _described(content, parts[name]) for name, content in packed.items()},
        "trees": rows,
    }
    return packed | {"index.json": json.dumps(index, indent=1).encode()}


def installed(wheels: tuple[Path, ...]) -> dict[str, bytes]:
    """path -> content as pip installs it, but fsspec in FALLBACKS; scripts, headers, data and what no loader reads,
    which workers do not need, are left out."""
    files: dict[str, bytes] = {}
    for wheel in wheels:
        folder = f"{FALLBACKS}/" if parse_wheel_filename(wheel.name)[0] in _IN_FALLBACKS else ""
        for name, content in read_wheel(wheel)[0].items():
            scheme = re.match(r"[^/]+\.data/(\w+)/(.+)", name)
            if scheme and scheme[1] not in ("purelib", "platlib"):
                continue
            path, needed = folder + (scheme[2] if scheme else name), loaded(content)
            if files.setdefault(path, needed) != needed:
                raise SystemExit(f"{wheel.name} and another wheel have different files {path!r}")
    return files


def served(trees: list[Tree]) -> str:
    """ "CPython 3.11 to 3.14 on x86_64, aarch64 with glibc 2.17 or later": each machine has the same trees."""
    if not trees:
        return "no interpreter"
    pythons, machines, glibcs = (list(dict.fromkeys(each)) for each in list(zip(*trees, strict=True))[:3])
    versions = pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
    return f"CPython {versions} on {', '.join(machines)} with glibc {'.'.join(map(str, max(glibcs)))} or later"


def _described(packed: bytes, files: dict[str, bytes]) -> dict[str, Any]:
    return {
        "sha256": hashlib.sha256(packed).hexdigest(),
        "files": {path: len(content) for path, content in files.items()},
    }


def _libraries(wheels: set[Path]) -> dict[str, tuple[str, str, str]]:
    """module -> (project, version, the lowest version that kafkarec takes) of what kafkarec cannot do without."""
    found: dict[str, tuple[str, str]] = {}
    least: dict[str, str] = {}
    for wheel in sorted(wheels):
        name, version, _, _ = parse_wheel_filename(wheel.name)
        files = installed((wheel,))
        if name == "kafkarec":
            (metadata,) = (content for path, content in files.items() if path.endswith(".dist-info/METADATA"))
            needed = map(Requirement, message_from_bytes(metadata).get_all("Requires-Dist", ()))
            least = {
                canonicalize_name(one.name): bound.version
                for one in needed
                for bound in one.specifier
                if bound.operator == ">=" and "extra" not in str(one.marker)
            }
        elif name not in _IN_FALLBACKS:
            modules = {path.split("/")[0].split(".")[0] for path in files if ".dist-info/" not in path}
            found |= {module: (name, str(version)) for module in modules}
    return {module: (*about, least.get(about[0], "0")) for module, about in sorted(found.items())}
