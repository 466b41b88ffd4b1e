"""Random logs, and functions that damage one batch of a log."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import builders

CODECS = ["none", "none", "gzip", "snappy", "lz4", "zstd"]


@dataclass
class Log:
    """Consecutive batches: their bytes and their offsets. `touched` has the indexes of the damaged ones."""

    pieces: list[bytes]
    offsets: list[list[int]]
    touched: set[int] = field(default_factory=set)

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def starts(self) -> list[int]:
        """Where each batch begins, and where the last one ends."""
        return list(itertools.accumulate(map(len, self.pieces), initial=0))

    def expected(self) -> list[int]:
        return [o for i, offsets in enumerate(self.offsets) if i not in self.touched for o in offsets]


def make_log(chance: random.Random, count: int = 30, *, nested: bytes = b"") -> Log:
    log = Log([], [])
    base = 0
    for _ in range(count):
        size = chance.choice([1, 2, 7, 40])
        codec = chance.choice(CODECS)
        if chance.random() < 0.2:
            log.pieces.append(builders.message(magic=chance.choice([0, 1]), offset=base, value=nested + b"plain"))
            size = 1
        else:
            value = nested or b"value %d"
            log.pieces.append(builders.batch(builders.records(size, value=value), codec=codec, base_offset=base))
        log.offsets.append(list(range(base, base + size)))
        base += size
    return log


def flip(chance: random.Random, log: Log, i: int) -> None:
    """Flip a bit that the checksum covers."""
    raw = bytearray(log.pieces[i])
    at = chance.randrange(21, len(raw))
    raw[at] ^= 1 << chance.randrange(8)
    log.pieces[i] = bytes(raw)


def overwrite(chance: random.Random, log: Log, i: int) -> None:
    raw = log.pieces[i]
    start = chance.randrange(len(raw))
    junk = chance.randbytes(chance.randrange(1, len(raw) - start + 1))
    log.pieces[i] = builders.patched(raw, start, junk)
    if log.pieces[i][8:12] + log.pieces[i][16:] == raw[8:12] + raw[16:]:
        flip(chance, log, i)  # the checksum does not cover base offset and leader epoch: not detectable


def cut(chance: random.Random, log: Log, i: int) -> None:
    """Remove bytes. Never of the base offset alone, which would not be detectable."""
    raw = log.pieces[i]
    start = chance.randrange(8, len(raw))
    stop = chance.randrange(start + 1, len(raw) + 1)
    log.pieces[i] = raw[:start] + raw[stop:]
    if log.pieces[i] + bytes(stop - start) == raw:
        flip(chance, log, i)  # the zeros of the next base offset would replace the removed bytes


def zero(chance: random.Random, log: Log, i: int) -> None:
    """Zero the rest of the batch, as for a page that was never written to disk."""
    raw = log.pieces[i]
    start = chance.randrange(len(raw) // 2)
    log.pieces[i] = builders.patched(raw, start, bytes(len(raw) - start))


def splice(chance: random.Random, log: Log, i: int) -> None:
    """Insert foreign bytes after the batch, which itself is whole."""
    log.touched.discard(i)
    log.pieces[i] += chance.choice([chance.randbytes(chance.randrange(1, 90)), bytes(50), b"PNG" * 9])


def forge_length(chance: random.Random, log: Log, i: int) -> None:
    """Set a size that points into the middle of another batch, or beyond the end."""
    raw = log.pieces[i]
    borders, total = set(), 0
    for piece in log.pieces[i:]:
        total += len(piece)
        borders.add(total - 12)
    size = chance.choice([0, 13, -1, 2**31 - 1, 2**31 - 12, 10**6, chance.randrange(14, total + 50)])
    if size in borders:
        size = 10**7
    log.pieces[i] = builders.patched(raw, 8, size.to_bytes(4, "big", signed=True))


KINDS = [flip, overwrite, cut, zero, splice, forge_length]


def mark_claimed(log: Log) -> None:
    """Add the batches that a forged length covers to `touched`, where it ends at a batch border or near the end."""
    starts = log.starts
    for i in sorted(log.touched):
        if len(log.pieces[i]) < 12:
            continue
        size = int.from_bytes(log.pieces[i][8:12], "big", signed=True)
        claimed = starts[i] + 12 + size
        if claimed in starts[i + 2 :] or starts[-1] - 12 < claimed <= starts[-1]:
            log.touched |= {j for j in range(i, len(log.pieces)) if starts[j] < claimed}


def cut_header(chance: random.Random, log: Log, i: int) -> None:
    """As `cut`, but within the batch's own header: the batches in its values keep their base offsets."""
    start = chance.randrange(8, 17)
    log.pieces[i] = log.pieces[i][:start] + log.pieces[i][chance.randrange(start + 1, 18) :]
