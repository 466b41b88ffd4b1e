"""Logs as they were written, generated ones and a real broker's, and the same damaged. tools/damages.py compares what
is read of the damaged bytes with what was written."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import broker_logs
import plain_logs
from damage import Stored, aimed, elsewhere

import kafkarec
from kafkarec.sidecars import leader_epochs, offset_index

Rows = list[tuple[int, bytes | None]]
"""(offset delta, value) of each record."""


class Written(NamedTuple):
    """A batch as it was written. start: position in the whole log; next: offset behind it; rows: offset and value."""

    start: int
    base: int
    next: int
    epoch: int
    raw: bytes
    rows: Rows

    @property
    def covered(self) -> bytes:
        """The checksum and what it covers: no two batches have it in common."""
        return self.raw[17 if self.raw[16] == 2 else 12 :]


class WrittenSegment(NamedTuple):
    """name: its base offset; start: where it begins in the whole log."""

    name: int
    start: int
    batches: list[Written]
    index: list[tuple[int, int]]

    @property
    def file(self) -> str:
        return f"{self.name:020d}.log"


class WrittenLog(NamedTuple):
    segments: list[WrittenSegment]
    epochs: list[tuple[int, int]] | None


# ---- logs


def written_log(chance: random.Random, *, segments: int = 1) -> WrittenLog:
    """A log with or without gaps between its offsets, of one leader epoch or of several."""
    log = broker_logs.Log(
        chance.getrandbits(32),
        magics=chance.choice([(2,), (0, 1, *[2] * 8)]),
        epochs=(0, 3, 70),
        gaps=chance.random() < 0.5,
        most=chance.choice([8, 16, 50]),
        distinct=True,
    )
    found, position = [], 0
    for name, data in log.segments(segments):
        batches = _batches(data, position)
        found.append(WrittenSegment(name, position, batches, _index(chance, batches)))
        position += len(data)
    epochs = {}
    for batch in (each for segment in found for each in segment.batches if each.epoch >= 0):
        epochs.setdefault(batch.epoch, batch.base)
    return WrittenLog(found, list(epochs.items()) if chance.random() < 0.5 else None)


def _batches(data: bytes, position: int) -> list[Written]:
    """The batches of a whole segment, which begins at this position of the log."""
    return [
        Written(
            position + batch.position,
            int.from_bytes(batch.raw[:8], "big", signed=True),
            batch.next_offset,
            -1 if batch.partition_leader_epoch is None else batch.partition_leader_epoch,
            bytes(batch.raw),
            [(record.offset, record.value) for record in batch],
        )
        for batch in kafkarec.batches(data)
    ]


def _index(chance: random.Random, batches: Sequence[Written]) -> list[tuple[int, int]]:
    """Entries as brokers make them: of each batch, or of each append of several (older brokers, followers)."""
    interval, most = chance.choice([1, 400, 4096]), chance.choice([1, 1, 4])
    entries, at, since = [], 0, 0
    while at < len(batches):
        stop = at + chance.randrange(1, most + 1)
        some = batches[at:stop]
        if since > interval:
            entries.append((some[-1].next - 1, some[0].start - batches[0].start))
            since = 0
        since += sum(len(one.raw) for one in some)
        at = stop
    return entries


def golden_log(folder: Path) -> WrittenLog:
    """The log in a folder that a real broker wrote."""
    found, position = [], 0
    for path in sorted(folder.glob("*.log")):
        name, index = int(path.stem), path.with_suffix(".index").read_bytes()
        batches = _batches(path.read_bytes(), position)
        found.append(WrittenSegment(name, position, batches, list(offset_index.read(index, name))))
        position += path.stat().st_size
    epochs = folder / leader_epochs.NAME
    return WrittenLog(found, list(leader_epochs.read(epochs.read_bytes())) if epochs.exists() else None)


# ---- damage


def stored(segment: WrittenSegment) -> Stored:
    data = b"".join(one.raw for one in segment.batches)
    return Stored(data, array("q", range(segment.start, segment.start + len(data))))


def damaged(chance: random.Random, log: WrittenLog, count: int) -> list[Stored]:
    """The segments after `count` damages, a third of them aimed at headers."""
    found = [stored(segment) for segment in log.segments]
    for _ in range(count):
        number = chance.randrange(len(found))
        change = aimed if chance.random() < 1 / 3 else elsewhere
        found[number] = change(chance, found[number], [batch.start for batch in log.segments[number].batches])
    return found


def write_folder(folder: Path, log: WrittenLog, parts: Sequence[Stored]):
    """A partition folder with the damaged segments, and the side files from before the damage."""
    damaged = ((segment.name, one.data) for segment, one in zip(log.segments, parts, strict=True))
    plain_logs.log(folder, *damaged, epochs=log.epochs)
    for segment in log.segments:
        if segment.index:
            (folder / segment.file).with_suffix(".index").write_bytes(offset_index.write(segment.index, segment.name))
