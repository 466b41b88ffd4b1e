"""Which batches are found around damage: the search of the core against that of tests/support/damage_oracle.py.

Random logs of few and small batches, so that every border of a rule is met: offsets next to each other, 2^31 apart,
claims one byte off, batches inside of values, candidates that break off.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import builders
import damage_oracle
import pytest
from core_reading import raw_varint, zigzag
from fake_file import FakeFile
from long_run import LONG

from kafkarec._core import Decoder, Source
from kafkarec.read.decode_options import request
from kafkarec.tables.records import BatchTable

pytestmark = pytest.mark.core

FAR = 2**31
LEAST = damage_oracle.LEAST_SIZES
LOGS = 20_000 if LONG else 1200
FRAMING = {
    "size_too_small",
    "size_overflow",
    "unsupported_magic",
    "batch_too_small",
    "length_beyond_end",
    "crc_mismatch",
}


class Maker:
    """One random log: pieces that are whole batches, and others that are not."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.next = chance.choice([-9, -1, 0, 0, 1, 7, 1000, FAR - 1, FAR, FAR + 3, 2**40])
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
                magic=self.pick(0, 1),
                offset=offset,
                key=self.pick(None, b"", b"key"),
                value=self.pick(None, value),
                attributes=self.pick(0, 8),
            )
            self.next = offset + 1
            if chance.random() < 0.15:
                inner = builders.message(magic=0, offset=offset, value=value)
                return builders.wrapper(inner, magic=0, offset=offset)
            return made
        count = self.pick(0, 1, 1, 2, 3)
        rows = [builders.record(offset_delta=n, key=self.pick(None, b"k"), value=value) for n in range(count)]
        delta = max(count - 1, 0) + self.pick(0, 0, 0, 2)
        self.next = offset + delta + 1
        if chance.random() < 0.05:
            codec = self.pick("zstd", "zstd", 5, 7)
            return builders.batch(rows or builders.records(1), base_offset=offset, last_offset_delta=delta, codec=codec)
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
            builders.with_crc(builders.patched(one, 57, b"\xff\xff\xff\xff")),
            self.unmeasured(builders.message(magic=self.pick(0, 1), offset=offset, key=b"key", value=b"value")),
        )

    def unmeasured(self, raw: bytes) -> bytes:
        """A message whose key or value has another length than its bytes."""
        at = 18 if raw[16] == 0 else 26
        length = self.pick(-(2**31), -1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 2**31 - 1)
        return builders.with_legacy_crc(
            builders.patched(raw, self.pick(at, at + 7), length.to_bytes(4, "big", signed=True))
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
        claim = self.pick(
            -1,
            0,
            13,
            14,
            21,
            22,
            49,
            size - 12,
            size - 1,
            size + 1,
            size + 12,
            size + 17,
            2 * size + 12,
            size + 61,
            2**31 - 1,
            2**31 - 12,
            2**31 - 13,
            400,
        )
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
            rows.append(
                builders.record(
                    offset_delta=n,
                    timestamp_delta=self.pick(0, 0, 1, 2**40, -(2**62)),
                    value=value,
                    key=self.pick(None, b"", b"k", b"key"),
                    headers=self.pick((), ((b"h", b"v"),)),
                    attributes=self.pick(0, 0, 0, 0, 0, 0, 1),
                )
            )
        if self.chance.random() < 0.2:  # the least record there is, and one byte less
            rows.insert(0, self.pick(b"\x0c\0\0\0\1\1\0", b"\x0a\0\0\0\1\1", b"\x0e\0\0\0\1\1\0\0"))
        raw = builders.batch(rows, base_offset=base)
        if self.chance.random() < 0.3:  # one field of a record in front of the values, or its varint
            at = 61 + self.chance.randrange(12)
            new = self.pick(
                b"\x01",
                b"\x7f",
                b"\x80",
                b"\xff" * 5,
                b"\x80\x80\x80\x80\0",
                b"\x80" * 5 + b"\0",
                b"\x80" * 9 + b"\1",
                b"\x80" * 10 + b"\1",
                bytes([self.chance.randrange(256)]),
            )
            raw = raw[:at] + new + raw[at + self.pick(1, 1, 0, len(new)) :]
            return builders.patched(raw, 8, (len(raw) - 12).to_bytes(4, "big"))
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
        padded = raw_varint(zigzag(size), self.pick(3, 4, 5, 6))
        front = self.pick(builders.varint(size), padded, b"\x80" + builders.varint(size), size.to_bytes(4, "big"))
        return self.pick(b"", b"", b"abc", b"\xff" * 4, b"abcd") + front + run

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


@cache
def decoder(file: bool, later_segment: bool) -> Decoder:
    """One for all inputs: whatever the input before was, the next one begins anew."""
    asked = request(
        columns=["offset"], errors="skip", control=True, _file="a.log" if file else None, _later_segment=later_segment
    )
    return asked.decoder(replace(asked.options, chunk_bytes=None))


def found(source: Source, start: int, stop: int | None, *, file: bool, later_segment: bool) -> damage_oracle.Found:
    reader = decoder(file, later_segment)
    reader.feed(source, start, stop)
    assert not reader.run()
    damage = [
        (at.position, at.length, at.reason if at.reason in FRAMING else "records", at.lost_from)
        for _, _, at in reader.pop_damage()
    ]
    remaining = reader.remaining
    _, rows = reader.take()
    return damage_oracle.Found(BatchTable.of([rows]).column("position"), damage, remaining)


def same(data: bytes, start: int = 0, stop: int | None = None, window: int = 0, **options: bool) -> damage_oracle.Found:
    """What both say, which is the same; `window`: through a file that gives so many bytes at once."""
    options = {"file": False, "later_segment": False} | options
    wanted = damage_oracle.read(data, start, stop, **options)
    source = Source(file=FakeFile(data, window)) if window else Source(data)
    assert found(source, start, stop, **options) == wanted, (start, stop, window, options, data.hex())
    return wanted


def test_random_logs_are_read_as_the_rules_say() -> None:
    met: Counter[str] = Counter()
    for seed in range(LOGS):
        chance = random.Random(f"search {seed}")
        data = Maker(chance).made()
        borders = [(0, None), (0, None), (0, chance.randrange(len(data) + 1)), (0, max(len(data) - 5, 0))]
        window = chance.choice([0, 0, 0, 61, 64, 300])
        options = {"file": chance.random() < 0.4, "later_segment": chance.random() < 0.3}
        met.update(reason for _, _, reason, _ in same(data, *chance.choice(borders), window, **options).damage)
    assert set(met) == {*FRAMING, "records"} and min(met.values()) > 10, met


def header(size: int, **fields: int) -> bytes:
    """61 bytes that look like the begin of a batch of `size` bytes, which no checksum confirms."""
    return builders.batch(count=1, length=size - 12, crc=0, **fields)


def of_size(size: int, **fields: int) -> bytes:
    """A good batch of so many bytes."""
    for guess in range(max(size - 61 - 14, 0), size - 61 - 6):
        made = builders.batch([builders.record(key=None, value=b"v" * guess)], **fields)
        if len(made) == size:
            return made
    raise AssertionError(size)


def test_checksums_are_computed_over_six_times_the_input_and_4096_bytes() -> None:
    """Six headers that claim all that follows; then there is a checksum's worth of bytes left, or one too few."""
    for size, taken in ((5016, True), (5017, True), (5018, False), (5019, False)):
        length = 1 + 6 * 61 + size
        fakes = b"".join(header(length - 1 - 61 * n, base_offset=n) for n in range(6))
        data = b"\xff" + fakes + of_size(size, base_offset=9)
        assert len(data) == length
        assert (len(same(data).batches) == 1) == taken, size


def test_checksums_of_odd_candidates_are_computed_over_twice_the_input() -> None:
    """Two odd headers that claim all that follows, then an odd batch that ends the input."""
    for size, taken in ((260, True), (261, True), (262, False)):
        length = 100 + 2 * 61 + size
        fakes = b"".join(header(length - 100 - 61 * n, attributes=0x80, base_offset=n) for n in range(2))
        data = b"\xff" * 100 + fakes + of_size(size, base_offset=9, attributes=0x80)
        assert (len(same(data).batches) == 1) == taken, size
        assert len(same(data[:-size] + of_size(size, base_offset=9)).batches) == 1


def test_a_large_batch_that_no_frame_follows_is_an_odd_one() -> None:
    for size, taken in ((16383, True), (16384, True), (16385, False)):
        for behind in (b"\xff" * 100, b"", builders.good_batch(1, base_offset=99)):
            length = 100 + 2 * 61 + size + len(behind)
            fakes = b"".join(header(length - 100 - 61 * n, attributes=0x80, base_offset=n) for n in range(2))
            data = b"\xff" * 100 + fakes + of_size(size, base_offset=9) + behind
            assert (100 + 2 * 61 in same(data).batches) == (taken or behind[:1] != b"\xff"), size


def test_damaged_batches_are_followed_by_their_claims_64_times() -> None:
    """What is inside of the first one counts only where its claim leads nowhere."""
    inside = builders.batch(payload=b"\xff" * 20 + builders.good_batch(1, base_offset=1), count=1, crc=0, base_offset=1)
    bad = [builders.good_batch(1, base_offset=n)[:-1] + b"!" for n in range(2, 80)]
    for count in (61, 62, 63, 64, 65, 66):
        data = builders.good_batch(1) + inside + b"".join(bad[:count]) + builders.good_batch(1, base_offset=90)
        assert len(same(data).batches) == (2 if count < 64 else 3), count


def test_a_run_of_1024_batches_leads_on() -> None:
    """Fewer that break off, with their length in front of them, are a value."""
    for count in (1023, 1024, 1025, 1026, 1027):
        run = b"".join(builders.message(magic=0, offset=n, key=None, value=None) for n in range(count))
        data = b"\xff" * 9 + builders.varint(len(run)) + run + b"\xff" * 40
        assert len(same(data).batches) == (count if count > 1024 else 0), count


def test_a_message_that_ends_within_a_length_is_read_to_its_end() -> None:
    """At the end of the input, with 0 to 5 bytes where a length of four should be."""
    for magic, key, rest in itertools.product((0, 1), (None, b"", b"key"), range(6)):
        whole = builders.message(magic=magic, offset=4, key=key, value=b"value")
        for at in (18 if magic == 0 else 26, len(whole) - 9):
            cut = whole[: at + rest]
            cut += b"!" * (LEAST[magic] - len(cut))
            raw = builders.with_legacy_crc(builders.patched(cut, 8, (len(cut) - 12).to_bytes(4, "big")))
            for window in (0, 64):
                same(b"\xff" * 9 + raw, window=window)
                same(b"\xff" * 9 + raw + b"\xff" * 30, window=window)


def test_what_was_found_in_one_input_is_not_known_of_the_next() -> None:
    """The same places, with other checksums, other offsets, and nothing found at all."""
    good, low, high = (builders.good_batch(1, base_offset=offset) for offset in (50, 3, 2**40))
    junk, row = b"\xff" * 20, len(good)
    bad = good[:-1] + b"!"
    for first, second in itertools.permutations(
        (
            junk + good + junk,
            junk + bad + junk,
            bad + bad + good,
            bad + good + bad,
            high + junk + good,
            low + junk + low,
            junk + bytes(row) + low,
            bytes(3 * row),
            junk * 12,
        ),
        2,
    ):
        same(first)
        same(second)


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_checksum_that_is_remembered_costs_nothing(spoiled: bool) -> None:
    """A candidate is looked at behind another one, and once more when that one turns out to be in a value."""
    looked_at = of_size(200, base_offset=51)
    front = [builders.good_batch(1), b"\xff" * 30, builders.good_batch(1, base_offset=50)]
    front += [looked_at[:-1] + b"!" if spoiled else looked_at, b"\xff" * 40, builders.good_batch(1, base_offset=2)]
    start = b"".join(front) + b"\xff" * 40

    def made(size: int) -> bytes:
        length = len(start) + 6 * 61 + size
        fakes = b"".join(header(length - len(start) - 61 * n, base_offset=52 + n) for n in range(6))
        return start + fakes + of_size(size, base_offset=60)

    def is_found(size: int) -> bool:
        data = made(size)
        return len(data) - size in damage_oracle.read(data).batches

    low, high = 200, 12_000
    assert is_found(low) and not is_found(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_found(middle) else (low, middle)
    for size in (low - 1, low, high, high + 1):
        same(made(size))


def test_a_run_that_goes_on_for_more_than_four_mebibytes_is_no_value() -> None:
    """From the end of its first batch, whatever stands in front of it."""
    first = builders.good_batch(1)
    for size, batches in (((1 << 22) - 1, 0), (1 << 22, 0), ((1 << 22) + 1, 2)):
        run = first + of_size(size, base_offset=1)
        assert len(same(b"\xff" * 9 + builders.varint(len(run)) + run + b"\xff" * 40).batches) == batches, size


def test_an_offset_of_exactly_2_31_is_not_far_above_one_below_0() -> None:
    for offset, taken in ((FAR - 1, True), (FAR, True), (FAR + 1, False)):
        data = builders.good_batch(1, base_offset=-9) + b"\xff" * 9 + builders.good_batch(1, base_offset=offset)
        assert len(same(data).batches) == 1 + taken, offset


def test_a_length_of_five_bytes_at_the_begin_of_an_input() -> None:
    run = builders.good_batch(2)
    for front, hidden in ((raw_varint(zigzag(len(run)), 5), True), (raw_varint(zigzag(len(run)), 4), False)):
        assert len(same(front + run + b"\xff" * 40).batches) == (0 if hidden else 1)
