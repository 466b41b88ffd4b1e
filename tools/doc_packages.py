"""The page about the packages, and the map in CONTRIBUTING.md, from docs/packages.toml."""

from __future__ import annotations

import imports

PAGE = """\
# Packages

<!-- written by tools/make_docs.py from docs/packages.toml: do not edit -->

Imports have one direction. The table says which package may import which. `tests/project/test_imports.py` compares
every import of the sources with it, those inside functions and under `TYPE_CHECKING` too, and fails if one is not
allowed, if two modules import each other, or if no import needs an entry of the table.

![The packages of kafkarec and what each may import](../pictures/packages.svg)

Lowest first.

{table}

{upward}

More rules, each with its test in `tests/project/`:

* Compression libraries are imported in `codecs` only; a new codec is one file and a row of its table.
* pyarrow, polars, pandas, DuckDB and fsspec are imported inside functions, never at the top of a module:
  `pip install kafkarec` alone installs every verb.
* pyspark is imported in `spark_udfs` only, and nothing in `kafkarec` imports `spark_udfs`.

The reasons are in [Decisions](decisions.md).
"""


def rows() -> list[str]:
    """The table in Markdown."""
    lines = ["| package | holds | may import |", "|---|---|---|"]
    for row in imports.table():
        allowed = ", ".join(f"`{name}`" for name in row.imports) or "nothing"
        extra = "".join(f"; `{entry}`" for entry in row.also)
        lines.append(f"| `{row.name}` | {row.holds} | {allowed}{extra} |")
    return lines


def page() -> str:
    upward = [f"* `{f'{row.name}.{entry}'.replace('. ', ' ')}`" for row in imports.table() for entry in row.upward]
    listed = "Upwards, inside of methods only, and listed by name:\n\n" + "\n".join(upward)
    return PAGE.format(table="\n".join(rows()), upward=listed)


def folders() -> list[str]:
    """The map of kafkarec for CONTRIBUTING.md: a line per package."""
    return [f"| `{_folder(row.name)}` | {row.holds} |" for row in imports.table()]


def _folder(name: str) -> str:
    path = imports.ROOT / "kafkarec" / name
    if path.is_dir():
        return f"kafkarec/{name}/"
    if path.is_file():
        return f"kafkarec/{name}"
    if (imports.ROOT / name).is_dir():
        return f"{name}/"
    return f"kafkarec/{name}.pyx" if path.with_suffix(".pyx").exists() else f"kafkarec/{name}.py"
