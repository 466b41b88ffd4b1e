"""Folders that `salvage` wrote with `as_partition`, opened by Kafka's LogLoader as after a crash: it removes
nothing."""

import random
import shutil

import pytest
from damage import damage_file
from plain_logs import batch, log
from salvage_runs import FOLDERS, assert_kafka_loads

from kafkarec import salvage


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_salvaged_logs_are_loaded_whole(kafka, tmp_path, folder):
    for number in range(8):
        chance = random.Random(number)
        source = tmp_path / f"source{number}" / folder.name
        shutil.copytree(folder, source)
        for path in sorted(source.glob("*.log")) * chance.randint(0, 2):
            damage_file(chance, path)
        (one,) = salvage(source, tmp_path / f"out{number}", as_partition=True).partitions
        if one.next_offset is not None:
            assert_kafka_loads(
                kafka, tmp_path / f"out{number}" / folder.name, tmp_path / f"work{number}", one.next_offset
            )


def test_merged_diverging_replicas_are_loaded_whole(kafka, tmp_path):
    common = [batch(0, 10), batch(10, 10, epoch=1)]
    a = log(tmp_path / "a" / "orders-0", common, [batch(20, 5, epoch=1), batch(25, 5, epoch=1)])
    b = log(tmp_path / "b" / "orders-0", [*common, batch(20, 7, epoch=2)], [batch(27, 2, epoch=2)])
    c = log(tmp_path / "c" / "orders-0", [batch(5, 20), batch(29, 5, epoch=1)])
    for name, sources in {"ab": [a, b], "ba": [b, a], "abc": [a, b, c], "cba": [c, b, a]}.items():
        (one,) = salvage(sources, tmp_path / name, as_partition=True).partitions
        assert_kafka_loads(kafka, tmp_path / name / "orders-0", tmp_path / f"work-{name}", one.next_offset)


def test_an_empty_active_segment_is_loaded(kafka, tmp_path):
    source = log(tmp_path / "orders-0", [batch(0, 10)])
    (source / f"{70:020}.log").write_bytes(b"")
    salvage(source, tmp_path / "out", as_partition=True)
    assert_kafka_loads(kafka, tmp_path / "out" / "orders-0", tmp_path / "work", 70)
