"""Which batches are found around damage: the search of the core against one written plainly (tests/damage_oracle.py).

Random logs of few and small batches, so that every border of a rule is met: offsets next to each other, 2^31 apart,
claims one byte off, batches inside of values, candidates that break off.
"""

from __future__ import annotations

import random
from collections import Counter

import builders
import damage_oracle
import pytest
from long_run import LONG

from kafkarec._core import Source
from kafkarec.passes import as_columns, read_part
from kafkarec.request import request

pytestmark = pytest.mark.core

FAR = 2**31
LOGS = 20_000 if LONG else 1200


class Maker:
    """One random log: pieces that are whole batches, and others that are not."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.next = chance.choice([0, 0, 1, 7, 1000, FAR - 2, FAR + 3, 2**40])
        self.data = b""

    def pick(self, *choices: object) -> object:
        return self.chance.choice(choices)

    def whole(self, offset: int | None = None, value: bytes = b"v") -> bytes:
        """A batch or a message that every writer might have left."""
        chance = self.chance
        if offset is None:
            offset = self.next
        if chance.random() < 0.25:
            made = builders.message(
                magic=self.pick(0, 1), offset=offset, key=self.pick(None, b"", b"key"), value=self.pick(None, value),
                attributes=self.pick(0, 8),
            )  # fmt: skip
            self.next = offset + 1
            return made
        count = self.pick(0, 1, 1, 2, 3)
        rows = [builders.record(offset_delta=n, key=self.pick(None, b"k"), value=value) for n in range(count)]
        delta = max(count - 1, 0) + self.pick(0, 0, 0, 2)
        self.next = offset + delta + 1
        return builders.batch(rows, base_offset=offset, last_offset_delta=delta, attributes=self.pick(0, 0, 8, 0x40))

    def odd(self, offset: int) -> bytes:
        """Legal, and as no writer leaves it."""
        one = builders.good_batch(1, base_offset=offset)
        return self.pick(
            builders.with_crc(builders.patched(one, 21, self.pick(b"\x80\0", b"\0\x80"))),
            builders.good_batch(1, base_offset=offset, last_offset_delta=-1),
            builders.good_batch(1, base_offset=offset, producer_id=self.pick(-2, -1, 0)),
            builders.good_batch(1, base_offset=offset, producer_epoch=self.pick(-2, -1, 0)),
            builders.good_batch(1, base_offset=offset, base_sequence=self.pick(-2, -1, 0)),
            builders.message(magic=self.pick(0, 1), offset=offset, attributes=self.pick(0x10, 0x40, -128)),
            builders.message(magic=self.pick(0, 1), offset=offset, behind=self.pick(b"x", bytes(4))),
        )

    def near(self) -> int:
        """An offset at the border of some rule."""
        step = self.pick(-FAR - 1, -FAR, -3, -2, -1, -1, 0, 0, 1, 2, 5, FAR - 1, FAR, FAR + 1, FAR + 2, 2**41)
        return max(self.next + step, self.pick(0, 0, 0, -1))

    def junk(self) -> bytes:
        n = self.pick(1, 2, 4, 5, 6, 11, 12, 13, 16, 17, 18, 30, 61, 80)
        return self.pick(b"\xff" * n, bytes(n), bytes(self.chance.choice(b"\0\0\0\1\2\x0e\x3d\x80") for _ in range(n)))

    def run(self) -> bytes:
        """Batches one behind the other, the last one maybe spoiled or cut."""
        kept = self.next
        offset = self.near()
        parts = []
        for _ in range(self.pick(1, 1, 1, 2, 3)):
            parts.append(self.odd(offset) if self.chance.random() < 0.1 else self.whole(offset))
            offset = self.pick(self.next, self.next, self.next, self.near())
        if self.chance.random() < 0.3:
            parts[-1] = self.spoiled(parts[-1])
        if self.chance.random() < 0.6:
            self.next = kept
        return b"".join(parts)

    def spoiled(self, raw: bytes) -> bytes:
        """A bit, a claim, the magic, a part that is gone, a part that never came."""
        chance = self.chance
        size = int.from_bytes(raw[8:12], "big")
        at = chance.randrange(len(raw))
        stop = min(at + self.pick(1, 2, 8, 40), len(raw))
        claim = self.pick(-1, 0, 13, 14, 21, 22, 49, size - 12, size - 1, size + 1, size + 12, size + 17, 2 * size + 12,
                          size + 61, 2**31 - 1, 2**31 - 12, 2**31 - 13, 400)  # fmt: skip
        return self.pick(
            raw[:-1] + bytes([raw[-1] ^ 1]),
            builders.patched(raw, at, bytes([raw[at] ^ 1 << chance.randrange(8)])),
            builders.patched(raw, 8, claim.to_bytes(4, "big", signed=True)),
            builders.patched(raw, 16, bytes([self.pick(3, 255, 0, 1, 2)])),
            raw[:at] + raw[stop:],
            raw[:at],
            raw[at:],
            builders.patched(raw, at, bytes(stop - at)),
        )

    def holding(self) -> bytes:
        """A damaged batch whose values are batches themselves, or begin with some bytes in front of them."""
        base, kept = self.next, self.next
        rows = []
        for n in range(self.pick(1, 1, 2, 3)):
            value = self.pick(b"", b"", b"\0\0\0\0\7") + self.run() + self.pick(b"", b"", b"", b"more", self.junk())
            rows.append(builders.record(offset_delta=n, key=self.pick(None, b"", b"key"), value=value,
                                        headers=self.pick((), ((b"h", b"v"),))))  # fmt: skip
        raw = builders.batch(rows, base_offset=base)
        self.next = self.pick(kept, base + len(rows))
        if self.chance.random() < 0.2:
            return raw
        at = self.pick(8, 9, 11, 16, 17, 21, 60)
        return self.pick(builders.patched(raw, at, bytes([raw[at] ^ self.pick(1, 2, 0x80)])), self.spoiled(raw))

    def claiming(self) -> bytes:
        """A claim that leads to some border behind this batch, or next to it."""
        raw = self.whole()
        behind = [self.whole() for _ in range(self.pick(1, 2, 3))]
        if self.chance.random() < 0.5:
            behind[0] = self.spoiled(behind[0])
        border = sum(map(len, behind[: self.chance.randrange(len(behind) + 1)]))
        size = len(raw) + border + self.pick(-12, -1, 0, 0, 0, 1, 5, 11, 12) - 12
        return builders.patched(raw, 8, max(size, 0).to_bytes(4, "big")) + b"".join(behind)

    def measured(self) -> bytes:
        """A run with its length in front of it, as a record has it of a value."""
        run = self.run()
        size = len(run) + self.pick(0, 0, 0, -1, 1)
        front = self.pick(builders.varint(size), b"\x80" + builders.varint(size), size.to_bytes(4, "big"))
        return self.pick(b"", b"\xff" * 4, b"abcd") + front + run

    def piece(self) -> bytes:
        kind = self.chance.random()
        if kind < 0.25:
            return self.whole()
        if kind < 0.35:
            return self.junk()
        if kind < 0.5:
            return self.spoiled(self.whole())
        if kind < 0.65:
            return self.run()
        if kind < 0.8:
            return self.holding()
        return self.measured() if kind < 0.9 else self.claiming()

    def made(self) -> bytes:
        parts = [self.whole()] if self.chance.random() < 0.7 else []
        for _ in range(self.chance.randrange(2, 7)):
            parts.append(self.piece())
        parts.append(self.pick(b"", b"", self.whole(), self.whole()[: self.chance.randrange(70)], self.junk()))
        return b"".join(parts)


def found(data: bytes, start: int, stop: int | None, *, file: bool, followed: bool) -> damage_oracle.Found:
    asked = request(
        columns=["offset"], errors="skip", control=True, _file="a.log" if file else None, _followed=followed
    )
    columns = as_columns(asked, read_part(asked, Source(data), start, stop))
    damage = [(piece.position, piece.length, piece.reason, piece.lost_from) for piece in columns.damage]
    return damage_oracle.Found(columns.batches.column("position"), damage, columns.remaining)


def test_random_logs_are_read_as_the_rules_say() -> None:
    met: Counter[str] = Counter()
    for seed in range(LOGS):
        chance = random.Random(f"search {seed}")
        data = Maker(chance).made()
        borders = [(0, None), (0, None), (0, chance.randrange(len(data) + 1)), (0, max(len(data) - 5, 0))]
        start, stop = chance.choice(borders)
        options = {"file": chance.random() < 0.4, "followed": chance.random() < 0.3}
        wanted = damage_oracle.read(data, start, stop, **options)
        assert found(data, start, stop, **options) == wanted, (seed, start, stop, options)
        met.update(reason for _, _, reason, _ in wanted.damage)
    assert min(met[reason] for reason in ("crc_mismatch", "length_beyond_end", "size_too_small")) > 50
