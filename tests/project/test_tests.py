"""The order of the tests: folders by what they test, no test file imports another, helpers have names of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from paths import ROOT, SUPPORT, TESTS
from source_files import files, imports

# What stands for several modules of kafkarec: the compiled ones with their C.
MORE_UNITS = {"core": ("_core.pyx", "_writer.pyx", "_c", "_checksum.py")}
SNIPPET = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


def is_test(module: str) -> bool:
    return module.startswith(("tests.", "test_")) or module == "tests" or ".test_" in module


def imported_tests(path: Path) -> set[str]:
    """Test modules that a file imports: in its own code, or in a program that it holds as a string."""
    told = {module for module, _ in imports(path)} | set(SNIPPET.findall(path.read_text(encoding="utf-8")))
    return {module for module in told if is_test(module)}


def test_no_test_file_imports_another() -> None:
    """What two of them need is in tests/support."""
    every = files("tests", suffixes={".py"})
    assert len(every) > 200
    found = {str(path.relative_to(ROOT)): imported_tests(path) for path in every if path != Path(__file__)}
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("from test_a import b\n", {"test_a"}),
        ("def f():\n    import test_a, os\n", {"test_a"}),
        ("from tests.unit.test_a import b\n", {"tests.unit.test_a"}),
        ("from .test_a import b\n", {".test_a"}),
        ("PROGRAM = '''\nimport os\nfrom test_a import b\n'''\n", {"test_a"}),
        ("import builders\nfrom testing import x\n", set()),
    ],
)
def test_imports_of_every_form_are_seen(tmp_path: Path, code: str, wanted: set[str]) -> None:
    path = tmp_path / "one.py"
    path.write_text(code)
    assert imported_tests(path) == wanted


def test_every_test_file_is_in_a_folder_of_what_it_tests() -> None:
    tests = [path.relative_to(TESTS) for path in files("tests", suffixes={".py"}) if path.name.startswith("test_")]
    assert {path.parts[0] for path in tests} == {"unit", "cli", "jvm", "spark", "fuzz", "project"}
    package = ROOT / "kafkarec"
    for unit in {path.parts[1] for path in tests if path.parts[0] == "unit"}:
        wanted = MORE_UNITS.get(unit, (unit, f"ops/{unit}", f"ops/{unit}.py"))
        assert any((package / name).exists() for name in wanted), f"tests/unit/{unit} tests no package of kafkarec"
    assert all(len(path.parts) == (3 if path.parts[0] == "unit" else 2) for path in tests), "one level of folders"


def test_helpers_hide_no_other_module() -> None:
    """They are imported by their bare names; tools is on the same path."""
    helpers = [path for path in files("tests/support", suffixes={".py"}) if "apps" not in path.parts]
    assert {path.parent for path in helpers} == {SUPPORT, SUPPORT / "spark"}
    names = [path.stem for path in [*helpers, *files("tools", suffixes={".py"})]]
    assert sorted(names) == sorted(set(names))
    assert set(names) & sys.stdlib_module_names == set()
    assert [name for name in names if name.startswith("test_")] == []


def test_folders_are_named_in_one_place() -> None:
    """A file that counts its parents breaks when it moves: paths.py does it for all."""
    counting = re.compile(r"Path\(__file__\)\S*\.parent")
    every = files("tests", suffixes={".py"})
    assert [path.name for path in every if counting.search(path.read_text(encoding="utf-8"))] == ["paths.py"]


def test_files_of_tests_that_texts_name_exist() -> None:
    named = re.compile(r"\btests/[\w./-]+\.(?:py|java|toml|md|jsonl?)\b")
    texts = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tools/*")]
    texts += [*files("tests"), *TESTS.rglob("*.md"), *TESTS.rglob("*.java")]
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in texts
        if path.is_file()
        for name in named.findall(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 20
    assert {(path, name) for path, name in found if not (ROOT / name).exists()} == set()
