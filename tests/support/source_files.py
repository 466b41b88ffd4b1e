"""The source files of the repository and the imports in them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from paths import ROOT

CODE = {".py", ".pyx", ".pxd", ".pyi", ".sh"}


def files(*folders: str, suffixes: set[str] = CODE) -> list[Path]:
    """What git knows of, and what is new and not ignored; without git, everything."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        found = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in found if path.suffix in suffixes and path.is_file())


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(module with its leading dots, whether the import runs when the module is imported)"""
    if path.suffix in (".pyx", ".pxd"):
        pattern = re.compile(r"^(\s*)(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w.]+))", re.MULTILINE)
        for match in pattern.finditer(path.read_text(encoding="utf-8")):
            yield match[2] or match[3], not match[1]
        return
    if path.suffix == ".sh":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) or is_type_checking(outer)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), id(node) not in inside


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
