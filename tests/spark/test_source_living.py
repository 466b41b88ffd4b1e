"""Batches from a log that is written to, cleaned and cut while it is listed, planned and read: nothing is missing."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import living_log
import pytest
from living_log import Going
from source_rows import Read, read
from stream_broker import Broker

from kafkarec.storage import folders
from spark_udfs.source import listing, paths
from spark_udfs.source.listing import DataLoss

pytestmark = pytest.mark.spark


def third(offset: int) -> bool:
    return offset % 3 == 0


def entries_then(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Any]], list[Any]]) -> None:
    """What the next folder's listing becomes."""
    real, waiting = folders.LocalFolder.entries, [change]

    def entries(self: folders.LocalFolder) -> list[Any]:
        found = real(self)
        return waiting.pop()(found) if waiting and any(each.name.endswith(".log") for each in found) else found

    monkeypatch.setattr(folders.LocalFolder, "entries", entries)


# ---- while it is listed ---------------------------------------------------------------------------------------------


def test_a_segment_that_grows_and_is_rolled_while_it_is_listed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.write(10)
    before = len(broker.log())

    def roll(found: list[Any]) -> list[Any]:
        """The folder's later names are read behind what follows."""
        while len(broker.log()) == before:
            broker.write(10)
        old = {each.name: each for each in found}
        entries = (folders.FolderEntry(path.name, path.stat().st_size, False) for path in broker.log())
        return sorted(old.get(entry.name, entry) for entry in entries)

    for look in (lambda: paths.partitions(options_of(broker)), lambda: read(broker.root)):
        entries_then(monkeypatch, roll)
        found = look()
        if isinstance(found, dict):  # the listing alone has the old size of a segment that has a later one
            (partition,) = found.values()
            grown = os.path.getsize(partition.segments[0].path)
            assert partition.segments[0].later_segment and (partition.segments[0].size or 0) < grown
            before = len(broker.log())
    got = living_log.offsets(found)  # type: ignore[arg-type]
    assert got == list(range(len(got))) and len(got) >= int(broker.log()[-2].stem)


def options_of(broker: Broker, **given: str) -> Any:
    from spark_udfs.source import options

    return options.parse({"path": str(broker.root), **given}, "read")


def test_a_listing_that_has_a_later_segment_and_misses_one_before(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    while len(broker.log()) < 4:
        broker.write(10)
    missing = broker.log()[2].name
    entries_then(monkeypatch, lambda found: [each for each in found if each.name != missing])
    seen = [frozenset(each.name for each in broker.log()[:2])]
    real = listing._names_in
    monkeypatch.setattr(listing, "_names_in", lambda *where: seen.pop() if seen else real(*where))
    assert [row["offset"] for row in read(broker.root / "orders-0")] == [row[0] for row in broker.rows["orders", 0]]


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_every_moment_of_a_replacement(broker: Broker, step: int, mode: str) -> None:
    while len(broker.log()) < 5:
        broker.write(10)
    steps = living_log.steps(broker.log()[1:3], third)
    for _ in range(step):
        next(steps, None)
    going_on = threading.Timer(0.05, lambda: list(steps))
    going_on.start()
    got = living_log.offsets(read(broker.root, mode=mode))
    going_on.join()
    first, behind = (int(path.stem) for path in (broker.log()[1], broker.log()[2]))
    wanted = [offset for offset, _ in broker.rows["orders", 0]]
    assert got == sorted(set(got)) and set(got) <= set(wanted)
    missing = set(wanted) - set(got)
    assert all(first <= offset < behind and not third(offset) for offset in missing)


def test_a_replacement_that_was_broken_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listing, "_LONGEST_PAUSE", 0.001)
    while len(broker.log()) < 4:
        broker.write(10)
    name = broker.log()[1].name
    steps = living_log.steps(broker.log()[1:2], third)
    for _ in range(3):
        next(steps)
    with pytest.raises(DataLoss, match=f"orders-0 has {name}.swap and no {name}: the replacement of that segment"):
        read(broker.root)
    got = living_log.offsets(read(broker.root, failOnDataLoss="false"))
    first, behind = int(name[:20]), int(broker.log()[1].stem)
    assert got == [offset for offset, _ in broker.rows["orders", 0] if not first <= offset < behind]
    assert f"{name}.swap" in caplog.text


def test_a_folder_that_may_not_be_listed_is_not_left_out_in_silence(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.write(10)
    broker.write(10, partition=1)
    real = os.scandir
    hidden = str(broker.root / "orders-1")

    def scandir(path: str) -> Any:
        if path == hidden:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match=f"Permission denied: '{hidden}'"):
        read(broker.root)
    assert {row["partition"] for row in read(broker.root, failOnDataLoss="false")} == {0}
    assert f"Permission denied: '{hidden}': left out; failOnDataLoss is false" in caplog.text


