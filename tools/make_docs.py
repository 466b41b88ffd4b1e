"""Writes the generated pages and pictures of docs/; a test checks that they are current.

usage: make_docs.py [--check]

| what | from |
|---|---|
| docs/damage.md | `kafkarec.errors.REASONS` and `kafkarec.checks.kinds`, the closed tables (`doc_damage.py`) |
| docs/columns.md | `kafkarec.schema`, the one table of columns (`doc_columns.py`) |
| docs/reference/cli.md | the verbs' parsers (`doc_cli.py`) |
| docs/reference/api.md | signatures and docstrings (`doc_api.py`) |
| docs/pictures/ | real bytes, verify's report, the imports (`pictures.py`) |
| the map in CONTRIBUTING.md | the first sentence of each file |
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import doc_api  # noqa: E402
import doc_cli  # noqa: E402
import doc_columns  # noqa: E402
import doc_damage  # noqa: E402
import pictures  # noqa: E402

# the rooms of the map, in the order of the page
ROOMS = (
    "kafkarec/*.py",
    "kafkarec/*.pyx",
    "kafkarec/_entry/*.pxd",
    "kafkarec/_c/*.pxd",
    "kafkarec/codecs/*.py",
    "kafkarec/cli/*.py",
    "kafkarec/storage/*.py",
    "kafkarec/indexes/*.py",
    "kafkarec/transactions/*.py",
    "kafkarec/checks/*.py",
    "kafkarec/rescue/*.py",
    "kafkarec/explain/*.py",
    "kafkarec/dump/*.py",
    "kafkarec/messages/*.py",
    "kafkarec/writing/*.py",
    "kafkarec/validation/*.py",
    "kafkarec/conversion/*.py",
    "kafkarec/compaction/*.py",
    "kafkarec/studying/*.py",
    "kafkarec/appending/*.py",
    "spark_udfs/*.py",
    "spark_udfs/source/*.py",
    "spark_udfs/bootstrap/*.py",
    "tools/*",
    "examples/*.py",
    "benchmarks/*.py",
)
MAP_BEGIN, MAP_END = "<!-- map, written by make docs -->\n", "<!-- end of the map -->\n"


def told_by(path: Path) -> str:
    """The first sentence of a file's docstring, or of the comment at its head."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(r'^(?:#!.*\n)?"""(.+?)(?:"""|\n\n)', text, re.DOTALL)
    words = found[1] if found else " ".join(line.lstrip("# ") for line in text.splitlines()[1:5] if line[:2] == "# ")
    return re.split(r"(?<=[a-z0-9`)])\. ", " ".join(words.split()) + " ")[0].rstrip(".: ")


def contributing() -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    before, rest = page.split(MAP_BEGIN)
    after = rest.split(MAP_END)[1]
    rows = ["| file | what it is |", "|---|---|"]
    for room in ROOMS:
        for path in sorted(ROOT.glob(room)):
            if path.is_file() and path.stat().st_size and path.suffix != ".pyc":
                rows.append(f"| `{path.relative_to(ROOT)}` | {told_by(path)} |")
    return before + MAP_BEGIN + "\n" + "\n".join(rows) + "\n\n" + MAP_END + after


PAGES = {
    "docs/damage.md": doc_damage.page,
    "docs/columns.md": doc_columns.page,
    "docs/reference/cli.md": doc_cli.page,
    "docs/reference/api.md": doc_api.page,
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
