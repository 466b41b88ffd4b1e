"""Which batches are found around damage: the core's search, compared with tests/support/damage_oracle.py.

Random logs of few small batches, so that the limits of every rule occur: offsets next to each other, 2^31 apart,
lengths one byte off, batches inside values, candidates without a following frame.
"""

from array import array
from collections import Counter
from functools import cache

import builders
import damage
import damage_oracle
import pytest
import random_logs
import reading
from builders import raw_varint, zigzag
from fake_file import FakeFile
from long_run import LONG
from plain_logs import batch

from kafkarec import BatchTable, codecs
from kafkarec._core import Decoder, PassResult, Source

pytestmark = pytest.mark.core

FAR = 2**31
LOGS = 20_000 if LONG else 1200
FRAMING = {
    "size_too_small",
    "size_overflow",
    "unsupported_magic",
    "batch_too_small",
    "length_beyond_end",
    "crc_mismatch",
}


class Maker(random_logs.Maker):
    """Makes one random log of pieces: whole batches, and others."""

    def __init__(self, seed):
        super().__init__(seed)
        self.next = self.pick(-9, -1, 0, 0, 1, 7, 1000, FAR - 1, FAR, FAR + 3, 2**40)

    def pick(self, *choices):
        return self.random.choice(choices)

    def whole(self, offset=None):
        """Return a batch or a message that a usual writer could have written."""
        offset = self.next if offset is None else offset
        if self.random.random() < 0.25:
            self.next = offset + 1
            key, value = self.pick(None, b"", b"key"), self.pick(None, b"v")
            return builders.message(
                magic=self.pick(0, 1), offset=offset, key=key, value=value, attributes=self.pick(0, 8)
            )
        count = self.pick(0, 1, 1, 2, 3)
        delta = max(count - 1, 0) + self.pick(0, 0, 0, 2)
        self.next = offset + delta + 1
        rows = [builders.record(offset_delta=n, key=self.pick(None, b"k"), value=b"v") for n in range(count)]
        return builders.batch(rows, base_offset=offset, last_offset_delta=delta, attributes=self.pick(0, 0, 0, 8, 0x40))

    def unmeasured(self, offset):
        """Return a message whose key or value has a length field that differs from its bytes."""
        length = self.pick(-(2**31), -1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 2**31 - 1)
        wrong = {self.pick("key_length", "value_length"): length}
        return builders.message(magic=self.pick(0, 1), offset=offset, key=b"key", value=b"value", **wrong)

    def near(self):
        """Return an offset at the limit of some rule."""
        step = self.pick(-FAR - 1, -FAR, -3, -2, -1, -1, 0, 0, 1, 2, 5, FAR - 1, FAR, FAR + 1, FAR + 2, 2**41)
        return max(self.next + step, self.pick(0, 0, 0, -1))

    def junk(self):
        n = self.pick(1, 2, 4, 5, 6, 11, 12, 13, 16, 17, 18, 30, 61, 80)
        return self.pick(b"\xff" * n, bytes(n), bytes(self.pick(*b"\0\0\0\1\2\x0e\x3d\x80") for _ in range(n)))

    def run(self):
        """Return consecutive batches, some odd, the last sometimes damaged or cut."""
        kept = self.next
        offset = self.near()
        parts = []
        for _ in range(self.pick(1, 1, 1, 2, 3)):
            odd = self.pick(self.batch, self.legacy, self.odd, self.unmeasured)
            parts.append((odd if self.random.random() < 0.1 else self.whole)(offset))
            offset = self.pick(self.next, self.next, self.next, self.near())
        if self.random.random() < 0.3:
            parts[-1] = self.spoiled(parts[-1])
        if self.random.random() < 0.6:
            self.next = kept
        return b"".join(parts)

    def spoiled(self, raw):
        """Damage a bit, the length or the magic, or remove or zero a part."""
        size = int.from_bytes(raw[8:12], "big")
        fixed = self.pick(-1, 0, 13, 14, 21, 22, 49, 400, 2**31 - 1, 2**31 - 12, 2**31 - 13)
        claim = self.pick(fixed, 2 * size + 12, size + self.pick(-12, -1, 1, 12, 17, 61))
        one = damage.Stored(raw, array("q", range(len(raw))))
        return self.pick(
            raw[:-1] + bytes([raw[-1] ^ 1]),
            builders.patched(raw, 8, claim.to_bytes(4, "big", signed=True)),
            damage.aimed(self.random, one, [0]).data,
            damage.elsewhere(self.random, one, [0]).data,
        )

    def holding(self):
        """Return a damaged batch whose values are batches, some with other bytes before them."""
        base, kept = self.next, self.next
        rows = [
            builders.record(
                offset_delta=n,
                timestamp_delta=self.pick(0, 0, 1, 2**40, -(2**62)),
                value=self.pick(b"", b"", b"\0\0\0\0\7") + self.run() + self.pick(b"", b"", b"more", self.junk()),
                key=self.pick(None, b"", b"k", b"key"),
                attributes=self.pick(0, 0, 0, 0, 0, 0, 1),
            )
            for n in range(self.pick(1, 1, 2, 3))
        ]
        if self.random.random() < 0.2:  # the smallest possible record, and one byte less
            rows.insert(0, self.pick(b"\x0c\0\0\0\1\1\0", b"\x0a\0\0\0\1\1", b"\x0e\0\0\0\1\1\0\0"))
        raw = builders.batch(rows, base_offset=base)
        if self.random.random() < 0.3:  # one field of a record before the values, or its varint
            at, byte = 61 + self.random.randrange(12), bytes([self.random.randrange(256)])
            long = self.pick(b"\x80" * 4 + b"\0", b"\x80" * 5 + b"\0", b"\x80" * 9 + b"\1", b"\x80" * 10 + b"\1")
            new = self.pick(byte, b"\x7f", b"\x80", long, long)
            raw = raw[:at] + new + raw[at + self.pick(1, 0, len(new)) :]
            return builders.patched(raw, 8, (len(raw) - 12).to_bytes(4, "big"))
        self.next = self.pick(kept, base + len(rows))
        return self.spoiled(raw) if self.random.random() < 0.8 else raw

    def claiming(self):
        """Return a batch whose length leads to a border of a later batch, or next to it."""
        raw = self.whole()
        following = [self.whole() for _ in range(self.pick(1, 2, 3))]
        if self.random.random() < 0.5:
            following[0] = self.spoiled(following[0])
        border = sum(map(len, following[: self.random.randrange(len(following) + 1)]))
        size = len(raw) + border + self.pick(-12, -1, 0, 0, 0, 1, 5, 11, 12) - 12
        return builders.patched(raw, 8, max(size, 0).to_bytes(4, "big")) + b"".join(following)

    def measured(self):
        """Return a run with its length as a varint before it, as in a record."""
        run = self.run()
        size = len(run) + self.pick(0, 0, 0, -1, 1)
        padded = raw_varint(zigzag(size), self.pick(3, 4, 5, 6))
        front = self.pick(builders.varint(size), padded, b"\x80" + builders.varint(size), size.to_bytes(4, "big"))
        return self.pick(b"", b"", b"abc", b"\xff" * 4, b"abcd") + front + run

    def made(self):
        makers = (self.whole, self.whole, self.junk, self.run, self.holding, self.measured, self.claiming)
        pieces = [self.pick(*makers, lambda: self.spoiled(self.whole()))() for _ in range(self.random.randrange(2, 7))]
        last = self.pick(b"", b"", self.whole(), self.whole()[: self.random.randrange(70)], self.junk())
        return b"".join([self.pick(self.whole(), b""), *pieces, last])


