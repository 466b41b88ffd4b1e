"""The data of the spark_udfs wheel: what pip would install of kafkarec and its libraries, for each interpreter.

    wheels of one interpreter  ->  a tree: path -> content
    the trees                  ->  parts: what all have in common, what those of one machine have, the rest of each

Each part is a zip with fixed bytes; index.json, which `spark_udfs.bootstrap.trees_index` describes, has its hash and
files, and for each tree its parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import wheelhouse_pack
from packaging.utils import canonicalize_name, parse_wheel_filename

from spark_udfs.bootstrap import TREES_FORMAT


class Tree(NamedTuple):
    """The wheels for one CPython, such as "3.12", on one machine with this or a later glibc."""

    python: str
    machine: str
    glibc: tuple[int, int]
    wheels: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}"


def data(version: str, trees: list[Tree]) -> dict[str, bytes]:
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
    packed = {name: wheelhouse_pack.zipped(files.items()) for name, files in sorted(parts.items())}
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
    """path -> content as pip installs it; scripts, headers and data, which workers do not need, are left out."""
    files: dict[str, bytes] = {}
    for wheel in wheels:
        for name, content in wheelhouse_pack.read_wheel(wheel)[0].items():
            scheme = re.match(r"[^/]+\.data/(\w+)/(.+)", name)
            if scheme and scheme[1] not in ("purelib", "platlib"):
                continue
            path = scheme[2] if scheme else name
            if files.setdefault(path, content) != content:
                raise SystemExit(f"{wheel.name} and another wheel have different files {path!r}")
    return files


def served(trees: list[Tree]) -> str:
    """ "CPython 3.11 to 3.14 on x86_64, aarch64 with glibc 2.17 or later"."""
    systems: dict[tuple[str, str], list[str]] = {}  # pythons, glibc -> machines
    for machine, glibc in dict.fromkeys((tree.machine, tree.glibc) for tree in trees):
        pythons = [tree.python for tree in trees if (tree.machine, tree.glibc) == (machine, glibc)]
        versions = pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
        systems.setdefault((versions, ".".join(map(str, glibc))), []).append(machine)
    texts = [
        f"CPython {versions} on {', '.join(machines)} with glibc {glibc} or later"
        for (versions, glibc), machines in systems.items()
    ]
    return " and ".join(texts) or "no interpreter"


def _described(packed: bytes, files: dict[str, bytes]) -> dict[str, Any]:
    return {
        "sha256": hashlib.sha256(packed).hexdigest(),
        "files": {path: len(content) for path, content in files.items()},
    }


def _libraries(wheels: set[Path]) -> dict[str, tuple[str, str, str]]:
    """module -> (project, version, the lowest version that kafkarec takes)."""
    found: dict[str, tuple[str, str]] = {}
    least: dict[str, str] = {}
    for wheel in sorted(wheels):
        name, version, _, _ = parse_wheel_filename(wheel.name)
        files = installed((wheel,))
        if name == "kafkarec":
            (metadata,) = (content for path, content in files.items() if path.endswith(".dist-info/METADATA"))
            least = _lower_bounds(metadata.decode())
        else:
            modules = {path.split("/")[0].split(".")[0] for path in files if ".dist-info/" not in path}
            found |= {module: (name, str(version)) for module in modules}
    return {module: (*about, least.get(about[0], "0")) for module, about in sorted(found.items())}


def _lower_bounds(metadata: str) -> dict[str, str]:
    """`Requires-Dist: lz4>=4.3` -> {"lz4": "4.3"}, extras left out."""
    lines = [line for line in re.findall(r"(?m)^Requires-Dist: (.+)$", metadata) if "extra ==" not in line]
    found = [re.match(r"([\w.-]+?)\s*\(?>=\s*([\d.]+)", line) for line in lines]
    return {canonicalize_name(each[1]): each[2] for each in found if each}
