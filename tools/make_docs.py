"""Writes the generated pages and pictures of docs/; a test checks that they are current.

usage: make_docs.py [--check]

| what | from |
|---|---|
| docs/damage.md | `errors.REASONS` and `ops.verify.finding_kinds`, the closed tables (`doc_damage.py`) |
| docs/columns.md | `kafkarec.format.schema`, the one table of columns (`doc_columns.py`) |
| docs/reference/cli.md | the verbs' parsers (`doc_cli.py`) |
| docs/reference/api.md | signatures and docstrings (`doc_api.py`) |
| the versions in docs/spark/reference.md | the table of `doc_spark.py`, which a test proves |
| the map in CONTRIBUTING.md | docs/packages.toml |
| docs/pictures/ | real bytes, verify's report, benchmarks/RESULTS.md, GROWTH.md (`pictures.py`) |
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import doc_api  # noqa: E402
import doc_cli  # noqa: E402
import doc_columns  # noqa: E402
import doc_damage  # noqa: E402
import doc_spark  # noqa: E402
import imports  # noqa: E402
import pictures  # noqa: E402

MAP_BEGIN, MAP_END = "<!-- map, written by make docs -->\n", "<!-- end of the map -->\n"


def contributing() -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    before, rest = page.split(MAP_BEGIN)
    after = rest.split(MAP_END)[1]
    rows = ["| folder | holds |", "|---|---|"] + [f"| `{path_of(row.name)}` | {row.holds} |" for row in imports.table()]
    return before + MAP_BEGIN + "\n" + "\n".join(rows) + "\n\n" + MAP_END + after


def path_of(name: str) -> str:
    """The folder or file of a row of docs/packages.toml."""
    tries = (f"kafkarec/{name}", name, f"kafkarec/{name}.pyx", f"kafkarec/{name}.py")
    found = next(path for path in tries if (ROOT / path).exists())
    return f"{found}/" if (ROOT / found).is_dir() else found


PAGES = {
    "docs/damage.md": doc_damage.page,
    "docs/columns.md": doc_columns.page,
    "docs/reference/cli.md": doc_cli.page,
    "docs/reference/api.md": doc_api.page,
    "docs/spark/reference.md": doc_spark.page,
    **{f"docs/pictures/{name}": draw for name, draw in pictures.PICTURES.items()},
    "CONTRIBUTING.md": contributing,
}


def main(arguments: list[str]) -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text)
            print(f"written: {name}")
    if "--check" in arguments and stale:
        print(f"not current, run make docs: {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
