"""Random damage in a real broker's segments: the judge of `make damages` finds no fault in what is read, verified,
explained and salvaged; and files that are truncated or forged end in a report.

tests/unit/read/test_hurt_headers.py does it with generated logs, tests/unit/read/test_windows.py with windows.
KAFKAREC_LONG=1 runs many more seeds.
"""

from __future__ import annotations

import faulthandler
import random

import builders
import damages
import hurt_logs
import pytest
from fake_file import FakeFile
from long_run import LONG
from paths import SEGMENTS
from salvage_runs import FOLDERS, LOGS
from verify_reports import verified

import kafkarec
from kafkarec import Segment

SEEDS = range(1000 if LONG else 25)
NAME = f"{0:020}.log"


@pytest.fixture(autouse=True)
def watchdog():
    """End the process with a traceback when a test loops, which would hang the suite."""
    faulthandler.dump_traceback_later(1800 if LONG else 90, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def run(seed, trial):
    """Run one seed; a failure names it."""
    try:
        trial(random.Random(seed))
    except Exception as error:
        raise AssertionError(f"seed {seed!r}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_untouched_batches_of_real_logs_are_recovered_and_salvaged(folder, tmp_path):
    log = hurt_logs.golden_log(folder)
    for number in range(2000) if LONG else (*range(12), *range(53, 400, 50)):  # the number chooses what is compared
        chance = random.Random(f"{folder.name} {number}")
        parts = hurt_logs.damaged(chance, log, chance.randrange(1, 5))
        judge = damages.check(log, parts, tmp_path / f"{number}" / folder.name, number)
        assert not judge.faults, number


# Damage of a batch whose values are batches: such that a reader can tell these from batches of the log.


def a_bit(chance, raw):
    return builders.flipped(raw, chance.randrange(21, len(raw)), 1 << chance.randrange(8))


def zeros_to_the_end(chance, raw):
    start = chance.randrange(len(raw) // 2)
    return raw[:start] + bytes(len(raw) - start)


def bytes_behind_it(chance, raw):
    return raw + chance.choice([chance.randbytes(chance.randrange(1, 90)), bytes(50), b"PNG" * 9])


def the_length(chance, raw):
    size = chance.choice([0, 13, -1, 2**31 - 1, 2**31 - 12, 10**6, chance.randrange(14, len(raw) - 20)])
    return builders.patched(raw, 8, size.to_bytes(4, "big", signed=True))


def bytes_of_the_header(chance, raw):
    start = chance.randrange(8, 17)
    return raw[:start] + raw[chance.randrange(start + 1, 18) :]


BELOW, AROUND = 10_000, 0


@pytest.mark.parametrize("begin", [BELOW, AROUND])
@pytest.mark.parametrize("damage", [a_bit, zeros_to_the_end, bytes_behind_it, the_length, bytes_of_the_header])
def test_values_that_hold_a_real_brokers_batches_stay_values(damage, begin, tmp_path):
    """A topic of archived batches: each value is a whole batch of another log with a right checksum, whose offsets are
    below those of the log or around them. All records are read but those of the damaged batch."""
    archived = [bytes(batch.raw)[:3000] for path in LOGS for batch in kafkarec.batches(path.read_bytes())]

    def trial(chance):
        rows = [(offset, chance.choice(archived)) for offset in range(begin, begin + 30)]
        parts = []
        for at in range(0, 30, 3):
            values = [builders.record(offset_delta=n, value=value) for n, (_, value) in enumerate(rows[at : at + 3])]
            parts.append(builders.batch(values, base_offset=begin + at))
        number = chance.randrange(1, 8)
        parts[number] = damage(chance, parts[number])
        path = write(tmp_path, parts)
        columns = kafkarec.open(path).read(errors="skip", columns=["offset", "value"])
        found = list(zip(columns.column("offset"), columns.column("value"), strict=True))
        assert found in (rows, rows[: 3 * number] + rows[3 * number + 3 :])
        verified(path.parent)

    for seed in SEEDS:
        run(f"nested {damage.__name__} {begin} {seed}", trial)


def write(tmp_path, parts):
    path = tmp_path / "orders-0" / NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(parts))
    return path


def some_batches(chance):
    """The batches of a real segment."""
    return [bytes(batch.raw) for batch in kafkarec.batches(chance.choice(LOGS).read_bytes())]


class Shrinking(FakeFile):
    """A file that is truncated while it is read: after some calls only `left` bytes remain."""

    after: int = 0
    left: int = 0

    def read_at(self, position, length):
        if self.calls >= self.after:
            self.present = self.left
        return super().read_at(position, length)


def test_a_file_truncated_while_it_is_read_ends_the_run_cleanly():
    data = (SEGMENTS / "all-codecs-0" / NAME).read_bytes()
    whole = kafkarec.decode(data, control=True).tuples()

    def trial(rng):
        for verifying in (False, True):
            fake = Shrinking(data, rng.choice([64, 512, 4096]), 512)
            fake.after, fake.left = rng.randrange(60), rng.randrange(len(data))
            segment = Segment(f"orders-0/{NAME}", NAME, source=fake)
            if verifying:
                report = verified(segment)
                assert str(report)
                continue
            records, covered = [], 0
            for piece in segment.stream(errors="skip", control=True, batch_bytes=rng.choice([1, 1 << 20])):
                records += piece.tuples()
                covered += sum(piece.batches.column("size_in_bytes")) + sum(one.length for one in piece.damage)
                covered += piece.remaining
            assert covered == len(data)
            assert records == [row for row in whole if row in records]

    for seed in SEEDS:
        run(f"shrinking {seed}", trial)


def test_any_bytes_lead_to_a_report(tmp_path):
    """Fields forged at random under a recomputed CRC: `verify` returns a report and raises nothing."""

    def trial(rng):
        pieces = some_batches(rng)
        for i in rng.sample(range(len(pieces)), min(5, len(pieces))):
            raw = bytearray(pieces[i])
            for _ in range(rng.choice([1, 2, 8])):
                raw[rng.randrange(17, len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            pieces[i] = builders.with_crc(bytes(raw))
        path = write(tmp_path, pieces)
        for options in ({}, {"sequences": True, "max_decompressed_bytes": 2000}):
            report = verified(path.parent, **options)
            assert str(report) and report.to_json()

    for seed in SEEDS:
        run(f"forged {seed}", trial)
