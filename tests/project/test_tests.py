"""The layout of the tests: folders by subject, no test file imports another, helper modules have unique names."""

import re
import sys

from paths import ROOT, SUPPORT, TESTS
from source_files import files, imports

# Units that are no package of kafkarec: the compiled modules with their C code, a module.
MORE_UNITS = {"core": ("_core.pyx", "_writer.pyx", "_c", "_checksum.py"), "report": ("report.py",)}
# In a file's own code, or in a program that it holds as a string.
OF_A_TEST = re.compile(
    r"^\s*(?:from\s+(?:tests\b|\.*(?:\w+\.)*test_)[\w.]*\s+import|import\s+(?:tests\b|(?:\w+\.)*test_))", re.M
)
# Modules below the public names of their packages, and the test files that import them: each tests one of them, where
# no public name shows the same. Other tests use public names, the command line or the helpers in tests/support.
INNER = re.compile(r"kafkarec\.(?:storage|read|state|recover|ops\.\w+)\.\w+")
OF_INNER_MODULES = {
    "fuzz/test_threads.py": "threads read logs of a few batches, which a program reads alone",
    "unit/compact/test_files.py": "which segments are walked once more; the result is the same",
    "unit/diff/test_diff.py": "truncation by histories of epochs, without logs for them",
    "unit/format/test_c_names.py": "numbers that C and Python must have alike",
    "unit/internal_topics/test_golden.py": "which topics are compacted, a table of its own",
    "unit/read/test_matched_transactions.py": "all tables of the match of markers, read in steps of any size",
    "unit/recover/test_aborted_index.py": "how many entries a look-up compares",
    "unit/recover/test_misplaced.py": "how often a log is walked whose order is broken",
    "unit/state/test_index_builders.py": "index entries for batches that no broker writes",
    "unit/state/test_producers.py": "what a broker keeps of a producer, by rows without a log",
    "unit/state/test_transactions.py": "evidence of side files that contradicts the batches",
    "unit/storage/test_follow.py": "a truncation between two steps of a poll",
    "unit/storage/test_raw_batches.py": "frames at the end of a file, which a follower compares",
    "unit/storage/test_names.py": "every form of a name",
    "unit/storage/test_rebuild.py": "side files from batches, step by step, also while the disk fails",
    "unit/storage/test_tiered.py": "that random bytes are no batch",
    "unit/study/test_study.py": "how a sample is shared by files of any sizes",
    "unit/support/test_threads.py": "from which size on there are threads, and what they wait for",
    "unit/verify/test_audit.py": "each kind of the audit, by batches that are odd in one way",
    "unit/verify/test_index_checks.py": "the usual way to check an index, compared with the slow one",
}
# A patch of a name with an underscore, by pytest or unittest.mock, and the files with one.
PRIVATE_PATCH = re.compile(r"""\b(?:setattr|patch)\(\s*(?:[\w.]+,\s*)?["'](?:[\w.]+\.)?_[A-Za-z]\w*["']""")
WITH_PRIVATE_PATCHES = {
    "fuzz/test_salvage_failures.py": "files are synced two at a time: the kill at any call would take hours with 96",
    "support/spark/publish_jobs.py": "a bucket of files, in which each request can fail; locks polled faster",
    "unit/convert/test_convert.py": "runs of a few bytes",
    "unit/verify/test_index_checks.py": "the slow way to check",
}


def test_no_test_file_imports_another():
    """Code that two test files need is in tests/support."""
    assert all(map(OF_A_TEST.search, ("import test_a", "    from .test_a import b", "from tests.unit.test_a import b")))
    paths = files("tests", suffixes={".py"})
    assert len(paths) > 200
    assert [path.name for path in paths if OF_A_TEST.search(path.read_text(encoding="utf-8"))] == []


def inner_modules(path):
    names = {f"{one.module}.{name}" for one in imports(path) for name in one.names or ("",)}
    found = {match[0] for name in names if (match := INNER.match(name))}
    return {name for name in found if (ROOT / f"{name.replace('.', '/')}.py").exists()}


def test_inner_modules_are_imported_where_no_public_name_shows_the_same():
    paths = [path for path in files("tests", suffixes={".py"}) if path.name.startswith("test_")]
    found = {str(path.relative_to(TESTS)) for path in paths if inner_modules(path)}
    assert found == OF_INNER_MODULES.keys() and len(found) <= 20


def test_private_names_are_patched_where_nothing_else_can_be():
    found = {
        str(path.relative_to(TESTS))
        for path in files("tests", suffixes={".py"})
        if PRIVATE_PATCH.search(path.read_text(encoding="utf-8"))
    }
    assert found == WITH_PRIVATE_PATCHES.keys() and len(found) <= 10


def test_every_test_file_is_in_the_folder_of_its_subject():
    tests = [path.relative_to(TESTS) for path in files("tests", suffixes={".py"}) if path.name.startswith("test_")]
    assert {path.parts[0] for path in tests} == {"unit", "cli", "fence", "jvm", "spark", "fuzz", "project"}
    package = ROOT / "kafkarec"
    for unit in {path.parts[1] for path in tests if path.parts[0] == "unit"}:
        expected = MORE_UNITS.get(unit, (unit, f"ops/{unit}", f"ops/{unit}.py"))
        assert any((package / name).exists() for name in expected), f"tests/unit/{unit} tests no package of kafkarec"
    assert all(len(path.parts) == (3 if path.parts[0] == "unit" else 2) for path in tests), (
        "tests are in one level of folders, unit tests in two"
    )


def test_helpers_hide_no_other_module():
    """Helpers are imported by their bare names, with tools on the same path; `fence` is a package, and only programs of
    Spark run what is in `apps`."""
    helpers = [path for path in files("tests/support", suffixes={".py"}) if {"apps", "fence"}.isdisjoint(path.parts)]
    assert {path.parent for path in helpers} == {SUPPORT, SUPPORT / "spark"}
    names = ["fence", *(path.stem for path in [*helpers, *files("tools", suffixes={".py"})])]
    assert sorted(names) == sorted(set(names))
    assert set(names) & sys.stdlib_module_names == set()
    assert [name for name in names if name.startswith("test_")] == []


def test_only_paths_py_locates_folders():
    """A file that counts its parent folders breaks when it moves, so only paths.py does."""
    counting = re.compile(r"Path\(__file__\)\S*\.parent")
    paths = files("tests", suffixes={".py"})
    assert [path.name for path in paths if counting.search(path.read_text(encoding="utf-8"))] == ["paths.py"]


def test_test_files_named_in_docs_exist():
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