@cache
def decoder(file, later_segment):
    """Return one decoder for all inputs: its state must not carry over. Without the rules for the order of offsets,
    which tests/unit/recover tests."""
    asked = reading.decode_request(columns=["offset"], errors="skip", control=True, engine={"chunk_bytes": None})
    named = {"file": "a.log" if file else None, "later_segment": later_segment}
    return Decoder(asked.layout, asked.options, codecs, skip=True, **named)


def read_by_core(source, start, stop, *, file, later_segment):
    reader = decoder(file, later_segment)
    reader.feed(source, start, stop)
    assert not reader.run()
    damage = [
        (at.position, at.length, at.reason if at.reason in {*FRAMING, "search_limit"} else "records", at.lost_from)
        for _, _, at in reader.pop_damage()
    ]
    remaining = reader.remaining
    [rows] = reader.take().tables
    return damage_oracle.ReadResult(BatchTable(PassResult([], [rows], [])).column("position"), damage, remaining)


def same(data, start=0, stop=None, window=0, **options):
    """Assert that both agree, and return the result; `window`: read through a file with windows of this size."""
    options = {"file": False, "later_segment": False} | options
    wanted = damage_oracle.read(data, start, stop, **options)
    source = Source(file=FakeFile(data, window)) if window else Source(data)
    assert read_by_core(source, start, stop, **options) == wanted, (start, stop, window, options, data.hex())
    return wanted


def test_random_logs_are_read_as_by_the_damage_oracle():
    met = Counter()
    for seed in range(LOGS):
        maker = Maker(seed)
        data, chance = maker.made(), maker.random
        borders = [(0, None), (0, None), (0, chance.randrange(len(data) + 1)), (0, max(len(data) - 5, 0))]
        window = chance.choice([0, 0, 0, 61, 64, 300])
        options = {"file": chance.random() < 0.4, "later_segment": chance.random() < 0.3}
        met.update(reason for _, _, reason, _ in same(data, *chance.choice(borders), window, **options).damage)
    assert set(met) - {"search_limit"} == {*FRAMING, "records"} and min(met.values()) > 10, met


def header(size, **fields):
    """Return 61 bytes that look like the header of a batch of `size` bytes, with a wrong checksum."""
    return builders.batch(count=1, length=size - 12, crc=0, **fields)


