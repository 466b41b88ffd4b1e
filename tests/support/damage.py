"""Random damage to the bytes of a file. `starts` are where batches begin in the whole log."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HEADER = 21
"""Bytes of a batch in front of what its checksum covers."""
PAGE = 4096


class Stored(NamedTuple):
    """The bytes of a segment after the damage. origin: where in the log each of them comes from; below 0: foreign bytes
    (-1), or moved ones (-2 - where)."""

    data: bytes
    origin: array[int]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """The bytes after one damage or three."""
    one = Stored(data, array("q", range(len(data))))
    for _ in range(chance.choice([1, 1, 1, 3])):
        one = elsewhere(chance, one, [0])
    return one.data


def damage_file(chance: random.Random, path: Path):
    path.write_bytes(damaged(chance, path.read_bytes()))


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


def aimed(chance: random.Random, one: Stored, starts: Sequence[int]) -> Stored:
    """Damage to bytes 0 to 20 of a batch, or a hole that begins or ends there."""
    try:
        at = one.origin.index(chance.choice(starts))
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


def elsewhere(chance: random.Random, one: Stored, starts: Sequence[int]) -> Stored:
    """Damage anywhere, often to where batches begin or end."""
    size = len(one.data)
    at = chance.randrange(size + 1)
    n = min(chance.choice([1, 4, 30, 100, 500, 1500, PAGE]), size // 2 + 1)
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
    cut = _border(chance, one, starts, at)
    to = _border(chance, one, starts, chance.randrange(size + 1))
    stop = min(_border(chance, one, starts, cut + n), size)
    if kind == 9:  # a stretch once more: inserted, or in the place of another
        end = to if chance.random() < 0.5 else min(to + max(stop - cut, 0), size)
        return _put(one, to, end, one.data[cut:stop], _moved(one.origin[cut:stop]))
    low, high = sorted((cut, to))
    n = min(n, high - low, size - high)  # two blocks exchanged: those between them are at a wrong place, too
    blocks = slice(high, high + n), slice(low + n, high), slice(low, low + n)
    origin = sum((one.origin[block] for block in blocks), array("q"))
    return _put(one, low, high + n, b"".join(one.data[block] for block in blocks), _moved(origin))


def _border(chance: random.Random, one: Stored, starts: Sequence[int], at: int) -> int:
    """In half of the cases the position, else the start of a batch."""
    if chance.random() < 0.5:
        return at
    try:
        return one.origin.index(chance.choice(starts))
    except ValueError:
        return at
