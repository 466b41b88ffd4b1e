"""Ruff, mypy, cython-lint and stubtest report nothing; every package is shipped."""

import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from paths import ROOT
from source_files import files
from subprocesses import output_of

FOLDERS = ("kafkarec", "spark_udfs", "pyspark_kafkarec", "tests", "tools")


def tool(*command):
    """Run a linter of this interpreter; it may be missing only outside of CI."""
    beside = Path(sys.executable).with_name(command[0])
    program = str(beside) if beside.exists() else shutil.which(command[0])
    if program is None:
        assert not os.environ.get("CI"), f"{command[0]} is not installed"
        pytest.skip(f"{command[0]} is not installed here")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = dict(os.environ, PATH=path, PYTHONPATH=str(ROOT))
    output_of(program, *command[1:], cwd=ROOT, env=env)


def test_ruff_reports_nothing():
    tool(
        "ruff",
        "check",
        "--quiet",
        *(name for name in (*FOLDERS, "benchmarks", "examples", "setup.py") if (ROOT / name).exists()),
    )


def test_the_code_is_formatted():
    tool("ruff", "format", "--check", "--quiet", ".")


def test_cython_lint_reports_nothing():
    tool("cython-lint", *(str(path) for path in files("kafkarec", suffixes={".pyx", ".pxd"})))


def test_mypy_strict_reports_nothing():
    tool(
        "mypy",
        "--strict",
        "kafkarec",
        "spark_udfs",
        "pyspark_kafkarec",
    )


def test_stubs_fit_the_compiled_modules(tmp_path):
    """Of what the stubs import, only Routines is the type of a value; without all else it takes a fifth of the time."""
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nfollow_imports = skip\n[mypy-kafkarec._checksum]\nfollow_imports = normal\n")
    compiled = [f"kafkarec.{source.stem}" for source in sorted((ROOT / "kafkarec").glob("_*.pyx"))]
    tool("stubtest", *compiled, "--ignore-missing-stub", "--concise", "--mypy-config-file", str(config))


def test_every_package_is_shipped():
    """A package that is missing from setuptools' list is missing from the wheel, and no other test notices."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in files("kafkarec", suffixes={".py", ".pyx", ".pxd"})}
    assert sorted(listed) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)
