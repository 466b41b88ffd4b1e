"""Segment.splits and between: the parts of a file, read one by one, are the file."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import golden
import pytest

import kafkarec

LOGS = [path for path in sorted((golden.VECTORS / "segments").glob("*/*.log")) if path.stat().st_size]


def facts(damage: tuple[kafkarec.Damage, ...]) -> list[tuple[int, int, str]]:
    return [(each.position, each.length, each.reason) for each in damage]


def compare(segment: kafkarec.Segment, max_bytes: int) -> int:
    whole = segment.read(errors="skip", control=True)
    splits = segment.splits(max_bytes)
    assert splits[0][0] == 0 and splits[-1][1] == segment.size
    assert all(first[1] == second[0] for first, second in itertools.pairwise(splits))
    parts = [segment.between(*ends).read(errors="skip", control=True) for ends in splits]
    assert [record for part in parts for record in part] == list(whole)
    assert [found for part in parts for found in facts(part.damage)] == facts(whole.damage)
    assert [p for part in parts for p in part.batches.column("position")] == whole.batches.column("position")
    assert sum(part.remaining for part in parts) == whole.remaining
    return len(splits)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem.lstrip('0') or 0}")
def test_parts_are_the_whole(path: Path) -> None:
    segment = kafkarec.open(path)
    assert isinstance(segment, kafkarec.Segment)
    assert compare(segment, 1 << 30) == 1
    counts = [compare(segment, size) for size in (4000, 300, 1)]
    assert counts == sorted(counts)
    assert counts[-1] > 1 or len(segment.scan()) == 1


@pytest.mark.parametrize("seed", range(12))
def test_damage_belongs_to_one_part(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(LOGS[seed % len(LOGS)].read_bytes())
    for _ in range(2):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    segment = kafkarec.open(path)
    assert isinstance(segment, kafkarec.Segment)
    compare(segment, 500)


def test_a_part_knows_that_the_file_goes_on(tmp_path: Path) -> None:
    segment = kafkarec.open(LOGS[0])
    assert isinstance(segment, kafkarec.Segment)
    (begin, end), *_ = segment.splits(500)
    with pytest.raises(kafkarec.CorruptRecordError, match="a later segment follows"):
        segment.between(begin, end - 5).read()
    with pytest.raises(ValueError, match="bytes 5 to 1 of a file"):
        segment.between(5, 1)
    with pytest.raises(ValueError, match="max_bytes 0"):
        segment.splits(0)
