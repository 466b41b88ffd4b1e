"""read_committed from the middle of a partition: what is hidden is what a walk over all of it says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from living_log import offsets
from source_rows import read
from stream_broker import Broker
from stream_engine import Query

from kafkarec.read import marker_matching
from spark_udfs.source import isolation, options, paths

pytestmark = pytest.mark.spark


def filled(broker: Broker, seed: int, still_open: bool) -> None:
    chance = random.Random(seed)
    opened: set[int] = set()
    if still_open:
        broker.write_in_transaction(99, 3)
    while len(broker.log()) < 6:
        producer = chance.randrange(1, 4)
        if chance.random() < 0.5:
            broker.write_in_transaction(producer, chance.randint(1, 6))
            opened.add(producer)
        elif producer in opened:
            opened.remove(producer)
            broker.end_transaction(producer, commit=chance.random() < 0.5)
        else:
            broker.write(chance.randint(1, 5))
    for producer in opened:
        broker.end_transaction(producer, commit=False)


def walk(broker: Broker, start: int | None) -> isolation.TransactionState:
    chosen = options.parse({"path": str(broker.root)}, "read")
    (partition,) = paths.partitions(chosen).values()
    return isolation.walk(partition, chosen, start)


@pytest.mark.parametrize("still_open", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_start(broker: Broker, seed: int, still_open: bool) -> None:
    broker.write(40)
    filled(broker, seed, still_open)
    whole, visible = walk(broker, None), broker.visible()
    chance = random.Random(seed)
    end = broker.writer().next_offset
    for start in sorted({0, end, *chance.sample(range(end), 15)}):
        assert walk(broker, start).stable_offset == whole.stable_offset
        given = json.dumps({"orders": {"0": start}})
        got = offsets(read(broker.root, isolationLevel="read_committed", startingOffsets=given))
        assert got == [offset for offset, _ in visible if offset >= start]


def test_only_what_is_read_is_walked(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(broker, 1, False)
    walked: list[str] = []
    real = marker_matching.Match.read

    def recorded(self: marker_matching.Match, one: Any, check_all: bool) -> None:
        walked.append(Path(one.name).name)
        real(self, one, check_all)

    monkeypatch.setattr(marker_matching.Match, "read", recorded)
    names = [path.name for path in broker.log()]
    start = int(names[-2][:20]) + 1
    for given in (start, broker.writer().next_offset):
        walked.clear()
        walk(broker, given)
        assert walked == [name for name in names if name >= names[-2 if given == start else -1]]
    walked.clear()
    query = Query(broker.root, isolationLevel="read_committed", startingOffsets="latest")
    query.run()
    assert set(walked) == {names[-1]}
    for snapshot in broker.root.glob("*/*.snapshot"):
        snapshot.write_bytes(b"")
    walked.clear()
    walk(broker, start)
    assert walked == names, "without snapshots that can be read"


def test_a_transaction_that_hangs_before_the_start(broker: Broker, tmp_path: Path) -> None:
    broker.write(7)
    broker.write_in_transaction(5, 2)
    while len(broker.log()) < 5:
        broker.write(10)
    rows: list[Any] = read(broker.root, isolationLevel="read_committed", startingOffsets='{"orders": {"0": 100}}')
    assert rows == [] and walk(broker, 100).stable_offset == 7
    broker.end_transaction(5, commit=False)
    rows = read(broker.root, isolationLevel="read_committed", startingOffsets='{"orders": {"0": 100}}')
    assert offsets(rows) == [offset for offset, _ in broker.visible() if offset >= 100]
