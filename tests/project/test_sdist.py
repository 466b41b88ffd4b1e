"""The source distribution builds without a compiler warning, installs, decodes and scans."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import golden
import pytest
from paths import ROOT

SMOKE = """
import sys, kafkarec
data = open(sys.argv[1], "rb").read()
columns = kafkarec.decode(data)
assert len(columns) > 5 and columns[0].offset == 0, columns
assert len(kafkarec.scan(data)) == len(list(kafkarec.batches(data)))
assert "site-packages" in kafkarec.__file__, kafkarec.__file__
assert not {"pyarrow", "pandas", "polars"} & set(sys.modules)
print(kafkarec.__version__)
"""

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "CFLAGS")} | extra
    return subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, without the developer's build products."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "_*.c")
    shutil.copytree(ROOT / "kafkarec", folder / "kafkarec", ignore=leave_out)
    completed = run(sys.executable, "setup.py", "-q", "sdist", cwd=folder)
    assert completed.returncode == 0, completed.stderr[-3000:]
    [archive] = (folder / "dist").glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def installed(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(the Python of an environment with only the sdist and its requirements, the output of the build)."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    reach = run(python, "-m", "pip", "download", "--no-deps", "-q", "-d", folder / "probe", "crc32c", cwd=folder)
    if reach.returncode != 0:
        pytest.skip(f"no package index within reach: {reach.stderr.strip()[-200:]}")
    completed = run(python, "-m", "pip", "install", "-v", sdist, cwd=folder)
    assert completed.returncode == 0, completed.stdout[-4000:] + completed.stderr[-2000:]
    return python, completed.stdout + completed.stderr


def test_sdist_holds_all_files_of_a_build(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml", "kafkarec/_core.pyx", "kafkarec/_writer.pyx", "kafkarec/py.typed"} <= names
    assert {"kafkarec/_core.pyi", "kafkarec/codecs/__init__.py"} <= names
    pxd = {str(path.relative_to(ROOT)) for path in (ROOT / "kafkarec").rglob("*.pxd")}
    assert pxd <= names
    assert not any(name.endswith(".so") for name in names)


def test_compiler_prints_no_warning(installed: tuple[Path, str]) -> None:
    """-Wall -Wextra, which setup.py sets."""
    log = installed[1]
    assert "-Wall" in log
    assert "-Wextra" in log
    warnings = [line for line in log.splitlines() if re.search(r"\bwarning: ", line) and ".c:" in line]
    assert warnings == []
    assert [line for line in log.splitlines() if re.match(r"\s*warning: .*\.p(yx|xd):", line)] == []


def test_decode_and_scan_in_an_empty_environment(installed: tuple[Path, str], tmp_path: Path) -> None:
    python, _ = installed
    sample = golden.vector("v2-multi-batch").bin_path
    completed = run(python, "-c", SMOKE, sample, cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr[-3000:]
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", completed.stdout)


@pytest.mark.parametrize("verb", [["scan"], ["cat"], ["doctor"]])
def test_verbs_in_an_empty_environment(installed: tuple[Path, str], verb: list[str], tmp_path: Path) -> None:
    python, _ = installed
    files = [golden.vector("v2-multi-batch").bin_path] if verb != ["doctor"] else []
    completed = run(python.with_name("kafkarec"), *verb, *files, cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr[-3000:]
    assert completed.stdout.strip()
    assert completed.stderr == ""
