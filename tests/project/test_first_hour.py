"""What somebody types first, in a checkout: before and after `make`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

PACKAGES = ("kafkarec", "spark_udfs", "pyspark_kafkarec")


def checkout(folder: Path, *left_out: str) -> Path:
    """Copy the packages and setup.py, without files of these patterns."""
    ignore = shutil.ignore_patterns("__pycache__", "_*.c", *left_out)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "setup.py", folder)
    return folder


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which no make has run."""
    return checkout(tmp_path_factory.mktemp("fresh"), "_*.so", "_wheels")


def typed(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user does who is in that folder."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=at, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import kafkarec"),
        ("-c", "from kafkarec.storage import Segment"),
        ("-m", "kafkarec", "ls", "."),
    ],
)
def test_a_source_folder_that_is_not_compiled_says_so(fresh: Path, arguments: tuple[str, ...]) -> None:
    done = typed(fresh, *arguments)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    words = f"this is kafkarec's source folder, not compiled: run `make build` in {fresh}, or start Python elsewhere"
    assert words in last
    if arguments[0] == "-m":
        assert done.stderr.splitlines() == [last]


@pytest.mark.spark
def test_spark_udfs_from_such_a_folder_says_so_at_register(fresh: Path) -> None:
    done = typed(fresh, "-c", "import spark_udfs; spark_udfs.register(None)")
    last = done.stderr.splitlines()[-1]
    assert "this is spark_udfs' source folder, not compiled and without wheels: run `make wheelhouse` in " in last
    assert str(fresh) in last and "or start Python elsewhere" in last


def test_the_package_and_its_help_import_neither_the_core_nor_another_library(tmp_path: Path) -> None:
    """`kafkarec --help` and an import of the package are as fast as the standard library allows."""
    code = """
import sys
import kafkarec
at_first = {name.partition(".")[0] for name in sys.modules}
sys.argv = ["kafkarec", "--help"]
from kafkarec.cli import main
main()
compiled = [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(
    tuple(f"{kafkarec.__path__[0]}/_{name}" for name in ("core", "pages", "text", "writer")))]
others = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
print(compiled, sorted(others - before), "importlib.metadata" in sys.modules, file=sys.stderr)
assert kafkarec.decode and kafkarec.build_info()["kafkarec"] == kafkarec.__version__
"""
    before = "before = {name.partition('.')[0] for name in __import__('sys').modules}\n"
    done = typed(ROOT, "-c", before + code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[] ['kafkarec'] False\n"


def test_every_public_name_is_there() -> None:
    """Those in `__all__` are what `dir` lists, what the type checker sees, and what an attribute gives."""
    code = "import kafkarec; print(sorted(dir(kafkarec)) == sorted(kafkarec.__all__))\nfrom kafkarec import *\n"
    code += "print([name for name in kafkarec.__all__ if globals()[name] is not getattr(kafkarec, name)])"
    assert typed(ROOT, "-c", code).stdout == "True\n[]\n"
