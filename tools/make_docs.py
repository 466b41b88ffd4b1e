"""Writes the generated tables of docs/; a test checks that those in the repository are current.

usage: make_docs.py [--check]

| what | from |
|---|---|
| tables of docs/damage.md | `errors.REASONS` and `ops.verify.finding_kinds`, the closed tables (`doc_damage.py`) |
| that of docs/spark/reference.md | the table of `doc_spark.py`, which a test proves |

Not in the repository, only in the site:

| what | from |
|---|---|
| docs/reference/cli.md | the verbs' parsers (`doc_cli.py`) |
| docs/reference/api.md | signatures and docstrings (`doc_api.py`) |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import doc_api  # noqa: E402
import doc_cli  # noqa: E402
import doc_damage  # noqa: E402
import doc_spark  # noqa: E402

# page -> the name between its markers -> what stands there
TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "docs/damage.md": {
        "reasons": doc_damage.reasons,
        "findings": doc_damage.findings,
        "exceptions": doc_damage.exceptions,
    },
    "docs/spark/reference.md": {"versions": doc_spark.block},
}


def with_tables(name: str) -> str:
    """The page with the tables of now."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for table, make in TABLES[name].items():
        begin, end = f"<!-- {table}, written by make docs -->\n", f"<!-- end of the {table} -->\n"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{make()}\n{end}{rest.split(end)[1]}"
    return text


PAGES = {name: partial(with_tables, name) for name in TABLES}
BUILT = {"docs/reference/cli.md": doc_cli.page, "docs/reference/api.md": doc_api.page}


def stale(pages: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    """Name -> text of the pages whose file is missing or has another text."""
    texts = {name: make() for name, make in pages.items()}
    return {
        name: text for name, text in texts.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text
    }


def write_built() -> None:
    """Writes the pages that are not in the repository; Sphinx's settings call it."""
    for name, text in stale(BUILT).items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text)


def main(arguments: list[str]) -> int:
    found = stale(PAGES)
    if "--check" in arguments:
        if found:
            print(f"not current, run make docs: {', '.join(found)}")
        return 1 if found else 0
    for name, text in found.items():
        (ROOT / name).write_text(text)
        print(f"written: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
