"""Copies of the checkout, and commands that are typed in them as `. .venv/bin/activate` leaves a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
import setup_env
import wheelhouse_pack
from paths import ROOT
from subprocesses import output_of, run_program

PACKAGES = ("kafkarec", "spark_udfs", "pyspark_kafkarec")


def copy(folder: Path, *left_out: str) -> Path:
    """Copy the packages and setup.py, without files of these patterns."""
    ignore = shutil.ignore_patterns("__pycache__", "_*.c", "_trees", *left_out)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "setup.py", folder)
    return folder


def after_make_demo(folder: Path, fat: Path) -> Path:
    """What `make demo` leaves: compiled packages, the wheels, and .venv, which here has this interpreter's packages."""
    copy(folder)
    wheelhouse_pack.unpack_data(fat, folder)
    (folder / "wheelhouse").mkdir()
    (folder / "wheelhouse" / fat.name).symlink_to(fat)
    (folder / "examples").symlink_to(ROOT / "examples")
    environment = folder / ".venv"
    output_of(sys.executable, "-m", "venv", "--without-pip", environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup_env, "VENV", environment)
        patch.setattr(setup_env, "ROOT", folder)
        setup_env.use_checkout()
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "of_this_interpreter.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def typed(at: Path, line: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in a copy, with its .venv active if it has one, else with this interpreter's."""
    own = os.path.dirname(sys.executable)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_", "SPARK_"))}
    env["PATH"] = os.pathsep.join([str(at / ".venv" / "bin"), own, os.environ["PATH"]])
    return run_program("bash", "-e", "-c", line, cwd=at, env=env | dict(environ or {}), timeout=300)


def blocks(page: Path, title: str, language: str) -> list[str]:
    """The blocks of code below a title of a page, as they are typed."""
    section = page.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
