"""The source distribution holds what a build needs; `make release` installs it and reads with it."""

import shutil
import sys
import tarfile

from paths import ROOT
from subprocesses import output_of


def test_sdist_holds_all_files_of_a_build(tmp_path):
    """Built from a copy of the sources, without the developer's build products."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tmp_path / name)
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "_*.c")
    shutil.copytree(ROOT / "kafkarec", tmp_path / "kafkarec", ignore=leave_out)
    output_of(sys.executable, "setup.py", "-q", "sdist", cwd=tmp_path)
    [path] = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml", "kafkarec/_core.pyx", "kafkarec/_writer.pyx", "kafkarec/py.typed"} <= names
    assert {"kafkarec/_core.pyi", "kafkarec/codecs/__init__.py"} <= names
    pxd = {str(path.relative_to(ROOT)) for path in (ROOT / "kafkarec").rglob("*.pxd")}
    assert pxd <= names
    assert not any(name.endswith((".so", ".c")) for name in names)
