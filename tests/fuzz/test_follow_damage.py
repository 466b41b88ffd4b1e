"""A damaged log is followed while it grows: records, damage and restored batches are those of one reading.

What tells about damage may be behind it, so a follower waits before it judges: these tests set for how long.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from itertools import islice, takewhile
from typing import Any, NamedTuple

import builders
import hurt_logs
import pytest
from long_run import LONG
from plain_logs import batch

import kafkarec
from kafkarec.sidecars import leader_epochs, offset_index

SEEDS = range(3000 if LONG else 100)
AT_ONCE, NEVER = 1e11, 0.0  # by the clock, long after or before a file was changed
GOOD = 64 + 6  # more batches than are compared with the next one
READ = {"errors": "skip", "control": True, "columns": ["file", "offset", "value", "batch_position"]}
BATCH = ("position", "size_in_bytes", "base_offset", "next_offset", "last_offset", "partition_leader_epoch", "magic")


class Read(NamedTuple):
    """What was read: columns of each record and batch, and the damage and the restored batches."""

    records: list[tuple[Any, ...]]
    batches: list[tuple[Any, ...]]
    damage: list[Any]
    restored: list[Any]

    @classmethod
    def of(cls, pieces):
        found = cls([], [], [], [])
        for _, piece in pieces:
            found.records.extend(rows(piece, READ["columns"]))
            found.batches.extend(rows(piece.batches, BATCH))
            found.damage.extend(piece.damage)
            found.restored.extend(piece.restored)
        return found

    def add(self, other):
        for mine, more in zip(self, other, strict=True):
            mine.extend(more)

    def settled(self, last):
        """Without the damage that no good batch follows yet."""
        return self._replace(damage=[one for one in self.damage if one.file != str(last) or one.lost_to is not None])


def rows(table, columns):
    return zip(*map(table.column, columns), strict=True)


def of_folder(folder):
    with kafkarec.open(folder) as log:
        return Read.of((log, piece) for piece in log.stream(**READ))


class Growing:
    """A folder to which a damaged log is written, byte by byte or in larger steps, with its side files."""

    def __init__(self, chance, folder, log, parts):
        self.chance, self.folder, self.log, self.parts = chance, folder, log, parts
        folder.mkdir()
        self.has_side_files = chance.random() < 0.5
        if log.epochs is not None and self.has_side_files:
            (folder / leader_epochs.NAME).write_bytes(leader_epochs.write(log.epochs))
        self.last = self.begin(0)

    def begin(self, number):
        segment = self.log.segments[number]
        self.last = self.folder / f"{segment.name:020d}.log"
        if segment.index and self.has_side_files:
            self.last.with_suffix(".index").write_bytes(offset_index.write(segment.index, segment.name))
        self.last.write_bytes(b"")
        return self.last

    def steps(self, start=0):
        """Write the rest of the log, from byte `start` of its first segment on."""
        for number, data in enumerate(self.parts):
            if number:
                self.begin(number)
                start = 0
            most = max(1, len(data) // self.chance.choice([3, 10, 30]))
            while start < len(data):
                stop = start + self.chance.choice([1, self.chance.randrange(1, 20), self.chance.randrange(1, most + 1)])
                with self.last.open("ab") as file:
                    file.write(data[start:stop])
                start = stop
                yield

    def follower(self, **options):
        size = self.chance.choice([1, 500, 1 << 20])
        (one,) = kafkarec.open(self.folder).followers(**READ, batch_bytes=size, **options)
        return one


def good_run(log, start, count=GOOD):
    """Batches that continue a log, and each other, from the `start`th one on."""
    last = log.segments[-1].batches[-1]
    epoch = max(0, *(batch.epoch for segment in log.segments for batch in segment.batches))
    numbers = range(start, start + count)
    return b"".join(batch(last.next + 2 * n, 2, epoch=epoch) for n in numbers)


def spoiled(chance, data):
    """With a few bytes overwritten, most often in the header of a batch."""
    size = len(data) // GOOD
    at = chance.randrange(10, 30) * size + chance.choice([*range(17), chance.randrange(size)])
    foreign = chance.randbytes(chance.choice([1, 1, 4, 8, 30, 300]))
    return builders.patched(data, at, foreign)


def with_good_end(chance, log):
    """A damaged segment, and more good batches behind the damage than are compared with one before them."""
    (part,) = hurt_logs.damaged(chance, log, chance.choice([1, 1, 2, 3]))
    return part.data + good_run(log, 0)


def some_of(chance, one):
    """Polls that are left after a few pieces, and one that is not."""
    for _ in range(chance.choice([0, 3, 30])):
        with closing(one.poll()) as pieces:
            yield from islice(pieces, chance.randrange(1, 4))
    yield from one.poll()


@pytest.fixture
def judged(monkeypatch):
    yield lambda now: monkeypatch.setattr(time, "time", lambda: now)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_followed_is_what_one_reading_finds(seed, tmp_path, judged):
    chance = random.Random(seed)
    log = hurt_logs.written_log(chance, segments=chance.choice([1, 1, 3]))
    damaged = hurt_logs.damaged(chance, log, chance.choice([1, 1, 2, 3]))
    growing = Growing(chance, tmp_path / "t-0", log, [part.data for part in damaged])
    one, found = growing.follower(), Read.of(())
    judged(NEVER)
    for _ in growing.steps():
        if chance.random() < 0.7:
            found.add(Read.of(one.poll()))
    judged(AT_ONCE)
    found.add(Read.of(one.poll()))
    assert found == of_folder(growing.folder).settled(growing.last)
    assert list(one.poll()) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_polls_may_end_behind_each_batch(seed, tmp_path, judged):
    """What tells about the damage is there. Each poll reads a few pieces, and the next one goes on."""
    chance = random.Random(seed)
    log = hurt_logs.written_log(chance)
    old = with_good_end(chance, log)
    growing = Growing(chance, tmp_path / "t-0", log, [old + good_run(log, GOOD, 5)])
    growing.last.write_bytes(growing.parts[0])
    every = of_folder(growing.folder)
    growing.last.write_bytes(old)
    if every.damage != of_folder(growing.folder).damage:
        return  # the length of a damaged batch leads to behind what is there
    judged(AT_ONCE)
    one, found = growing.follower(), Read.of(())
    found.add(Read.of(some_of(chance, one)))
    for _ in growing.steps(len(old)):
        found.add(Read.of(some_of(chance, one)))
    assert found == every


@pytest.mark.parametrize("seed", SEEDS)
def test_a_range_begins_as_if_all_before_it_was_read(seed, tmp_path, judged):
    chance = random.Random(seed)
    log = hurt_logs.written_log(chance)
    growing = Growing(chance, tmp_path / "t-0", log, [with_good_end(chance, log)])
    list(growing.steps())
    every = of_folder(growing.folder)
    start = chance.choice(every.batches)[4] - chance.choice([0, 0, 1, 5])
    judged(AT_ONCE)
    found = Read.of(some_of(chance, growing.follower(start_offset=start)))
    before = list(takewhile(lambda row: row[4] < start, every.batches))
    begin = before[-1][0] + before[-1][1] if before else 0
    first = every.batches[len(before)][0]
    records = [row for row in every.records if row[3] > first or (row[3] == first and row[1] >= start)]
    assert found.batches == [row for row in every.batches if row[0] >= begin]
    assert found.records == records
    assert found.restored == [one for one in every.restored if one.position >= begin]
    assert found.damage == [one for one in every.damage if one.position >= begin]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_truncation_batches_are_judged_by_those_that_are_left(seed, tmp_path, judged):
    chance = random.Random(seed)
    log = hurt_logs.written_log(chance)
    old = with_good_end(chance, log)
    growing = Growing(
        chance, tmp_path / "t-0", log, [old + spoiled(chance, good_run(log, GOOD)) + good_run(log, 2 * GOOD)]
    )
    growing.last.write_bytes(growing.parts[0])
    every = of_folder(growing.folder)
    growing.last.write_bytes(old + good_run(log, GOOD + 1, 5))
    if [one for one in every.damage if one.position < len(old)] != list(of_folder(growing.folder).damage):
        return
    notes = []
    judged(AT_ONCE)
    one = growing.follower(on_note=notes.append)
    found = Read.of(some_of(chance, one))
    growing.last.write_bytes(growing.parts[0])
    again = Read.of(some_of(chance, one))
    end = len(old)
    kept = Read(
        [row for row in found.records if row[3] < end],
        [row for row in found.batches if row[0] < end],
        [row for row in found.damage if row.position < end],
        [row for row in found.restored if row.position < end],
    )
    kept.add(again)
    assert kept == every
    assert [note.rpartition("; ")[2] for note in notes] == [f"continuing from offset {found.batches[-6][3]}"]
