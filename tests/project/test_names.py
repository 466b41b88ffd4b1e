"""One name, one meaning: no two public classes and no two modules of one name without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

PACKAGES = ("kafkarec", "spark_udfs")

# Names of several classes, and why they share it.
CLASSES: dict[str, str] = {}

# Names of several modules, and why they share it. Modules of kafkarec and of spark_udfs are never imported together
# under their bare names, so a module of spark_udfs may have the name of what it brings to Spark.
OF_SPARK = "spark_udfs has the same subject for Spark"
MODULES = {
    "__main__": "Python's name for `python -m`",
    "run": "the entry point of each operation in kafkarec.ops",
    "report": "salvage and verify each have a report",
    "diff": "the operation, and the verb of the command line",
    "output": "the output of the command line, and of salvage",
    "side_files": "their entries as tuples (format), and the ones that salvage writes",
    "leader_epochs": "the checkpoint file (sidecars), and its meaning for a log (state)",
    "log": "a partition's log (storage), and the package's logger (support)",
    "listing": "of transactions (state), and of files (spark_udfs)",
    "batch_columns": "columns of batch fields: in C, and as verify checks them",
    "offset_map": "C, and the Python module around it",
    "open_batch": "C, and the Python module around it",
    "py_rows": "C, and the Python module around it",
    "arguments": "arguments of Python calls (_entry), and of SQL functions (spark_udfs)",
    "batch": "the format of a batch (_c), and Spark's batch reader",
    "columns": OF_SPARK,
    "damage": OF_SPARK,
    "encoding": OF_SPARK,
    "errors": OF_SPARK,
    "folders": OF_SPARK,
    "internal": "internal topics: of `cat`, and of spark_udfs",
    "isolation": OF_SPARK,
    "schema": OF_SPARK,
    "selection": "rows that `cat` prints, and partitions that spark_udfs reads",
}


def classes(root: Path) -> Iterator[tuple[str, str]]:
    """(name, file) of each public class at the top of a module."""
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            found = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        else:
            found = re.findall(r"^(?:cdef )?class (\w+)", text, re.MULTILINE)
        yield from ((name, str(path.relative_to(root))) for name in found if not name.startswith("_"))


def modules(root: Path) -> Iterator[tuple[str, str]]:
    """(name, file) of each module that is no package."""
    return ((path.stem, str(path.relative_to(root))) for path in sources(root) if path.stem != "__init__")


def sources(root: Path) -> list[Path]:
    found = [path for package in PACKAGES for path in (root / package).rglob("*")]
    return sorted(path for path in found if path.suffix in (".py", ".pyx", ".pxd"))


def repeated(names: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for name, file in names:
        files.setdefault(name, []).append(file)
    return {name: found for name, found in files.items() if len(found) > 1}


@pytest.mark.parametrize(("names", "reasons"), [(classes, CLASSES), (modules, MODULES)], ids=["classes", "modules"])
def test_names_are_given_twice_only_with_a_reason(names, reasons: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    assert len(list(names(ROOT))) > 100
    twice = repeated(names(ROOT))
    assert {name: files for name, files in twice.items() if name not in reasons} == {}
    assert sorted(set(reasons) - set(twice)) == [], "names of one meaning need no reason"


def test_repeated_names_are_found_in_python_and_cython(tmp_path: Path) -> None:
    texts = {
        "kafkarec/a/names.py": "class Batch: ...\nclass _Own: ...\nclass Other: ...\n",
        "kafkarec/_fast.pyx": "cdef class Batch:\n    pass\n",
        "kafkarec/_c/names.pxd": "cdef int f():\n    pass\n",
        "spark_udfs/__init__.py": "def f():\n    class Other: ...\nclass _Own: ...\n",
        "kafkarec/__init__.py": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert repeated(classes(tmp_path)) == {"Batch": ["kafkarec/_fast.pyx", "kafkarec/a/names.py"]}
    assert repeated(modules(tmp_path)) == {"names": ["kafkarec/_c/names.pxd", "kafkarec/a/names.py"]}
