"""Logs as they were written, generated ones and a real broker's, and random damage to their bytes. tools/damages.py
compares what is read of the damaged bytes with what was written."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import builders

import kafkarec
from kafkarec.sidecars import leader_epochs, offset_index

HEADER = 21
"""Bytes of a batch in front of what its checksum covers."""
PAGE = 4096
CODECS = ["none", "none", "none", "zstd", "lz4", "gzip", "snappy"]
Rows = list[tuple[int, bytes | None]]
"""(offset delta, value) of each record."""


class Prototype(NamedTuple):
    """A batch with base offset 0 and leader epoch 0. count: of its offsets; before: offsets before the header's."""

    raw: bytes
    count: int
    rows: Rows
    before: int = 0


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


class Stored(NamedTuple):
    """The bytes of a segment after the damage. origin: where in the log each of them comes from; below 0: foreign bytes
    (-1), or moved ones (-2 - where)."""

    data: bytes
    origin: array[int]


# ---- logs


def prototype(chance: random.Random, number: int) -> Prototype:
    """A batch that no other one equals: its values begin with the number."""
    kind = chance.random()
    mark = b"%d " % number
    value = chance.randbytes(chance.choice([1, 10, 40, 40, 200, 200, 700]))
    if chance.random() < 0.02:
        value = chance.randbytes(chance.choice([2000, 6000]))
    if chance.random() < 0.2:
        value = bytes(len(value))
    now = builders.NOW + number
    if kind < 0.08:
        magic = chance.choice([0, 1])
        value = chance.choice([mark + value, mark + value, mark, None]) or None
        raw = builders.message(magic=magic, key=mark, value=value, timestamp=now, attributes=8 * (number % 2 * magic))
        return Prototype(raw, 1, [(0, value)])
    if kind < 0.11:
        # Of values that can be compressed: else their messages are stored, which are batches in a value.
        values = [mark + bytes([n]) * 60 for n in range(chance.choice([1, 2, 5]))]
        inner = [builders.message(magic=1, offset=n, value=one, timestamp=now) for n, one in enumerate(values)]
        codec = chance.choice(["gzip", "lz4", "snappy"])
        raw = builders.wrapper(inner, magic=1, codec=codec, offset=0, timestamp=now)
        last = len(values) - 1
        return Prototype(raw, len(values), [(n - last, one) for n, one in enumerate(values)], last)
    producer = chance.choice([-1, -1, 7, 8, 9])
    fields = {"base_timestamp": now}
    if producer >= 0:
        fields |= {"producer_id": producer, "producer_epoch": chance.choice([0, 0, 3])}
    if kind < 0.16 and producer >= 0:
        raw = builders.end_marker(commit=bool(number % 2), **fields)
        return Prototype(raw, 1, [(0, struct.pack(">hi", 0, 5))])
    count = chance.choice([1, 1, 1, 2, 3, 8])
    deltas = list(range(count))
    if chance.random() < 0.1:  # as the cleaner leaves them, the last one too; or without any
        deltas = sorted(chance.sample(deltas, chance.randrange(count + 1)))
    fields["attributes"] = chance.choice([0, 0, 0, 8]) | (builders.TRANSACTIONAL if producer in (7, 9) else 0)
    fields["base_sequence"] = number if producer >= 0 else -1
    rows = [(n, mark + bytes([n]) + value) for n in deltas]
    records = [builders.record(offset_delta=n, value=one) for n, one in rows]
    raw = builders.batch(records, last_offset_delta=count - 1, codec=chance.choice(CODECS), **fields)
    return Prototype(raw, count, rows)


@lru_cache(1)
def prototypes() -> Sequence[Prototype]:
    chance = random.Random("prototypes")
    return [prototype(chance, number) for number in range(6000)]


