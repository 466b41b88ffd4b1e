"""The source files of the repository and the imports in them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from imports import statements
from paths import ROOT

CODE = {".py", ".pyx", ".pxd", ".pyi", ".sh"}


def files(*folders: str, suffixes: set[str] = CODE) -> list[Path]:
    """Return tracked files and new files that are not ignored; without git, all files."""
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
    """Yield (module with its leading dots, whether the import runs when the module is imported)."""
    if path.suffix != ".sh":
        yield from (("." * one.level + one.module, one.runs) for one in statements(path))
