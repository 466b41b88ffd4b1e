"""The source files of the repository, the imports in them, and those of no package as modules."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from paths import ROOT
from subprocesses import run_program

_CYTHON = re.compile(
    r"^([ \t]*)(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)|c?import[ \t]+([\w.]+))", re.M
)
CODE = {".py", ".pyx", ".pxd", ".pyi", ".sh"}


def files(*folders: str, suffixes: set[str] = CODE) -> list[Path]:
    """Return tracked files and new files that are not ignored; without git, all files."""
    listed = run_program("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT)
    if listed.returncode == 0 and listed.stdout:
        found = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in found if path.suffix in suffixes and path.is_file())


class Import(NamedTuple):
    """`from <module> import <names>`, or `import <module>` without names. module: with its leading dots; runs: executed
    when the importing module itself is imported."""

    module: str
    runs: bool
    names: tuple[str, ...] = ()


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import and cimport of a file: at its top, inside a function, under TYPE_CHECKING."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    text = path.read_text(encoding="utf-8") if path.suffix != ".sh" else ""
    if path.suffix not in (".py", ".pyi"):
        for indent, origin, names, plain in _CYTHON.findall(text):
            yield Import(origin or plain, not indent, tuple(re.findall(r"\w+", names)))
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
            yield from (Import(alias.name, id(node) not in not_at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import("." * node.level + (node.module or ""), id(node) not in not_at_import, names)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def loaded(path: str) -> ModuleType:
    """The module of a file that is in no package, such as a benchmark, with the modules beside it; `sys.path` stays."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    before, sys.modules[spec.name] = list(sys.path), module
    sys.path.insert(0, str((ROOT / path).parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
