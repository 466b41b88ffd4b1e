"""Restored batches on the command line: cat, convert, salvage --no-repair."""

from __future__ import annotations

import json
from pathlib import Path

import builders
import pytest
from command import Here

import kafkarec

BATCHES = [builders.good_batch(3, base_offset=3 * n) for n in range(4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "orders-0"
    found.mkdir()
    data = builders.patched(b"".join(BATCHES), len(BATCHES[0]) + 8, bytes(4))
    (found / f"{0:020d}.log").write_bytes(data)
    return found


def test_cat_restores_with_errors_skip_only(run: Here, folder: Path) -> None:
    skipped = run("cat", folder, "--errors", "skip")
    assert skipped.status == 1 and "batch length is 94, not 0: proven by the checksum" in skipped.complaint
    assert [json.loads(line)["offset"] for line in skipped.out.splitlines()] == list(range(12))
    stopped = run("cat", folder)
    assert [json.loads(line)["offset"] for line in stopped.out.splitlines()] == [0, 1, 2]
    assert stopped.status == 1


def test_convert_says_what_it_restores(run: Here, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.log"
    skipped = run("convert", folder, "-o", out, "--errors", "skip")
    assert skipped.status == 1 and out.read_bytes() == b"".join(BATCHES)
    assert f"batch at byte {len(BATCHES[0])}: batch length is 94, not 0: proven by the checksum" in skipped.err
    made = kafkarec.convert((folder / f"{0:020d}.log").read_bytes(), errors="skip")
    assert [(one.position, one.fields) for one in made.restored] == [(len(BATCHES[0]), {"batch_length": (0, 94)})]


def test_salvage_repairs_unless_told_otherwise(run: Here, folder: Path, tmp_path: Path) -> None:
    assert run("salvage", folder, "-o", tmp_path / "a").status == 1
    assert run("salvage", folder, "-o", tmp_path / "b", "--no-repair").status == 1
    repaired, left_out = ((tmp_path / name / "orders-0" / f"{0:020d}.log").read_bytes() for name in "ab")
    assert repaired == b"".join(BATCHES)
    assert left_out == BATCHES[0] + BATCHES[2] + BATCHES[3]
    assert json.loads((tmp_path / "b" / "salvage.json").read_text())["partitions"][0]["restored"] == []
