"""salvage of several damaged replicas: each batch that is whole in one of them is in the output."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from test_salvage import FOLDERS, Bytes, aside, copied, cut, flip, garbage, hole, rows, zeros

import kafkarec
from kafkarec.rescue import salvage


def whole_batches(path: Path, damaged: Bytes) -> dict[tuple[str, int], bytes]:
    """(file, original position) -> bytes of the batches that were not touched, and that can be told from the rest."""
    original = path.read_bytes()
    table = kafkarec.decode(bytes(damaged.data), errors="skip", control=True).batches
    found = {(row["position"], row["size_in_bytes"]) for row in table}
    alive = {}
    for row in rows(path):
        position, size = int(row["position"]), int(row["size_in_bytes"])  # type: ignore[call-overload]
        if (damaged.where(position, size), size) in found:
            alive[path.name, position] = original[position : position + size]
    return alive


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_damaged_replicas(folder: Path, tmp_path: Path) -> None:
    random_ = random.Random(folder.name)
    for turn in range(6):
        sources, alive = [], dict[tuple[str, int], bytes]()
        for number in range(random_.randint(2, 3)):
            source = tmp_path / f"{turn}-{number}" / folder.name
            source.mkdir(parents=True)
            sources.append(source)
            for path in folder.glob("*.log"):
                damaged = Bytes(path.read_bytes())
                for _ in range(random_.randint(0, 2)):
                    random_.choice((flip, zeros, garbage, hole, cut))(damaged, random_)
                (source / path.name).write_bytes(damaged.data)
                alive |= whole_batches(path, damaged)
        out = tmp_path / f"out{turn}"
        report = salvage(sources, out, as_partition=random_.random() < 0.5)
        kept = copied(out)
        table = list(kafkarec.scan(kept))
        batches = {kept[row["position"] :][: row["size_in_bytes"]] for row in table}
        for place, raw in alive.items():
            assert raw in batches, (place, report.partitions[0].set_aside)
        assert all(one["last_offset"] < other["base_offset"] for one, other in pairwise(table))
        beside = aside(out)
        assert sum(one.size for one in report.partitions[0].set_aside) == len(beside)