def of_size(size, **fields):
    """Return a good batch of `size` bytes."""
    return builders.batch([builders.record_of_size(size - 61, b"v")], **fields)


def behind_claims(claims, size, before, attributes=0, of_last=0, following=b""):
    """Return bytes, headers that claim all that follows, a good batch at the end, and what follows it."""
    length = len(before) + 61 * claims + size + len(following)
    starts = range(len(before), len(before) + 61 * claims, 61)
    fakes = b"".join(header(length - at, base_offset=n, attributes=attributes) for n, at in enumerate(starts))
    return before + fakes + of_size(size, base_offset=9, attributes=of_last) + following


def test_checksums_are_computed_over_six_times_the_input_and_4096_bytes():
    """Six headers that claim all that follows; then the bytes left suffice for one checksum, or are one too few."""
    for size, accepted in ((5016, True), (5017, True), (5018, False), (5019, False)):
        assert (len(same(behind_claims(6, size, b"\xff")).batches) == 1) == accepted, size


def test_checksums_of_odd_candidates_are_computed_over_twice_the_input():
    """Two odd headers that claim all that follows, then an odd batch that ends the input."""
    for size, accepted in ((260, True), (261, True), (262, False)):
        for attributes in (0x80, 0):
            data = behind_claims(2, size, b"\xff" * 100, 0x80, attributes)
            assert (len(same(data).batches) == 1) == (accepted or not attributes), size


def test_a_large_batch_that_no_frame_follows_counts_as_odd():
    for size, accepted in ((16383, True), (16384, True), (16385, False)):
        for following in (b"\xff" * 100, b"", batch(99, 1)):
            found = same(behind_claims(2, size, b"\xff" * 100, 0x80, following=following)).batches
            assert (100 + 2 * 61 in found) == (accepted or following[:1] != b"\xff"), size


def test_claimed_lengths_of_damaged_batches_are_followed_64_times():
    """Batches inside the first count only if its length leads to no batch."""
    inside = builders.batch(payload=b"\xff" * 20 + batch(1, 1), count=1, crc=0, base_offset=1)
    bad = [batch(n, 1)[:-1] + b"!" for n in range(2, 80)]
    for count in (61, 62, 63, 64, 65, 66):
        data = batch(0, 1) + inside + b"".join(bad[:count]) + batch(90, 1)
        assert len(same(data).batches) == (2 if count < 64 else 3), count


def test_a_run_of_1024_batches_counts_as_continuing():
    """A shorter run without a following frame, its length stored before it, is a value."""
    for count in (1023, 1024, 1025, 1026, 1027):
        run = b"".join(builders.message(magic=0, offset=n, key=None, value=None) for n in range(count))
        data = b"\xff" * 9 + builders.varint(len(run)) + run + b"\xff" * 40
        assert len(same(data).batches) == (count if count > 1024 else 0), count


def test_a_length_before_a_run_tells_whatever_byte_is_before_it():
    run = batch(0, 1) + batch(1, 1)
    for front in (b"\xff", b"\x7f", b"\x03"):
        assert same(front * 9 + builders.varint(len(run)) + run + b"\xff" * 40).batches == [], front


def test_a_run_of_more_than_four_mebibytes_is_no_value():
    """Counted from the end of its first batch, whatever varint is stored before it."""
    first = batch(0, 1)
    for size, batches in (((1 << 22) - 1, 0), (1 << 22, 0), ((1 << 22) + 1, 2)):
        run = first + of_size(size, base_offset=1)
        assert len(same(b"\xff" * 9 + builders.varint(len(run)) + run + b"\xff" * 40).batches) == batches, size


def test_a_wrong_length_that_leads_to_a_batch_in_a_value_is_not_followed():
    """The length of the value, directly before it, tells."""
    front, inside, behind = (batch(4 * n, 4) for n in range(3))
    whole = builders.batch([builders.record(value=inside)], base_offset=4)
    bad = builders.patched(whole, 8, (whole.index(inside) - 12).to_bytes(4, "big"))
    assert same(front + bad + behind).batches == [0, len(front + bad)]


def test_a_batch_is_found_behind_any_number_of_bytes():
    """Of bytes that may be a magic and of others, in words that begin anywhere; in memory, and where a window ends."""
    first, last = batch(0, 2), batch(2, 2)
    for filling in (b"\x03", b"\x7f", b"\x80", b"\xff", b"\x00", b"\x02", b"\x01\xff\x03", b"\xff" * 8 + b"\x00"):
        for length in range(1, 44):
            junk = (filling * length)[-length:]
            data = first + junk + last
            for source in (Source(data), *(Source(file=FakeFile(data, size, 32)) for size in (17, 64, 100))):
                table = reading.decode_request(errors="skip").decoder()
                table.feed(source)
                assert not table.run()
                assert [(one[2].position, one[2].length) for one in table.pop_damage()] == [(len(first), length)]