def written_log(chance: random.Random, *, segments: int = 1) -> WrittenLog:
    """A log with or without gaps between its offsets, of one leader epoch or of several."""
    offset = chance.choice([0, 0, 5, 1000, 2**31 + 7, 2**40 + 12345])
    epoch, compacted, rising = chance.choice([0, 3, 70]), chance.random() < 0.4, chance.choice([0.0, 0.02, 0.2])
    one_size = chance.random() < 0.1
    kinds = prototypes()
    count, position, batches = chance.choice([3, 10, 30, 80]), 0, []
    first = chance.randrange(len(kinds))
    epochs = [(epoch, offset)]
    names, ends, rolls = [offset], [], chance.choice([0.1, 0.1, 0.1, 1.0])
    for number, kind in enumerate(_chosen(chance, kinds, first, one_size, chance.randrange(2, count) + 1)):
        if number and len(names) < segments and chance.random() < rolls:
            names.append(offset)
            ends.append(number)
        if compacted:
            offset += chance.choice([0, 0, 1, 5, 100])
        if number and chance.random() < rising:
            epoch += chance.choice([1, 1, 3])
            epochs.append((epoch, offset))
        head = (offset + kind.before).to_bytes(8, "big") + kind.raw[8:12]
        raw = head + (epoch.to_bytes(4, "big") if kind.raw[16] == 2 else kind.raw[12:16]) + kind.raw[16:]
        rows = [(offset + kind.before + delta, value) for delta, value in kind.rows]
        batches.append(
            Written(position, offset + kind.before, offset + kind.count, epoch if raw[16] == 2 else -1, raw, rows)
        )
        position += len(raw)
        offset += kind.count
    found = []
    for name, start, stop in zip(names, [0, *ends], [*ends, len(batches)], strict=True):
        some = batches[start:stop]
        found.append(WrittenSegment(name, some[0].start, some, _index(chance, some)))
    return WrittenLog(found, epochs if chance.random() < 0.5 else None)


def _chosen(
    chance: random.Random, kinds: Sequence[Prototype], first: int, one_size: bool, count: int
) -> Iterator[Prototype]:
    """Different prototypes; with `one_size` as many as possible of one size."""
    size = len(kinds[first].raw)
    for number in range(first, first + len(kinds)):
        kind = kinds[number % len(kinds)]
        if one_size and len(kind.raw) != size:
            continue
        yield kind
        count -= 1
        if not count:
            return


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
        batches = [
            Written(
                position + batch.position,
                batch.base_offset,
                batch.next_offset,
                batch.partition_leader_epoch,
                bytes(batch.raw),
                [(record.offset, record.value) for record in batch],
            )
            for batch in kafkarec.batches(path.read_bytes())
        ]
        name, index = int(path.stem), path.with_suffix(".index").read_bytes()
        found.append(WrittenSegment(name, position, batches, list(offset_index.read(index, name))))
        position += path.stat().st_size
    epochs = folder / leader_epochs.NAME
    return WrittenLog(found, list(leader_epochs.read(epochs.read_bytes())) if epochs.exists() else None)


# ---- damage


def stored(segment: WrittenSegment) -> Stored:
    data = b"".join(one.raw for one in segment.batches)
    return Stored(data, array("q", range(segment.start, segment.start + len(data))))


def _put(one: Stored, start: int, stop: int, data: bytes, origin: array[int] | None = None) -> Stored:
    """Replace bytes [start, stop). origin None: as many foreign bytes in the place of as many, else foreign ones."""
    if origin is None:
        origin = one.origin[start:stop] if len(data) == stop - start else array("q", [-1]) * len(data)
    return Stored(one.data[:start] + data + one.data[stop:], one.origin[:start] + origin + one.origin[stop:])


def _spoiled(chance: random.Random, one: Stored, start: int, stop: int) -> Stored:
    start, stop = max(start, 0), min(stop, len(one.data))
    if start >= stop:
        return one
    kind = chance.choice(["zeros", "garbage", "bit", "byte", "ones"])
    if kind == "bit":
        at = chance.randrange(start, stop)
        return _put(one, at, at + 1, bytes([one.data[at] ^ 1 << chance.randrange(8)]))
    if kind == "byte":
        at = chance.randrange(start, stop)
        return _put(one, at, at + 1, chance.randbytes(1))
    n = stop - start
    return _put(one, start, stop, {"zeros": bytes(n), "ones": b"\xff" * n}.get(kind) or chance.randbytes(n))


def _moved(origin: array[int]) -> array[int]:
    return array("q", [-2 - at if at >= 0 else at for at in origin])


