"""Names: no two public classes and no two modules of one name without a reason."""

import ast
import re

import pytest
from paths import ROOT

PACKAGES = ("kafkarec", "spark_udfs")

# Names of several classes, with the reason.
CLASSES = {}

# Names of several modules, with the reason. A module of spark_udfs may have the name of the module of kafkarec whose
# functions it offers to Spark: the two are never imported together under their bare names.
OF_SPARK = "spark_udfs has the same subject for Spark"
MODULES = {
    "run": "the entry point of each operation in kafkarec.ops",
    "diff": "the operation, and the verb of the command line",
    "batch": "the format of a batch (_c), and Spark's batch reader",
    "report": "blocks and forms of all reports, and the report of verify",
    "columns": OF_SPARK,
    "damage": OF_SPARK,
    "encoding": OF_SPARK,
    "errors": OF_SPARK,
    "folders": OF_SPARK,
    "schema": OF_SPARK,
}


def classes(root):
    """(name, file) of each public class at the top of a module."""
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            class_names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        else:
            class_names = re.findall(r"^(?:cdef )?class (\w+)", text, re.MULTILINE)
        yield from ((name, str(path.relative_to(root))) for name in class_names if not name.startswith("_"))


def modules(root):
    """(name, file) of each module that is not a package."""
    return ((path.stem, str(path.relative_to(root))) for path in sources(root) if path.stem != "__init__")


def sources(root):
    paths = [path for package in PACKAGES for path in (root / package).rglob("*")]
    declared = {path.with_suffix(".pxd") for path in paths if path.suffix == ".pyx"}  # what that .pyx defines
    return sorted(path for path in {*paths} - declared if path.suffix in (".py", ".pyx", ".pxd"))


def repeated(names):
    files = {}
    for name, file in names:
        files.setdefault(name, []).append(file)
    return {name: paths for name, paths in files.items() if len(paths) > 1}


@pytest.mark.parametrize("names, reasons", [(classes, CLASSES), (modules, MODULES)], ids=["classes", "modules"])
def test_repeated_names_have_a_reason(names, reasons):
    assert len(list(names(ROOT))) > 100
    twice = repeated(names(ROOT))
    assert {name: files for name, files in twice.items() if name not in reasons} == {}
    assert sorted(set(reasons) - set(twice)) == [], "a reason is listed for a name that is not repeated"


def test_repeated_names_are_found_in_python_and_cython(tmp_path):
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
