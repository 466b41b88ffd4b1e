"""Log.follow, and its polls while a simulated broker appends, rolls, deletes and truncates at random."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from typing import Any

import builders
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkarec
from kafkarec.storage import follow
from kafkarec.storage.follow import Follower

PREALLOCATED = 4096


class SimulatedLog:
    """A simulated broker's log: segments of batches, each with a unique value."""

    def __init__(self, folder: Path, preallocate: bool) -> None:
        self.folder, self.preallocate = folder, preallocate
        self.segments: dict[int, list[tuple[int, bytes]]] = {0: []}
        self.next_offset = self.made = 0
        self.cut = 0  # bytes of the last batch that are not yet written
        self.write()

    def write(self) -> None:
        for base, batches in self.segments.items():
            data = b"".join(raw for _, raw in batches)
            last = base == max(self.segments)
            if last and self.cut:
                data = data[: -self.cut]
            if last and self.preallocate:
                data = data.ljust(PREALLOCATED, b"\0")
            path = self.folder / f"{base:020}.log"
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.write(data)
                file.truncate()
        for path in self.folder.glob("*.log"):
            if int(path.stem) not in self.segments:
                path.unlink()

    def batch(self, count: int, **fields: Any) -> None:
        self.cut = 0
        self.made += 1
        records = [builders.record(offset_delta=i, value=b"%d.%d" % (self.made, i)) for i in range(count)]
        self.add(builders.batch(records, base_offset=self.next_offset, **fields), count)

    def add(self, raw: bytes, count: int) -> None:
        self.segments[max(self.segments)].append((self.next_offset, raw))
        self.next_offset += count

    def play(self, what: str, number: int) -> None:
        batches = self.segments[max(self.segments)]
        if what == "append":
            self.batch(number)
        elif what == "append half of it":
            self.batch(number)
            self.cut = len(self.segments[max(self.segments)][-1][1]) // 2
        elif what == "finish":
            self.cut = 0
        elif what == "roll" and batches and not self.cut:
            self.segments[self.next_offset] = []
        elif what == "delete" and len(self.segments) > 1:
            del self.segments[min(self.segments)]
        elif what == "truncate" and any(self.segments.values()):
            self.cut = 0
            for _ in range(number):
                if len(self.segments) > 1 and not self.segments[max(self.segments)]:
                    del self.segments[max(self.segments)]
                if self.segments[max(self.segments)]:
                    self.next_offset = self.segments[max(self.segments)].pop()[0]
        self.write()


def follower(folder: Path | str, **options: Any) -> Follower:
    """Without restoring: so only damage waits."""
    chosen = {"columns": ["offset", "value"], "errors": "skip", "restore": False} | options
    (one,) = kafkarec.open(folder).followers(**chosen)
    return one


def polled(one: Follower) -> list[tuple[int, bytes]]:
    rows = []
    for _, records in one.poll():
        assert not records.damage
        rows += zip(records.column("offset"), records.column("value"), strict=True)
    return rows


OPERATIONS = ("append", "append half of it", "finish", "append", "roll", "delete", "truncate")


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 3), st.booleans()), min_size=6, max_size=30),
    preallocate=st.booleans(),
)
def test_every_record_is_returned_once(steps: list[tuple[str, int, bool]], preallocate: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        broker = SimulatedLog(Path(name), preallocate)
        one = follower(name)
        returned = []
        for what, number, then_poll in steps:
            broker.play(what, number)
            if then_poll:
                returned += polled(one)
        broker.play("finish", 0)
        returned += polled(one)
        assert polled(one) == []
        values = [value for _, value in returned]
        assert len(set(values)) == len(values)
        if any(broker.segments.values()):
            with kafkarec.open(name) as log:
                kept = log.read(columns=["offset", "value"])
            latest = dict(returned)
            assert [latest.get(offset) for offset in kept.column("offset")] == kept.column("value")


TRANSACTIONS = st.tuples(
    st.sampled_from(["data", "data", "plain", "commit", "abort", "roll"]), st.integers(1, 3), st.booleans()
)


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(TRANSACTIONS, min_size=6, max_size=30), preallocate=st.booleans())
def test_committed_records_are_returned_at_their_commit(steps: list[tuple[str, int, bool]], preallocate: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        broker = SimulatedLog(Path(name), preallocate)
        one = follower(name, isolation="read_committed")
        returned = []
        for what, producer, then_poll in steps:
            if what == "data":
                broker.batch(2, producer_id=producer, attributes=builders.TRANSACTIONAL)
            elif what == "plain":
                broker.batch(1)
            elif what == "roll":
                broker.play("roll", 0)
            else:
                marker = builders.end_marker(
                    commit=what == "commit", producer_id=producer, base_offset=broker.next_offset
                )
                broker.add(marker, 1)
            broker.write()
            if then_poll:
                returned += polled(one)
                with kafkarec.open(name) as log:
                    now = log.read(columns=["offset"], isolation="read_committed").column("offset")
                assert [offset for offset, _ in returned] == now


def test_files_with_an_unchanged_mtime_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SimulatedLog(tmp_path, preallocate=True)
    broker.play("append", 1)
    one = follower(tmp_path)
    path = tmp_path / f"{0:020}.log"
    before = path.stat().st_mtime_ns
    assert len(polled(one)) == 1
    broker.play("append", 1)
    os.utime(path, ns=(before, before))  # the same tick of the file system's clock, the same size
    assert len(polled(one)) == 1
    monkeypatch.setattr(follow, "SETTLED", -1.0)
    assert polled(one) == []
    broker.play("append", 1)
    assert len(polled(one)) == 1


def test_a_compressed_segment_is_read_once(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log.gz").write_bytes(gzip.compress(builders.good_batch(2)))
    notes: list[str] = []
    one = follower(tmp_path, on_note=notes.append)
    assert [len(polled(one)) for _ in range(3)] == [2, 0, 0]
    assert notes == []
