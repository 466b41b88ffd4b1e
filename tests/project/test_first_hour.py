"""What somebody types first, in a checkout: before any `make`, and README's blocks after `make demo`."""

import checkouts
import pytest
from checkouts import typed
from paths import ROOT
from subprocesses import run_program

README = ROOT / "README.md"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A clone in which no make has run."""
    return checkouts.copy(tmp_path_factory.mktemp("fresh"), "_*.so")


@pytest.fixture(scope="module")
def made(tmp_path_factory, fat):
    return checkouts.after_make_demo(tmp_path_factory.mktemp("made"), fat)


@pytest.mark.parametrize(
    "line",
    ["python -c 'import kafkarec'", "python -c 'from kafkarec.logs import Segment'", "python -m kafkarec ls ."],
)
def test_a_source_folder_that_is_not_compiled_says_so(fresh, line):
    done = typed(fresh, line)
    assert done.returncode == 1
    *before, last = done.stderr.splitlines()
    assert f"this is kafkarec's source folder, not compiled: run `make build` in {fresh}, or start Python else" in last
    assert before == [] or "-m" not in line  # the command prints no traceback


def test_spark_udfs_from_such_a_folder_says_so_at_register(fresh):
    done = typed(fresh, "python -c 'import spark_udfs; spark_udfs.register(None)'")
    last = done.stderr.splitlines()[-1]
    assert "this is spark_udfs' source folder, not compiled and without wheels: run `make wheelhouse` in " in last
    assert str(fresh) in last and "or start Python elsewhere" in last


def test_the_python_in_the_readme_runs(made):
    code = checkouts.blocks(README, "In Python", "python")
    assert len(code) == 3
    (made / "typed.py").write_text("".join(code))
    done = typed(made, "python typed.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_lines_in_the_readme_run(made):
    (lines,) = checkouts.blocks(README, "On the command line", "sh")
    done = typed(made, lines)
    assert done.returncode == 0, done.stderr
    assert "kafkarec: 267 records in 1 batch, 10.1 KiB, in orders-0\n" in done.stderr
    assert "NOT DAMAGED" in done.stdout and str(made / "kafkarec") in done.stdout  # doctor's location


def test_the_command_of_a_checkout_runs_from_everywhere(made, tmp_path):
    """Also through a link, and where another source folder of kafkarec is the current one."""
    (tmp_path / "linked").symlink_to(made / ".venv" / "bin" / "kafkarec")
    (tmp_path / "kafkarec").mkdir()
    (tmp_path / "kafkarec" / "__init__.py").write_text("raise ImportError('not this one')\n")
    done = run_program("./linked", "doctor", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(made / "kafkarec") in done.stdout


def test_the_package_and_its_help_import_neither_the_core_nor_another_library(made):
    """`kafkarec --help` and an import of the package are as fast as the standard library allows."""
    code = """
import sys
before = set(sys.modules)
import kafkarec
from kafkarec.cli import main
main(["--help"])
others = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(others, [name for name in ("kafkarec._core", "importlib.metadata") if name in sys.modules], file=sys.stderr)
assert len(kafkarec.decode(b"")) == 0 and kafkarec.build_info()["kafkarec"] == kafkarec.__version__
assert "kafkarec._verbs" not in sys.modules
"""
    done = typed(made, f"python -c '{code}'")
    assert (done.returncode, done.stderr) == (0, "{'kafkarec'} []\n")


def test_every_public_name_is_there(made):
    """Those in `__all__` are what `dir` lists, what the type checker sees, and what an attribute gives."""
    code = "import kafkarec; print(sorted(dir(kafkarec)) == sorted(kafkarec.__all__))\nfrom kafkarec import *\n"
    code += "print([name for name in kafkarec.__all__ if globals()[name] is not getattr(kafkarec, name)])"
    assert typed(made, f"python -c '{code}'").stdout == "True\n[]\n"