def aimed(chance: random.Random, one: Stored, segment: WrittenSegment) -> Stored:
    """Damage to bytes 0 to 20 of a batch, or a hole that begins or ends there."""
    batch = chance.choice(segment.batches)
    try:
        at = one.origin.index(batch.start)
    except ValueError:
        return one
    where = at + chance.choice([0, 0, 0, 4, 7, 8, 8, 9, 10, 11, 12, 13, 15, 16, 16, 17, 20])
    kind = chance.random()
    if kind < 0.6:
        return _spoiled(chance, one, where, where + chance.choice([1, 1, 2, 4, 8, 8, 12, 17, 20]))
    end = at + chance.randrange(HEADER)
    if kind < 0.8:
        return _spoiled(chance, one, end - chance.choice([30, 100, 400, PAGE]), end)
    if kind < 0.9:
        return _spoiled(chance, one, end, end + chance.choice([30, 100, 400, PAGE]))
    if kind < 0.95:
        return _put(one, where, where + chance.choice([1, 2, 4, 8]), b"")
    return _put(one, where, where, chance.randbytes(chance.choice([1, 2, 4, 8])))


def elsewhere(chance: random.Random, one: Stored, segment: WrittenSegment) -> Stored:
    size = len(one.data)
    at = chance.randrange(size + 1)
    n = chance.choice([1, 4, 30, 100, 500, 1500, PAGE])
    kind = chance.randrange(11)
    if kind < 2:
        return _spoiled(chance, one, at, at + 1)
    if kind < 5:
        return _spoiled(chance, one, at, at + n)
    if kind == 5:
        return _put(one, at, min(at + n, size), b"")
    if kind == 6:
        return _put(one, at, at, chance.choice([bytes(n), chance.randbytes(n)]))
    if kind == 7:
        return _put(one, size - min(n, size), size, b"")
    if kind == 8:
        page = at // PAGE * PAGE
        return _put(one, page, min(page + PAGE, size), bytes(min(PAGE, size - page)))
    cut = _border(chance, one, segment, at)
    to = _border(chance, one, segment, chance.randrange(size + 1))
    stop = min(_border(chance, one, segment, cut + n), size)
    if kind == 9:  # a stretch once more: inserted, or in the place of another
        end = to if chance.random() < 0.5 else min(to + max(stop - cut, 0), size)
        return _put(one, to, end, one.data[cut:stop], _moved(one.origin[cut:stop]))
    low, high = sorted((cut, to))
    n = min(n, high - low, size - high)  # two blocks exchanged: those between them are at a wrong place, too
    blocks = slice(high, high + n), slice(low + n, high), slice(low, low + n)
    origin = sum((one.origin[block] for block in blocks), array("q"))
    return _put(one, low, high + n, b"".join(one.data[block] for block in blocks), _moved(origin))


def _border(chance: random.Random, one: Stored, segment: WrittenSegment, at: int) -> int:
    """In half of the cases the position, else the start of a batch."""
    if chance.random() < 0.5:
        return at
    try:
        return one.origin.index(chance.choice(segment.batches).start)
    except ValueError:
        return at


def damaged(chance: random.Random, log: WrittenLog, count: int) -> list[Stored]:
    """The segments after `count` damages, a third of them aimed at headers."""
    found = [stored(segment) for segment in log.segments]
    for _ in range(count):
        number = chance.randrange(len(found))
        change = aimed if chance.random() < 1 / 3 else elsewhere
        found[number] = change(chance, found[number], log.segments[number])
    return found


def write_folder(folder: Path, log: WrittenLog, parts: Sequence[Stored]):
    """A partition folder with the damaged segments, and the side files from before the damage."""
    folder.mkdir(parents=True)
    for segment, one in zip(log.segments, parts, strict=True):
        path = folder / f"{segment.name:020d}.log"
        path.write_bytes(one.data)
        if segment.index:
            path.with_suffix(".index").write_bytes(offset_index.write(segment.index, segment.name))
    if log.epochs is not None:
        (folder / leader_epochs.NAME).write_bytes(leader_epochs.write(log.epochs))
