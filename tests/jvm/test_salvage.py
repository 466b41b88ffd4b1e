"""Folders that salvage makes with as_partition, opened by Kafka's own LogLoader as after a crash: all of it stays."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from jvm_oracle import Oracle
from paths import SEGMENTS
from plain_logs import batch, log
from salvaging import loads
from spoiled_bytes import Bytes, cut, flip, garbage, hole, zeros

import kafkarec
from kafkarec.ops.salvage import salvage

FOLDERS = sorted({path.parent for path in SEGMENTS.glob("*/*.log")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_damaged_logs(kafka: Oracle, tmp_path: Path, folder: Path) -> None:
    random_ = random.Random(folder.name)
    for turn in range(8):
        source = tmp_path / f"source{turn}" / folder.name
        shutil.copytree(folder, source)
        for path in source.glob("*.log"):
            bytes_ = Bytes(path.read_bytes())
            for _ in range(random_.randint(0, 2)):
                random_.choice((flip, zeros, garbage, hole, cut))(bytes_, random_)
            path.write_bytes(bytes_.data)
        (one,) = salvage(source, tmp_path / f"out{turn}", as_partition=True).partitions
        if one.next_offset is not None:
            loads(kafka, tmp_path / f"out{turn}" / folder.name, tmp_path / f"work{turn}", one.next_offset)


def test_replicas_that_part(kafka: Oracle, tmp_path: Path) -> None:
    common = [batch(0, 10), batch(10, 10, epoch=1)]
    a = log(tmp_path / "a" / "orders-0", common, [batch(20, 5, epoch=1), batch(25, 5, epoch=1)])
    b = log(tmp_path / "b" / "orders-0", [*common, batch(20, 7, epoch=2)], [batch(27, 2, epoch=2)])
    c = log(tmp_path / "c" / "orders-0", [batch(5, 20), batch(29, 5, epoch=1)])
    for name, sources in {"ab": [a, b], "ba": [b, a], "abc": [a, b, c], "cba": [c, b, a]}.items():
        (one,) = salvage(sources, tmp_path / name, as_partition=True).partitions
        assert one.next_offset is not None
        loads(kafka, tmp_path / name / "orders-0", tmp_path / f"work-{name}", one.next_offset)


def test_an_empty_active_segment(kafka: Oracle, tmp_path: Path) -> None:
    source = log(tmp_path / "orders-0", [batch(0, 10)])
    (source / f"{70:020}.log").write_bytes(b"")
    salvage(source, tmp_path / "out", as_partition=True)
    loads(kafka, tmp_path / "out" / "orders-0", tmp_path / "work", 70)


def test_records_stay_what_they_were(kafka: Oracle, tmp_path: Path) -> None:
    """What a consumer of the recovered log gets is what the good batches of the source hold."""
    (one,) = salvage(SEGMENTS / "txn-0", tmp_path / "out", as_partition=True).partitions
    loads(kafka, tmp_path / "out" / "txn-0", tmp_path / "work", one.next_offset or 0)
    for isolation in ("read_committed", "read_uncommitted"):
        got = list(kafkarec.open(tmp_path / "work" / "txn-0").read(isolation=isolation))
        assert got == list(kafkarec.open(SEGMENTS / "txn-0").read(isolation=isolation))
