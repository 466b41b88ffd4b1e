"""Imports between packages: the contracts of pyproject.toml hold, which see Python only; those of compiled code."""

import os
import shutil
import sys
from graphlib import TopologicalSorter

import pytest
from paths import ROOT
from source_files import files, imports
from subprocesses import run_program

# compiled code -> what of kafkarec it imports and cimports
COMPILED = {
    "_core.pxd": set(),  # what is there once for the process
    "_c/": {"_c", "_core"},
    "_entry/": {"_c", "_entry", "_core", "errors"},
    "_core.pyx": {"_c", "_entry", "_checksum", "errors", "damage", "format"},
    "_writer.pyx": {"_c", "_entry", "_core", "errors"},
    "_verbs.pyx": {"_c", "_entry", "_core", "damage"},
}
# compiled module -> the packages that import it; of the operations, which
IMPORTERS = {
    "_core": "build_info codecs format memory read recover state storage tables "
    "ops.compact ops.convert ops.salvage ops.segment_writer ops.verify",
    "_verbs": "cli experimental ops.compact ops.validate read",
    "_writer": "memory ops.compact write",
}
PACKAGES = ("kafkarec", "spark_udfs", "pyspark_kafkarec")


def linted(folder):
    """import-linter with the contracts of pyproject.toml, on the packages of a folder."""
    code = "from importlinter.cli import lint_imports_command as run; run()"
    words = (sys.executable, "-c", code, "--no-cache", "--config", folder / "pyproject.toml")
    return run_program(*words, cwd=folder, env=dict(os.environ, PYTHONPATH=str(folder)))


def test_the_contracts_of_the_layers_hold():
    ran = linted(ROOT)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "8 kept, 0 broken" in ran.stdout


# A line that breaks each contract, in the order of pyproject.toml, and one for a package that no layer has.
BREAKING = {
    "kafkarec/read/reader.py": "from kafkarec.ops import verify",
    "kafkarec/logs.py": "import spark_udfs",
    "kafkarec/recover/steps.py": "from kafkarec.sources import folders",
    "kafkarec/ops/verify/report.py": "from kafkarec.experimental import v3",
    "kafkarec/ops/diff.py": "from kafkarec import memory",
    "kafkarec/ops/salvage/run.py": "from kafkarec.ops.verify import report",
    "kafkarec/support/text_table.py": "from kafkarec.support import command_line",
    "spark_udfs/schema.py": "from kafkarec.logs import Log",
}


@pytest.mark.parametrize(
    "lines, broken", [(BREAKING, len(BREAKING)), ({"kafkarec/new_package/__init__.py": "import os"}, 1)]
)
def test_a_new_import_of_what_stands_above_is_found(lines, broken, tmp_path):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.c", "*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, line in lines.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        with (tmp_path / file).open("a") as source:
            source.write(f"\n\ndef later():\n    {line}\n")
    ran = linted(tmp_path)
    assert ran.returncode == 1 and f"{8 - broken} kept, {broken} broken" in ran.stdout


def test_compiled_code_imports_only_what_is_listed_and_in_no_circle():
    graph = {}
    for path in files("kafkarec", suffixes={".pyx", ".pxd"}):
        name = path.relative_to(ROOT / "kafkarec").as_posix()
        (allowed,) = [listed for start, listed in COMPILED.items() if name.startswith(start)]
        ours = [one for one in imports(path) if one.module.split(".")[0] in ("kafkarec", "")]
        assert {".".join(one.module.split(".")[:2]) for one in ours} <= {f"kafkarec.{each}" for each in allowed}, name
        of_format = [one for one in ours if one.module.startswith("kafkarec.format")]  # which imports _core
        assert not any(one.runs or one.module != "kafkarec.format.control" for one in of_format), name
        modules = {module for one in ours for module in (one.module, *(f"{one.module}.{n}" for n in one.names))}
        graph[name] = {f"{module.removeprefix('kafkarec.').replace('.', '/')}.pxd" for module in modules} - {name}
    assert len(graph) > 35 and sum(map(len, graph.values())) > 200
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_only_these_packages_import_the_compiled_modules():
    found = {name: set() for name in IMPORTERS}
    for path in files(*PACKAGES, suffixes={".py"}):
        top, package, *inside = (*path.relative_to(ROOT).with_suffix("").parts, "")
        package = package if top == "kafkarec" else top
        for one in imports(path):
            for name in {*one.module.split("."), *one.names} & IMPORTERS.keys():
                found[name].add(f"ops.{inside[0]}" if package == "ops" else package)
    assert found == {name: set(listed.split()) for name, listed in IMPORTERS.items()}


def test_the_map_has_every_package():
    rows = [
        line.split("`")[1] for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| `")
    ]
    names = {path.name for path in (ROOT / "kafkarec").iterdir()} - {"__init__.py", "__main__.py", "py.typed"}
    modules = {name for name in names if not name.startswith("_") and (name.endswith(".py") or "." not in name)}
    modules |= {"_core.pyx", "_writer.pyx", "_verbs.pyx", "_core.pxd", "_c", "_entry"}
    assert modules == {row.split("/")[1] for row in rows if row.startswith("kafkarec/")}
