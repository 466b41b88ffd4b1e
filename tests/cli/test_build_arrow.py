"""`build` of Arrow and Parquet files that somebody changed: one line and a status, never bytes of this process."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from paths import ROOT, SUPPORT
from spoiled_arrow import PAIR, written

from kafkarec import cli

FORMS = ("file", "stream")


def swapped(data: bytes, old: list[int], new: list[int], code: str = "i") -> bytes:
    """The one place where these numbers stand in a row, with others in it."""
    before, after = struct.pack(f"<{len(old)}{code}", *old), struct.pack(f"<{len(new)}{code}", *new)
    assert data.count(before) == 1
    return data.replace(before, after)


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Its one line; nothing was made."""
    out = path.with_name("out.log")
    assert cli.main(["build", str(path), "-o", str(out)]) == 1
    told = capsys.readouterr()
    assert not out.exists() and told.out == "" and told.err.count("\n") == 1
    return told.err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("new", "row"),
    [
        ([0, 13298, 13300, 20], 1),  # two numbers changed: these gave records of this process's memory
        ([0, 5, 3, 20], 2),
        ([0, -5, 9, 20], 1),
        ([0, 5, 9, 2**31 - 1], 3),
    ],
)
def test_offsets_that_lead_elsewhere(
    form: str, new: list[int], row: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"key": [b"k", b"kk", b"kkk"], "value": [b"v" * 5, b"w" * 4, b"x" * 11]})
    path = tmp_path / "rows.arrow"
    path.write_bytes(swapped(written(table, form), [0, 5, 9, 20], new))
    told = refused(path, capsys)
    assert str(path) in told and "column 'value', row " in told and "not valid Arrow" in told
    assert f"row {row}:" in told


@pytest.mark.parametrize("form", FORMS)
def test_headers_and_views_that_lead_elsewhere(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [[("a", b"1")], [("b", b"2")] * 7, [("c", b"3")] * 5]
    table = pa.table({"value": [b"x", b"y", b"z"], "headers": pa.array(pairs, pa.list_(PAIR))})
    path = tmp_path / "rows.arrow"
    path.write_bytes(swapped(written(table, form), [0, 1, 8, 13], [0, 9, 8, 13]))
    assert "column 'headers', row 2:" in refused(path, capsys)
    table = pa.table({"value": pa.array([b"x" * 77, b"y" * 78, b"secret" * 20], pa.binary_view())})
    path.write_bytes(swapped(written(table, form), [78], [900]))
    told = refused(path, capsys)
    assert "column 'value', row 2:" in told and "secret" not in told


def test_the_row_is_counted_over_the_whole_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.BytesIO()
    first = pa.table({"value": [b"first"] * 10})
    last = pa.table({"value": [b"v" * 5, b"w" * 4, b"x" * 11]})
    with pa.ipc.new_stream(out, first.schema) as writer:
        writer.write_table(first)
        writer.write_table(last)
    path = tmp_path / "rows.arrow"
    path.write_bytes(swapped(out.getvalue(), [0, 5, 9, 20], [0, 5, 3, 20]))
    assert "column 'value', row 12:" in refused(path, capsys)


CHANGED = """
import contextlib, io, os, pathlib, random, struct, sys
from spoiled_arrow import random_table, spoiled, written
from kafkarec import cli
folder, statuses = pathlib.Path(sys.argv[1]), set()
for seed in range(int(sys.argv[2])):
    chance = random.Random(seed)
    form = chance.choice(["file", "stream", "parquet"])
    data = spoiled(written(random_table(chance), form), chance)
    path, out, said = folder / f"rows.{form}", folder / "out.log", io.StringIO()
    path.write_bytes(data)
    print(seed, flush=True)
    kind = "parquet" if form == "parquet" else "arrow"
    with contextlib.redirect_stderr(said):
        status = cli.main(["build", "--from", kind, str(path), "-o", str(out)])
    assert status in (0, 1, 2, 3) and "internal error" not in said.getvalue(), said.getvalue()
    assert out.exists() == (status == 0)
    if out.exists():
        assert out.stat().st_size < len(data) + 4000, (out.stat().st_size, len(data))
        out.unlink()
    statuses.add(status)
assert statuses == {0, 1, 2, 3}, statuses
"""


def test_files_changed_at_random(tmp_path: Path) -> None:
    """In a process of its own, which prints the seed that it is at: a signal would end it."""
    done = subprocess.run(
        [sys.executable, "-c", CHANGED, str(tmp_path), "300"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{SUPPORT}:{ROOT}"},
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-20:], done.stderr[-2000:])