# ---- between listing and planning, planning and reading -------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"startingTimestamp": "1"}, {"isolationLevel": "read_committed"}])
def test_retention_between_listing_and_planning(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    while len(broker.log()) < 4:
        broker.write(10)
    real, waiting = listing.Listing.current, [broker.delete_first]

    def look(self: listing.Listing) -> Any:
        found = real(self)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(listing.Listing, "current", look)
    got = living_log.offsets(read(broker.root, maxPartitionBytes="500", **options))
    assert got == [offset for offset, _ in broker.rows["orders", 0]] and got[0] > 0


class Planned:
    """A job that was planned; `rows` reads it, whatever has happened since."""

    def __init__(self, root: Path, **given: str) -> None:
        self.read = Read({"path": str(root), **given})

    def offsets(self) -> list[int]:
        batches = (batch for task in self.read.tasks for batch in self.read.reader.read(task))
        return [row["offset"] for batch in batches for row in batch.to_pylist()]


def test_retention_between_planning_and_reading(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    while len(broker.log()) < 4:
        broker.write(10)
    strict, lenient = (Planned(broker.root, failOnDataLoss=flag) for flag in ("true", "false"))
    later = Planned(broker.root, startingOffsets=f'{{"orders": {{"0": {int(broker.log()[1].stem)}}}}}')
    path = broker.log()[0]
    start = broker.delete_first()
    words = f"data loss in orders-0: .*{path}.*; offsets 0 to {start - 1} were planned, and the log begins at"
    with pytest.raises(DataLoss, match=words):
        strict.offsets()
    kept = [offset for offset, _ in broker.rows["orders", 0]]
    assert lenient.offsets() == kept == later.offsets()
    assert f"and the log begins at offset {start} now; failOnDataLoss is false" in caplog.text


@pytest.mark.parametrize("size", ["1g", "700"])
@pytest.mark.parametrize(("begin", "end"), [(0, 1), (1, 2), (0, 3), (1, 4)])
def test_a_log_that_is_cleaned_between_planning_and_reading(broker: Broker, size: str, begin: int, end: int) -> None:
    while len(broker.log()) < 6:
        broker.write(10)
    planned = Planned(broker.root, maxPartitionBytes=size)
    bounded = Planned(broker.root, maxPartitionBytes=size, endingOffsets='{"orders": {"0": 77}}')
    chosen = broker.log()[begin:end]
    first, behind = int(chosen[0].stem), int(broker.log()[end].stem)
    living_log.clean(chosen, third)
    wanted = [offset for offset, _ in broker.rows["orders", 0] if not first <= offset < behind - 1 or third(offset)]
    assert planned.offsets() == wanted
    assert bounded.offsets() == [offset for offset in wanted if offset < 77]


def test_a_log_that_is_cut_and_written_anew_between_planning_and_reading(broker: Broker) -> None:
    while len(broker.log()) < 4:
        broker.write(10)
    planned, lenient = (Planned(broker.root, failOnDataLoss=flag) for flag in ("true", "false"))
    path = broker.log()[-1]
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataLoss, match=r"data loss in orders-0: .* when the query was planned"):
        planned.offsets()
    got = lenient.offsets()
    assert got == list(range(len(got))) and int(path.stem) <= len(got) < len(broker.rows["orders", 0])


# ---- all at once ----------------------------------------------------------------------------------------------------


def test_every_load_of_a_growing_log_is_a_prefix_of_it(broker: Broker) -> None:
    chance = random.Random(7)
    broker.write(3)

    def write() -> None:
        broker.write(chance.randint(1, 9))
        time.sleep(0.0005)

    ends, lengths = [], []
    with Going(write):
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and len(broker.log()) < 400:
            there = broker.rows["orders", 0][-1][0]
            ends.append(there)
            got = living_log.offsets(read(broker.root, maxPartitionBytes=chance.choice(["600", "1g"])))
            assert got == list(range(len(got))), "a hole"
            assert len(got) > there, "what was there before the load is missing"
            lengths.append(len(got))
    assert len(broker.log()) > 20 and len(lengths) > 5 and lengths == sorted(lengths)


def cleaned_and_cut(broker: Broker, chance: random.Random) -> Iterator[None]:
    """Now and then a cleaner replaces some segments by one, and retention deletes the first."""
    while True:
        broker.write(chance.randint(1, 9))
        there = broker.log()
        if len(there) > 4 and chance.random() < 0.3:
            begin = chance.randrange(len(there) - 3)
            living_log.clean(there[begin : begin + chance.randint(1, 3)], third)
        yield


def test_every_load_of_a_log_that_is_cleaned_has_what_a_cleaner_keeps(broker: Broker) -> None:
    chance = random.Random(11)
    for _ in range(100):
        broker.write(5)
    steps = cleaned_and_cut(broker, chance)

    def step() -> None:
        next(steps)
        time.sleep(0.02)

    loads = 0
    with Going(step):
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            there = broker.rows["orders", 0][-1][0]
            got = living_log.offsets(read(broker.root, maxPartitionBytes=chance.choice(["600", "1g"])))
            assert got == sorted(set(got)), "twice, or out of order"
            kept = [offset for offset in range(max(there, got[-1]) + 1) if third(offset)]
            assert [offset for offset in got if third(offset)] == kept, "a hole"
            loads += 1
    assert loads > 5
