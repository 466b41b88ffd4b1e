"""`build` refuses spoiled Arrow and Parquet files with one line and a status, and never writes memory of the
process."""

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


def with_replaced_numbers(data: bytes, old: list[int], new: list[int], code: str = "i") -> bytes:
    """Replace the one place where the data holds these numbers in sequence."""
    before, after = struct.pack(f"<{len(old)}{code}", *old), struct.pack(f"<{len(new)}{code}", *new)
    assert data.count(before) == 1
    return data.replace(before, after)


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on standard error, and assert that nothing was written."""
    out = path.with_name("out.log")
    assert cli.main(["build", str(path), "-o", str(out)]) == 1
    complaint = capsys.readouterr()
    assert not out.exists() and complaint.out == "" and complaint.err.count("\n") == 1
    return complaint.err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("new", "row"),
    [
        ([0, 13298, 13300, 20], 1),  # two changed numbers, which once made records of this process's memory
        ([0, 5, 3, 20], 2),
        ([0, -5, 9, 20], 1),
        ([0, 5, 9, 2**31 - 1], 3),
    ],
)
def test_offsets_out_of_range_are_refused(
    form: str, new: list[int], row: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"key": [b"k", b"kk", b"kkk"], "value": [b"v" * 5, b"w" * 4, b"x" * 11]})
    path = tmp_path / "rows.arrow"
    path.write_bytes(with_replaced_numbers(written(table, form), [0, 5, 9, 20], new))
    complaint = refused(path, capsys)
    assert str(path) in complaint and "column 'value', row " in complaint and "not valid Arrow" in complaint
    assert f"row {row}:" in complaint


@pytest.mark.parametrize("form", FORMS)
def test_headers_and_views_out_of_range_are_refused(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [[("a", b"1")], [("b", b"2")] * 7, [("c", b"3")] * 5]
    table = pa.table({"value": [b"x", b"y", b"z"], "headers": pa.array(pairs, pa.list_(PAIR))})
    path = tmp_path / "rows.arrow"
    path.write_bytes(with_replaced_numbers(written(table, form), [0, 1, 8, 13], [0, 9, 8, 13]))
    assert "column 'headers', row 2:" in refused(path, capsys)
    table = pa.table({"value": pa.array([b"x" * 77, b"y" * 78, b"secret" * 20], pa.binary_view())})
    path.write_bytes(with_replaced_numbers(written(table, form), [78], [900]))
    complaint = refused(path, capsys)
    assert "column 'value', row 2:" in complaint and "secret" not in complaint


def test_the_row_number_counts_from_the_start_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.BytesIO()
    first = pa.table({"value": [b"first"] * 10})
    last = pa.table({"value": [b"v" * 5, b"w" * 4, b"x" * 11]})
    with pa.ipc.new_stream(out, first.schema) as writer:
        writer.write_table(first)
        writer.write_table(last)
    path = tmp_path / "rows.arrow"
    path.write_bytes(with_replaced_numbers(out.getvalue(), [0, 5, 9, 20], [0, 5, 3, 20]))
    assert "column 'value', row 12:" in refused(path, capsys)


PROGRAM = """
import contextlib, io, os, pathlib, random, struct, sys
from spoiled_arrow import random_table, spoiled, written
from kafkarec import cli
folder, statuses = pathlib.Path(sys.argv[1]), set()
for seed in range(int(sys.argv[2])):
    rng = random.Random(seed)
    form = rng.choice(["file", "stream", "parquet"])
    data = spoiled(written(random_table(rng), form), rng)
    path, out, stderr = folder / f"rows.{form}", folder / "out.log", io.StringIO()
    path.write_bytes(data)
    print(seed, flush=True)
    kind = "parquet" if form == "parquet" else "arrow"
    with contextlib.redirect_stderr(stderr):
        status = cli.main(["build", "--from", kind, str(path), "-o", str(out)])
    assert status in (0, 1, 2, 3) and "internal error" not in stderr.getvalue(), stderr.getvalue()
    assert out.exists() == (status == 0)
    if out.exists():
        assert out.stat().st_size < len(data) + 4000, (out.stat().st_size, len(data))
        out.unlink()
    statuses.add(status)
assert statuses == {0, 1, 2, 3}, statuses
"""


def test_files_changed_at_random_are_read_or_refused(tmp_path: Path) -> None:
    """In a child process, which prints each seed before it tries it, so that a crash by a signal names its seed."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "300"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{SUPPORT}:{ROOT}"},
    )
    assert ran.returncode == 0, (ran.returncode, ran.stdout[-20:], ran.stderr[-2000:])
