"""Bytes with the origin of each, and functions that damage them at random."""

from __future__ import annotations

import random


class Bytes:
    """Bytes that can be edited: `origin` has the position in the original, or -1, of each byte."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.origin = list(range(len(data)))

    def __len__(self) -> int:
        return len(self.data)

    def put(self, start: int, stop: int, new: bytes) -> None:
        self.data[start:stop] = new
        self.origin[start:stop] = [-1] * len(new)

    def where(self, start: int, size: int) -> int | None:
        """Return the position of the original's bytes [start, start + size), or None if they were changed."""
        if start not in self.origin:
            return None
        at = self.origin.index(start)
        return at if self.origin[at : at + size] == list(range(start, start + size)) else None


def flip(bytes_: Bytes, random_: random.Random) -> None:
    at = random_.randrange(max(1, len(bytes_)))
    bytes_.put(at, at + 1, bytes(byte ^ 1 << random_.randrange(8) for byte in bytes_.data[at : at + 1]))


def zeros(bytes_: Bytes, random_: random.Random) -> None:
    start = random_.randrange(max(1, len(bytes_)))
    stop = min(len(bytes_.data), start + random_.choice((1, 16, 512)))
    bytes_.put(start, stop, bytes(stop - start))


def garbage(bytes_: Bytes, random_: random.Random) -> None:
    start = random_.randrange(max(1, len(bytes_)))
    bytes_.put(start, start, random_.randbytes(random_.randint(1, 300)))


def hole(bytes_: Bytes, random_: random.Random) -> None:
    start = random_.randrange(max(1, len(bytes_)))
    bytes_.put(start, start + random_.randint(1, 300), b"")


def cut(bytes_: Bytes, random_: random.Random) -> None:
    bytes_.put(random_.randrange(max(1, len(bytes_))), len(bytes_.data), b"")


def spoil(bytes_: Bytes, random_: random.Random) -> None:
    """Damage them in one of these ways."""
    random_.choice((flip, zeros, garbage, hole, cut))(bytes_, random_)
