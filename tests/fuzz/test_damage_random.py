"""Random damage in a real broker's segments, read from files through `open`, `stream` and `verify`.

Every untouched batch is recovered with its records, no record is invented or doubled, good bytes, damage and tail cover
the file without overlap, and every run ends without a loop or an unexpected exception. test_skip.py does the same with
bytes and generated logs, tests/unit/read/test_windows.py with windows. KAFKAREC_LONG=1 runs many more seeds.
"""

from __future__ import annotations

import faulthandler
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import batch_damage
import builders
import golden
import pytest
from batch_damage import Log, flip, mark_claimed
from fake_file import FakeFile
from long_run import LONG
from verify_reports import assert_tiles

import kafkarec
from kafkarec.logs import Segment
from kafkarec.ops import verify
from kafkarec.ops.verify import Report

SEEDS = range(1000 if LONG else 25)
NAME = "00000000000000000000.log"
SOURCES = [
    f"{folder}/{file}"
    for folder, file in (
        ("all-codecs-0", NAME),
        ("txn-0", "00000000000000000030.log"),
        ("txn-0", NAME),
        ("compacted-0", NAME),
        ("logappend-0", NAME),
        ("__consumer_offsets-0", NAME),
        ("__cluster_metadata-0", NAME),
    )
]
Rows = dict[int, tuple[bytes | None, bytes | None]]
Spoil = Callable[[random.Random, Log], None]


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """End the process with a traceback when a test loops, which would hang the suite."""
    faulthandler.dump_traceback_later(1800 if LONG else 90, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@cache
def golden_segment(source: str) -> tuple[list[bytes], list[list[int]]]:
    """The batches of a golden segment, and the offsets of their records."""
    data = (golden.VECTORS / "segments" / source).read_bytes()
    batches = list(kafkarec.batches(data))
    return [bytes(batch.raw) for batch in batches], [[record.offset for record in batch] for batch in batches]


def rows_of(pieces: list[bytes]) -> Rows:
    records = kafkarec.decode(b"".join(pieces), control=True)
    return {record.offset: (record.key, record.value) for record in records}


# ---- damage that spans batches


def mark_changed_batches(rng: random.Random, log: Log, before: list[bytes]) -> None:
    """Mark the changed batches. The checksum covers neither base offset nor leader epoch: where only those have
    changed, which no reader can detect, change a covered byte too."""
    for i, raw in enumerate(before):
        piece = log.pieces[i]
        if piece == raw:
            continue
        log.touched.add(i)
        if len(piece) == len(raw) > 21 and piece[8:12] + piece[16:] == raw[8:12] + raw[16:]:
            flip(rng, log, i)


def overwrite_sectors(rng: random.Random, log: Log) -> None:
    """Overwrite sectors with zeros or random bytes, whatever batches they hold."""
    before, starts = list(log.pieces), log.starts
    size = rng.choice([512, 4096])
    first = rng.randrange(starts[1], starts[-3]) // size * size
    lost = range(max(first, starts[1]), min(first + size, starts[-3]))
    filling = bytes(len(lost)) if rng.random() < 0.7 else rng.randbytes(len(lost))
    for i, raw in enumerate(before):
        low, high = max(lost.start, starts[i]), min(lost.stop, starts[i + 1])
        if low < high:
            new = filling[low - lost.start : high - lost.start]
            log.pieces[i] = builders.patched(raw, low - starts[i], new)
    mark_changed_batches(rng, log, before)


def remove_range(rng: random.Random, log: Log) -> None:
    """Remove a range that begins in one batch and ends in another: all following bytes move."""
    before = list(log.pieces)
    first = rng.randrange(1, len(before) - 4)
    last = rng.randrange(first + 1, min(first + 4, len(before) - 2))
    log.pieces[first] = before[first][: rng.randrange(21, len(before[first]))]
    for between in range(first + 1, last):
        log.pieces[between] = b""
    log.pieces[last] = before[last][rng.randrange(21, len(before[last])) :]
    if b"".join(log.pieces[first:]).startswith(before[first]):
        flip(rng, log, first)  # the following bytes would otherwise complete the cut batch
    mark_changed_batches(rng, log, before)


def insert_piece(rng: random.Random, log: Log) -> None:
    """Insert a piece of another log between two batches: frames and headers, but no whole batch."""
    pieces, _ = golden_segment(rng.choice(SOURCES))
    piece = rng.choice(pieces)
    cut = piece[rng.randrange(1, 30) : len(piece) - rng.randrange(30)][: rng.choice([20, 70, 1000])]
    i = rng.randrange(1, len(log.pieces) - 2)
    at = len(log.pieces[i])
    log.pieces[i] += cut
    starts = log.starts
    claimed = starts[i] + at + 12 + int.from_bytes(cut[8:12], "big", signed=True)
    if claimed in starts[i + 2 :] or starts[-1] - 12 < claimed <= starts[-1]:
        log.pieces[i] = log.pieces[i][:at]  # its length leads to a batch or to the end: one damaged range


def one_of(kind: Callable[[random.Random, Log, int], None]) -> Spoil:
    """A damage function for logs that applies a kind of `batch_damage` to one batch."""

    def spoil(rng: random.Random, log: Log) -> None:
        i = rng.randrange(1, len(log.pieces) - 2)
        if i not in log.touched:
            log.touched.add(i)
            kind(rng, log, i)

    spoil.__name__ = kind.__name__
    return spoil


ONE_BATCH = [one_of(kind) for kind in batch_damage.KINDS]
KINDS: list[Spoil] = [*ONE_BATCH, overwrite_sectors, remove_range, insert_piece]


# ---- checks


def write(tmp_path: Path, log: Log) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir(exist_ok=True)
    path = folder / NAME
    path.write_bytes(log.data)
    return path


def read(segment: Segment, batch_bytes: int) -> tuple[list[Any], int, int]:
    """(records, good batches, bytes of batches, damage and tail) of a segment, read by `stream`."""
    records, batches, covered = [], 0, 0
    for piece in segment.stream(errors="skip", control=True, batch_bytes=batch_bytes):
        records += list(piece)
        batches += len(piece.batches)
        covered += (
            sum(piece.batches.column("size_in_bytes")) + sum(one.length for one in piece.damage) + piece.remaining
        )
    return records, batches, covered


def check_records(log: Log, expected: Rows, records: list[Any]) -> None:
    offsets = [record.offset for record in records]
    missing = sorted(set(log.expected()) - set(offsets))
    assert not missing, f"lost offsets {missing[:10]}"
    assert offsets == sorted(set(offsets)), "doubled or out of order"
    for record in records:
        assert expected.get(record.offset) == (record.key, record.value), f"invented record: offset {record.offset}"


def check(log: Log, expected: Rows, path: Path, rng: random.Random) -> Report:
    segment = kafkarec.open(path)
    records, batches, covered = read(segment, rng.choice([1, 700, 1 << 20]))
    check_records(log, expected, records)
    assert covered == segment.size
    report = verify.verify(path.parent, sequences=rng.random() < 0.3)
    assert_tiles(report)
    assert report.total("batches") == batches
    restored = any(one.kind == "header_restored" for one in report.findings)
    assert report.state == "damaged" or restored or not log.touched, str(report)
    assert len(str(report).splitlines()) < 60
    return report


def spoiled(rng: random.Random, source: str, kinds: list[Spoil], most: int = 4, tails: bool = False) -> Log:
    """A golden segment with one to `most` damages and, with `tails`, sometimes bytes after its last batch."""
    pieces, offsets = golden_segment(source)
    log = Log([*pieces], [*map(list, offsets)])
    chosen = [rng.choice(kinds) for _ in range(rng.randrange(1, most + 1))]
    if remove_range in chosen:
        chosen = [remove_range]
    # damage that moves other batches comes last
    for kind in sorted(chosen, key=lambda kind: kind is insert_piece):
        kind(rng, log)
    if tails:
        log.pieces.append(rng.choice([b"", b"", bytes(11), bytes(5000), log.pieces[0][:40]]))
        log.offsets.append([])
    mark_claimed(log)
    return log


def run(seed: str, trial: Callable[[random.Random], None]) -> None:
    """Run one seed; a failure names it."""
    try:
        trial(random.Random(seed))
    except Exception as error:
        raise AssertionError(f"seed {seed!r}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("kind", [*KINDS, None], ids=lambda kind: kind.__name__ if kind else "all")
def test_untouched_batches_of_real_segments_are_recovered(kind: Spoil | None, tmp_path: Path) -> None:
    name = kind.__name__ if kind else "all"

    def trial(rng: random.Random) -> None:
        source = rng.choice(SOURCES)
        log = spoiled(
            rng, source, [kind] if kind else KINDS, 1 if kind in (overwrite_sectors, remove_range) else 4, tails=True
        )
        check(log, rows_of(golden_segment(source)[0]), write(tmp_path, log), rng)

    for seed in SEEDS:
        run(f"{name} {seed}", trial)


@pytest.mark.parametrize("kind", ["flip", "zero", "splice", "forge_length", "cut_header"])
@pytest.mark.parametrize("begin", [10_000, 0], ids=["below", "around"])
def test_values_that_hold_a_real_brokers_batches_stay_values(kind: str, begin: int, tmp_path: Path) -> None:
    """A topic of archived batches: each value is a whole batch of another log with a right checksum, whose offsets are
    below those of the log or around them."""

    def trial(rng: random.Random) -> None:
        log = Log([], [])
        for base in range(begin, begin + 30, 3):
            pieces, _ = golden_segment(rng.choice(SOURCES))
            values = [rng.choice(pieces)[:3000] for _ in range(3)]
            records = [builders.record(offset_delta=i, value=value) for i, value in enumerate(values)]
            log.pieces.append(builders.batch(records, base_offset=base))
            log.offsets.append([base, base + 1, base + 2])
        expected = rows_of(log.pieces)
        one_of(getattr(batch_damage, kind))(rng, log)
        mark_claimed(log)
        check(log, expected, write(tmp_path, log), rng)

    for seed in SEEDS:
        run(f"nested {kind} {begin} {seed}", trial)


class Shrinking(FakeFile):
    """A file that is truncated while it is read: after some calls only `left` bytes remain."""

    after: int = 0
    left: int = 0

    def read_at(self, position: int, length: int) -> bytes:
        if self.calls >= self.after:
            self.present = self.left
        return super().read_at(position, length)


def test_a_file_truncated_while_it_is_read_ends_the_run_cleanly() -> None:
    def trial(rng: random.Random) -> None:
        source = rng.choice(SOURCES[:2])
        data = b"".join(golden_segment(source)[0])
        for verifying in (False, True):
            fake = Shrinking(data, rng.choice([64, 512, 4096]), 512)
            fake.after, fake.left = rng.randrange(60), rng.randrange(len(data))
            segment = Segment(f"orders-0/{NAME}", NAME, source=fake)
            if verifying:
                report = verify.verify(segment)
                assert_tiles(report)
                assert str(report)
                continue
            records, _, covered = read(segment, rng.choice([1, 1 << 20]))
            assert covered == len(data)
            expected = rows_of(golden_segment(source)[0])
            assert all(expected[record.offset] == (record.key, record.value) for record in records)

    for seed in SEEDS:
        run(f"shrinking {seed}", trial)


def test_any_bytes_lead_to_a_report(tmp_path: Path) -> None:
    """Fields forged at random under a recomputed CRC: `verify` returns a report and raises nothing."""

    def trial(rng: random.Random) -> None:
        pieces = list(golden_segment(rng.choice(SOURCES))[0])
        for i in rng.sample(range(len(pieces)), min(5, len(pieces))):
            raw = bytearray(pieces[i])
            for _ in range(rng.choice([1, 2, 8])):
                raw[rng.randrange(17, len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            pieces[i] = builders.with_crc(bytes(raw))
        path = write(tmp_path, Log(pieces, []))
        for options in ({}, {"sequences": True, "max_decompressed_bytes": 2000}):
            report = verify.verify(path.parent, **options)
            assert_tiles(report)
            assert str(report) and report.to_json()

    for seed in SEEDS:
        run(f"forged {seed}", trial)
