"""Imports between packages: each is listed in docs/packages.toml, there are no cycles, and other libraries are imported
by rule."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import imports
import pytest
from imports import Import, Row
from paths import ROOT


def test_every_import_is_listed_in_the_table() -> None:
    """Imports inside functions and under TYPE_CHECKING count; unused entries fail, too."""
    assert len(imports.all_imports()) > 1000
    assert imports.problems() == []


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter with the contracts of pyproject.toml, on the packages of a folder."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    config = ["--config", str(folder / "pyproject.toml")]
    return subprocess.run([*command, *config], cwd=folder, env=dict(os.environ, PYTHONPATH=str(folder)),
                          capture_output=True, text=True, check=False)  # fmt: skip


def test_the_contracts_of_the_layers_hold() -> None:
    ran = linted(ROOT)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "2 kept, 0 broken" in ran.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("kafkarec/read/reader.py", "    from kafkarec.ops import verify\n"),
        ("kafkarec/sidecars/txn_index.py", "    from kafkarec.storage import names\n"),
        ("spark_udfs/schema.py", "    from kafkarec.sources import folders\n"),
    ],
)
def test_a_new_import_of_what_stands_above_is_found(file: str, line: str, tmp_path: Path) -> None:
    copy(tmp_path)
    with (tmp_path / file).open("a") as source:
        source.write(f"\n\ndef later():\n{line}")
    assert linted(tmp_path).returncode == 1


def copy(folder: Path) -> None:
    for package in imports.PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.c", "*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


SOURCES = {
    "kafkarec/__init__.py": "",
    "kafkarec/low/__init__.py": "",
    "kafkarec/low/one.py": "",
    "kafkarec/low/two.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import x\n",
    "kafkarec/high/__init__.py": "",
    "kafkarec/high/verbs.py": "import os\nfrom kafkarec.low import one\ndef f():\n    from kafkarec.low.two import y\n",
    "kafkarec/_fast.pyx": "from kafkarec._c.a cimport (\n    b, c,\n)\ncimport cython\n",
    "kafkarec/_c/__init__.pxd": "",
    "kafkarec/_fast.pxd": "cdef int f()\n",
    "kafkarec/_c/a.pxd": "from libc.string cimport memcpy\nfrom kafkarec._c cimport d\nfrom kafkarec._fast cimport f\n",
    "kafkarec/_c/d.pxd": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_imports_of_every_form_are_found(project: Path) -> None:
    assert imports.all_imports(project) == [
        Import("kafkarec._c.a", "kafkarec._c.d", True),
        Import("kafkarec._c.a", "kafkarec._fast.pxd", True),
        Import("kafkarec._fast", "kafkarec._c.a", True),
        Import("kafkarec.high.verbs", "kafkarec.low.one", True),
        Import("kafkarec.high.verbs", "kafkarec.low.two", False),
        Import("kafkarec.low.two", "kafkarec.low.one", False),
    ]


def test_violations_of_a_table_are_named() -> None:
    rows = [Row("low", "", ()), Row("high", "", ("low",))]
    up = [Import("kafkarec.low.a", "kafkarec.high.b", False)]
    assert imports.against(up, rows) == ["kafkarec.low.a imports kafkarec.high.b, and low may not"]
    listed = [Row("low", "", (), ("a -> high.b",)), rows[1]]
    assert imports.against(up, listed) == []
    at_the_top = [up[0]._replace(runs=True)]
    assert imports.against(at_the_top, listed) == ["kafkarec.low.a imports kafkarec.high.b, and low may not"]
    assert imports.against([Import("kafkarec.new.a", "kafkarec.low.b", True)], rows) == [
        "kafkarec.new.a is in no row of the table"
    ]
    assert imports.unlisted([], rows) == ["high does not import low"]
    assert imports.not_below([Row("low", "", ("high",)), rows[1]]) == ["low may import high, which is below it"]


def test_one_operation_imports_another_only_where_listed() -> None:
    rows = [Row("ops", "", (), (), ("study -> ops.convert",))]
    allowed = Import("kafkarec.ops.study.run", "kafkarec.ops.convert.run", True)
    other = Import("kafkarec.ops.convert.run", "kafkarec.ops.study.run", True)
    same = Import("kafkarec.ops.study.run", "kafkarec.ops.study.trial", True)
    assert imports.against([allowed, same, other], rows) == [
        "kafkarec.ops.convert.run imports kafkarec.ops.study.run, and ops may not"
    ]


def test_cycles_of_any_length_are_found() -> None:
    ring = [Import(f"kafkarec.p.{a}", f"kafkarec.p.{b}", True) for a, b in ("ab", "bc", "ca", "cd")]
    assert imports.import_cycles(ring, []) == [["kafkarec.p.a", "kafkarec.p.b", "kafkarec.p.c"]]
    lazy = [ring[0], Import("kafkarec.p.b", "kafkarec.q.a", False), Import("kafkarec.q.a", "kafkarec.p.a", True)]
    assert len(imports.import_cycles(lazy, [])) == 1
    assert imports.import_cycles(lazy, [Row("p", "", (), ("b -> q",))]) == []
