"""Reads every import of the packages and compares it with docs/packages.toml.

usage: imports.py        prints imports that the table does not allow; exit status 1 if there are any

Imports are read everywhere: at the top of a module, inside a function, under TYPE_CHECKING; `cimport` too.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "packages.toml"
PACKAGES = ("kafkarec", "spark_udfs", "pyspark_kafkarec")
# Modules of kafkarec that belong to no row: constants, the loader of names, and the namespace itself with its guard.
FREE = {"_version", "_checksum", "_lazy"}
NAMESPACE = {"", "_compiled", "__main__"}
_CYTHON = re.compile(
    r"^([ \t]*)(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)|c?import[ \t]+([\w.]+))", re.M
)


class Import(NamedTuple):
    """One module imports another; `runs`: executed when the importing module itself is imported."""

    source: str
    target: str
    runs: bool


class Statement(NamedTuple):
    """`from <level dots><module> import <names>`, or `import <module>` without names. `runs`: as in Import."""

    level: int
    module: str
    names: tuple[str, ...]
    runs: bool


class Row(NamedTuple):
    """One package of the table."""

    name: str
    holds: str
    imports: tuple[str, ...]
    upward: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def table(path: Path = TABLE) -> list[Row]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    return [
        Row(r["name"], r["holds"], tuple(r["imports"]), tuple(r.get("upward", ())), tuple(r.get("also", ())))
        for r in rows
    ]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Dotted name -> file, of all packages; a .pyx and its .pyi are one module, its .pxd another, as `_core.pxd`: what
    it declares others cimport, among them what the .pyx cimports."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".pyx", ".pxd"):
                declares = path.suffix == ".pxd" and path.with_suffix(".pyx").exists()
                name = ".".join(path.relative_to(root).with_suffix(".pxd" if declares else "").parts)
                found[name.removesuffix(".__init__")] = path
    return found


def statements(path: Path) -> Iterator[Statement]:
    """Every import and cimport of a file, at any level."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for indent, origin, names, plain in _CYTHON.findall(text):
            module = origin.lstrip(".") or plain
            yield Statement(len(origin) - len(origin.lstrip(".")), module, tuple(re.findall(r"\w+", names)), not indent)
        return
    tree = ast.parse(text)
    not_at_import = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) or is_type_checking(outer)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Statement(0, alias.name, (), id(node) not in not_at_import)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Statement(node.level, node.module or "", names, id(node) not in not_at_import)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports_of(name: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """The imports of the module `name`: absolute names, and a.b for `from a import b` where that is a module."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    parts = package.split(".")
    for one in statements(path):
        base = parts[: len(parts) - one.level + 1] if one.level else []
        origin = ".".join([*base, *([one.module] if one.module else [])])
        if path.suffix != ".py" and f"{origin}.pxd" in known:
            origin += ".pxd"
        for target in [f"{origin}.{part}" for part in one.names] or [origin]:
            yield Import(name, target if target in known else origin, one.runs)


def all_imports(root: Path = ROOT) -> list[Import]:
    """The imports between the packages' own modules."""
    known = modules(root)
    found = (one for name, path in known.items() for one in imports_of(name, path, known))
    return sorted({one for one in found if one.target.split(".")[0] in PACKAGES and one.source != one.target})


def row_of(module: str) -> str:
    """The row that a module belongs to: "storage" for kafkarec.storage.names, "kafkarec" for the package itself."""
    top, _, rest = module.partition(".")
    if top != "kafkarec":
        return top
    first = rest if rest.endswith(".pxd") else rest.split(".")[0]
    return "kafkarec" if first in NAMESPACE else first


def inner(module: str) -> str:
    """A module's name within its package of the table: "verify" for kafkarec.ops.verify.run."""
    return ".".join(module.split(".")[2:3])


def against(found: list[Import], rows: list[Row]) -> list[str]:
    """Messages for imports that the table does not allow."""
    by_name = {row.name: row for row in rows}
    wrong = []
    for one in found:
        importer, there = row_of(one.source), row_of(one.target)
        if importer == "kafkarec" or there in FREE:
            continue
        if importer not in by_name:
            wrong.append(f"{one.source} is in no row of the table")
            continue
        row = by_name[importer]
        same = importer == there and (importer != "ops" or inner(one.source) == inner(one.target))
        upward = () if one.runs else row.upward
        listed = any(_fits(entry, one) for entry in (*row.also, *upward))
        if not (same or listed or any(_covers(name, one.target) for name in row.imports)):
            wrong.append(f"{one.source} imports {one.target}, and {importer} may not")
    return wrong


def _fits(entry: str, one: Import) -> bool:
    """Whether an entry such as "segment -> ops.verify" lists this import."""
    source, _, target = entry.partition(" -> ")
    return inner(one.source) == source and _covers(target, one.target)


def _covers(name: str, target: str) -> bool:
    """Whether a name of the table is an imported module, or a package that holds it."""
    path = target.removeprefix("kafkarec.")
    return path == name or path.startswith(f"{name}.")


def not_below(rows: list[Row]) -> list[str]:
    """Rows whose imports name a row below them."""
    places = {row.name: place for place, row in enumerate(rows)}
    return [
        f"{row.name} may import {name}, which is below it"
        for row in rows
        for name in row.imports
        if name != "kafkarec" and places.get(row_of(f"kafkarec.{name}"), -1) >= places[row.name]
    ]


def unlisted(found: list[Import], rows: list[Row]) -> list[str]:
    """Messages for entries of the table that no import needs."""
    spare = []
    for row in rows:
        own = [one for one in found if row_of(one.source) == row.name]
        spare += [
            f"{row.name} does not import {name}"
            for name in row.imports
            if not any(_covers(name, one.target) for one in own)
        ]
        spare += [
            f"{row.name}: no import needs {entry}"
            for entry in (*row.upward, *row.also)
            if not any(_fits(entry, one) for one in own)
        ]
    return spare


def import_cycles(found: list[Import], rows: list[Row]) -> list[list[str]]:
    """Modules that import each other, directly or not; the listed upward imports do not count."""
    upward = [entry for row in rows for entry in row.upward]
    edges: dict[str, set[str]] = {}
    for one in found:
        if "kafkarec" in (one.source, one.target) or (not one.runs and any(_fits(entry, one) for entry in upward)):
            continue
        edges.setdefault(one.source, set()).add(one.target)
    return _connected(edges)


def _connected(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == numbers[node]:
            members = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(edges):
        if node not in numbers:
            visit(node)
    return found


def problems(root: Path = ROOT) -> list[str]:
    rows, found = table(), all_imports(root)
    cycles = [f"an import cycle: {' '.join(cycle)}" for cycle in import_cycles(found, rows)]
    return against(found, rows) + not_below(rows) + unlisted(found, rows) + cycles


if __name__ == "__main__":
    wrong = problems()
    print("\n".join(wrong) or f"{len(all_imports())} imports, all allowed by docs/packages.toml")
    sys.exit(bool(wrong))
