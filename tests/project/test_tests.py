"""The layout of the tests: folders by subject, no test file imports another, helper modules have unique names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from paths import ROOT, SUPPORT, TESTS
from source_files import files, imports

# Units that are several modules of kafkarec: the compiled modules with their C code.
MORE_UNITS = {"core": ("_core.pyx", "_writer.pyx", "_c", "_checksum.py")}
SNIPPET = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


def is_test(module: str) -> bool:
    return module.startswith(("tests.", "test_")) or module == "tests" or ".test_" in module


def imported_tests(path: Path) -> set[str]:
    """The test modules that a file imports, in its own code or in a program that it holds as a string."""
    modules = {module for module, _, _ in imports(path)} | set(SNIPPET.findall(path.read_text(encoding="utf-8")))
    return {module for module in modules if is_test(module)}


def test_no_test_file_imports_another() -> None:
    """Code that two test files need is in tests/support."""
    paths = files("tests", suffixes={".py"})
    assert len(paths) > 200
    imported = {str(path.relative_to(ROOT)): imported_tests(path) for path in paths if path != Path(__file__)}
    assert {path: modules for path, modules in imported.items() if modules} == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from test_a import b\n", {"test_a"}),
        ("def f():\n    import test_a, os\n", {"test_a"}),
        ("from tests.unit.test_a import b\n", {"tests.unit.test_a"}),
        ("from .test_a import b\n", {".test_a"}),
        ("PROGRAM = '''\nimport os\nfrom test_a import b\n'''\n", {"test_a"}),
        ("import builders\nfrom testing import x\n", set()),
    ],
)
def test_imports_of_every_form_are_found(tmp_path: Path, code: str, expected: set[str]) -> None:
    path = tmp_path / "one.py"
    path.write_text(code)
    assert imported_tests(path) == expected


def test_every_test_file_is_in_the_folder_of_its_subject() -> None:
    tests = [path.relative_to(TESTS) for path in files("tests", suffixes={".py"}) if path.name.startswith("test_")]
    assert {path.parts[0] for path in tests} == {"unit", "cli", "fence", "jvm", "spark", "fuzz", "project"}
    package = ROOT / "kafkarec"
    for unit in {path.parts[1] for path in tests if path.parts[0] == "unit"}:
        expected = MORE_UNITS.get(unit, (unit, f"ops/{unit}", f"ops/{unit}.py"))
        assert any((package / name).exists() for name in expected), f"tests/unit/{unit} tests no package of kafkarec"
    assert all(len(path.parts) == (3 if path.parts[0] == "unit" else 2) for path in tests), (
        "tests are in one level of folders, unit tests in two"
    )


def test_helpers_hide_no_other_module() -> None:
    """Helpers are imported by their bare names, with tools on the same path; `fence` is a package, and only programs of
    Spark run what is in `apps` and `workers`."""
    helpers = [
        path for path in files("tests/support", suffixes={".py"}) if {"apps", "fence", "workers"}.isdisjoint(path.parts)
    ]
    assert {path.parent for path in helpers} == {SUPPORT, SUPPORT / "spark"}
    names = ["fence", *(path.stem for path in [*helpers, *files("tools", suffixes={".py"})])]
    assert sorted(names) == sorted(set(names))
    assert set(names) & sys.stdlib_module_names == set()
    assert [name for name in names if name.startswith("test_")] == []


def test_only_paths_py_locates_folders() -> None:
    """A file that counts its parent folders breaks when it moves, so only paths.py does."""
    counting = re.compile(r"Path\(__file__\)\S*\.parent")
    paths = files("tests", suffixes={".py"})
    assert [path.name for path in paths if counting.search(path.read_text(encoding="utf-8"))] == ["paths.py"]


def test_test_files_named_in_docs_exist() -> None:
    named = re.compile(r"\btests/[\w./-]+\.(?:py|java|toml|md|jsonl?)\b")
    texts = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tools/*")]
    texts += [*files("tests"), *TESTS.rglob("*.md"), *TESTS.rglob("*.java")]
    named_files = {
        (str(path.relative_to(ROOT)), name)
        for path in texts
        if path.is_file()
        for name in named.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named_files) > 20
    assert {(path, name) for path, name in named_files if not (ROOT / name).exists()} == set()
