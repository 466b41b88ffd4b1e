"""Damage thrown at random into a real broker's segments, on files: through open, stream and verify.

Every batch that was not touched is recovered with its records as they were, no record is made up or doubled, good
bytes, damage and tail tile the file, and whatever happens ends: no loop, no exception from elsewhere. test_skip.py
asks the same of bytes and made-up logs, tests/unit/read/test_windows.py of windows. KAFKAREC_LONG=1 runs many more
seeds.
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
from verifying import assert_tiles

import kafkarec
from kafkarec.ops import verify
from kafkarec.ops.verify import Report
from kafkarec.storage import Segment

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
    """A loop without an end would hang the suite: this ends the process and says where it stood."""
    faulthandler.dump_traceback_later(1800 if LONG else 90, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@cache
def real(source: str) -> tuple[list[bytes], list[list[int]]]:
    """The batches of a golden segment, and the offsets of their records."""
    data = (golden.VECTORS / "segments" / source).read_bytes()
    found = list(kafkarec.batches(data))
    return [bytes(batch.raw) for batch in found], [[record.offset for record in batch] for batch in found]


def fresh(source: str) -> Log:
    pieces, offsets = real(source)
    return Log(list(pieces), [list(some) for some in offsets])


def rows_of(pieces: list[bytes]) -> Rows:
    records = kafkarec.decode(b"".join(pieces), control=True)
    return {record.offset: (record.key, record.value) for record in records}


# ---- damage that does not keep to one batch


def settle(chance: random.Random, log: Log, before: list[bytes]) -> None:
    """Marks what changed. Base offset and leader epoch are outside of the checksum: a change there alone, which nobody
    could tell, is made one that can be told."""
    for i, raw in enumerate(before):
        piece = log.pieces[i]
        if piece == raw:
            continue
        log.touched.add(i)
        if len(piece) == len(raw) > 21 and piece[8:12] + piece[16:] == raw[8:12] + raw[16:]:
            flip(chance, log, i)


def borders(log: Log) -> list[int]:
    found = [0]
    for piece in log.pieces:
        found.append(found[-1] + len(piece))
    return found


def page(chance: random.Random, log: Log) -> None:
    """Sectors that came back as zeros, or as something else, whatever batches lie there."""
    before, starts = list(log.pieces), borders(log)
    size = chance.choice([512, 4096])
    first = chance.randrange(starts[1], starts[-3]) // size * size
    lost = range(max(first, starts[1]), min(first + size, starts[-3]))
    filling = bytes(len(lost)) if chance.random() < 0.7 else chance.randbytes(len(lost))
    for i, raw in enumerate(before):
        low, high = max(lost.start, starts[i]), min(lost.stop, starts[i + 1])
        if low < high:
            new = filling[low - lost.start : high - lost.start]
            log.pieces[i] = builders.patched(raw, low - starts[i], new)
    settle(chance, log, before)


def hole(chance: random.Random, log: Log) -> None:
    """A stretch is gone, from within one batch into another: what follows has moved."""
    before = list(log.pieces)
    first = chance.randrange(1, len(before) - 4)
    last = chance.randrange(first + 1, min(first + 4, len(before) - 2))
    log.pieces[first] = before[first][: chance.randrange(21, len(before[first]))]
    for between in range(first + 1, last):
        log.pieces[between] = b""
    log.pieces[last] = before[last][chance.randrange(21, len(before[last])) :]
    if b"".join(log.pieces[first:]).startswith(before[first]):
        flip(chance, log, first)  # what follows would stand in for what was cut
    settle(chance, log, before)


def foreign(chance: random.Random, log: Log) -> None:
    """A piece of another log between two batches: it has frames and headers, but no whole batch."""
    pieces, _ = real(chance.choice(SOURCES))
    piece = chance.choice(pieces)
    cut = piece[chance.randrange(1, 30) : len(piece) - chance.randrange(30)][: chance.choice([20, 70, 1000])]
    i = chance.randrange(1, len(log.pieces) - 2)
    at = len(log.pieces[i])
    log.pieces[i] += cut
    starts = borders(log)
    claimed = starts[i] + at + 12 + int.from_bytes(cut[8:12], "big", signed=True)
    if claimed in starts[i + 2 :] or starts[-1] - 12 < claimed <= starts[-1]:
        log.pieces[i] = log.pieces[i][:at]  # its claim leads to a batch by chance, or to the end: one damage as a whole


def one_of(kind: Callable[[random.Random, Log, int], None]) -> Spoil:
    """A kind of `batch_damage`, which spoils one batch."""

    def spoil(chance: random.Random, log: Log) -> None:
        i = chance.randrange(1, len(log.pieces) - 2)
        if i not in log.touched:
            log.touched.add(i)
            kind(chance, log, i)

    spoil.__name__ = kind.__name__
    return spoil


ONE_BATCH = [one_of(kind) for kind in batch_damage.KINDS]
KINDS: list[Spoil] = [*ONE_BATCH, page, hole, foreign]


# ---- what must hold


def write(tmp_path: Path, log: Log) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir(exist_ok=True)
    path = folder / NAME
    path.write_bytes(log.data)
    return path


def read(segment: Segment, batch_bytes: int) -> tuple[list[Any], int, int]:
    """(records, good batches, damaged bytes) of a segment, by streaming."""
    records, batches, told = [], 0, 0
    for piece in segment.stream(errors="skip", control=True, batch_bytes=batch_bytes):
        records += list(piece)
        batches += len(piece.batches)
        told += sum(piece.batches.column("size_in_bytes")) + sum(one.length for one in piece.damage) + piece.remaining
    return records, batches, told


def check_records(log: Log, truth: Rows, records: list[Any]) -> None:
    got = [record.offset for record in records]
    missing = sorted(set(log.expected()) - set(got))
    assert not missing, f"lost offsets {missing[:10]}"
    assert got == sorted(set(got)), "doubled or out of order"
    for record in records:
        assert truth.get(record.offset) == (record.key, record.value), f"made up: offset {record.offset}"


def check(log: Log, truth: Rows, path: Path, chance: random.Random) -> Report:
    segment = kafkarec.open(path)
    records, batches, told = read(segment, chance.choice([1, 700, 1 << 20]))
    check_records(log, truth, records)
    assert told == segment.size
    report = verify.verify(path.parent, sequences=chance.random() < 0.3, deep=chance.random() < 0.7)
    assert_tiles(report)
    assert report.total("batches") == batches
    assert report.state == "damaged" or not log.touched, str(report)
    assert len(str(report).splitlines()) < 60
    return report


def spoiled(chance: random.Random, source: str, kinds: list[Spoil], most: int = 4, tails: bool = False) -> Log:
    """A golden segment with one to `most` damages, and perhaps something behind its last batch."""
    log = fresh(source)
    chosen = [chance.choice(kinds) for _ in range(chance.randrange(1, most + 1))]
    if hole in chosen:
        chosen = [hole]
    # what moves other batches comes last
    for kind in sorted(chosen, key=lambda kind: kind is foreign):
        kind(chance, log)
    if tails:
        log.pieces.append(chance.choice([b"", b"", bytes(11), bytes(5000), log.pieces[0][:40]]))
        log.offsets.append([])
    mark_claimed(log)
    return log


def run(seed: str, work: Callable[[random.Random], None]) -> None:
    """One seed; what fails says which one it was."""
    try:
        work(random.Random(seed))
    except Exception as error:
        raise AssertionError(f"seed {seed!r}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("kind", [*KINDS, None], ids=lambda kind: kind.__name__ if kind else "all")
def test_untouched_batches_of_real_segments_are_recovered(kind: Spoil | None, tmp_path: Path) -> None:
    name = kind.__name__ if kind else "all"

    def work(chance: random.Random) -> None:
        source = chance.choice(SOURCES)
        log = spoiled(chance, source, [kind] if kind else KINDS, 1 if kind in (page, hole) else 4, tails=True)
        check(log, rows_of(real(source)[0]), write(tmp_path, log), chance)

    for seed in SEEDS:
        run(f"{name} {seed}", work)


ONE_HEADER = ["flip", "zero", "splice", "forge_length", "cut_header"]


@pytest.mark.parametrize(
    ("kind", "begin"),
    [*((kind, 10_000) for kind in ONE_HEADER), *((kind, 0) for kind in ONE_HEADER)],
    ids=lambda value: {10_000: "below", 0: "around"}.get(value, value),
)
def test_values_that_are_a_real_brokers_batches_stay_values(kind: str, begin: int, tmp_path: Path) -> None:
    """A topic of archived batches: each value is a whole batch of another log, with a checksum that holds. Their
    offsets are below those of the log, or all around them."""

    def work(chance: random.Random) -> None:
        log = Log([], [])
        for base in range(begin, begin + 30, 3):
            pieces, _ = real(chance.choice(SOURCES))
            values = [chance.choice(pieces)[:3000] for _ in range(3)]
            records = [builders.record(offset_delta=i, value=value) for i, value in enumerate(values)]
            log.pieces.append(builders.batch(records, base_offset=base))
            log.offsets.append([base, base + 1, base + 2])
        truth = rows_of(log.pieces)
        one_of(getattr(batch_damage, kind))(chance, log)
        mark_claimed(log)
        check(log, truth, write(tmp_path, log), chance)

    for seed in SEEDS:
        run(f"nested {kind} {begin} {seed}", work)


def test_bad_sectors_on_top_of_damage(tmp_path: Path) -> None:
    """EIO on some ranges of a file that is spoiled besides; nothing but the batches that touch either is lost."""

    def work(chance: random.Random) -> None:
        source = chance.choice(SOURCES[:2])
        log = spoiled(chance, source, ONE_BATCH, 2)
        data, starts = log.data, borders(log)
        bad = [range(at, at + chance.choice([1, 512, 3000])) for at in chance.sample(range(len(data)), 2)]
        pages = [range(one.start // 4096 * 4096, -(-one.stop // 4096) * 4096) for one in bad]
        # A bad sector may hide a header, and with it where the claim of a spoiled batch leads: those near are open.
        open_ = {i for i in range(len(log.pieces)) for p in pages if starts[i] < p.stop and p.start < starts[i + 1]}
        near = {i for i in open_ | log.touched for i in range(i - 1, i + 2)}
        fake = FakeFile(data, chance.choice([64, 4096, 1 << 20]), 8192, bad)
        segment = Segment(f"orders-0/{NAME}", NAME, source=fake)
        records, _, told = read(segment, 1 << 20)
        assert told == len(data)
        kept = Log(log.pieces, log.offsets, log.touched | (near if log.touched else open_))
        check_records(kept, rows_of(real(source)[0]), records)
        report = verify.verify(segment)
        assert_tiles(report)
        assert report.files[0].unreadable_bytes > 0 and "ddrescue" in str(report)

    for seed in SEEDS:
        run(f"sectors {seed}", work)


class Shrinking(FakeFile):
    """A file that somebody truncates while it is read: after so many calls only `left` bytes are there."""

    after: int = 0
    left: int = 0

    def read_at(self, position: int, length: int) -> bytes:
        if self.calls >= self.after:
            self.present = self.left
        return super().read_at(position, length)


def test_a_file_that_is_truncated_while_it_is_read() -> None:
    def work(chance: random.Random) -> None:
        source = chance.choice(SOURCES[:2])
        data = b"".join(real(source)[0])
        for verifying in (False, True):
            fake = Shrinking(data, chance.choice([64, 512, 4096]), 512)
            fake.after, fake.left = chance.randrange(60), chance.randrange(len(data))
            segment = Segment(f"orders-0/{NAME}", NAME, source=fake)
            if verifying:
                report = verify.verify(segment)
                assert_tiles(report)
                assert str(report)
                continue
            records, _, told = read(segment, chance.choice([1, 1 << 20]))
            assert told == len(data)
            truth = rows_of(real(source)[0])
            assert all(truth[record.offset] == (record.key, record.value) for record in records)

    for seed in SEEDS:
        run(f"shrinking {seed}", work)


def test_any_bytes_give_a_report(tmp_path: Path) -> None:
    """Checksums that hold over nonsense: fields forged at random and the CRC mended. Nothing but a report comes out."""

    def work(chance: random.Random) -> None:
        pieces = list(real(chance.choice(SOURCES))[0])
        for i in chance.sample(range(len(pieces)), min(5, len(pieces))):
            raw = bytearray(pieces[i])
            for _ in range(chance.choice([1, 2, 8])):
                raw[chance.randrange(17, len(raw))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            pieces[i] = builders.with_crc(bytes(raw))
        path = write(tmp_path, Log(pieces, []))
        for options in ({}, {"sequences": True, "max_decompressed_bytes": 2000}):
            report = verify.verify(path.parent, **options)
            assert_tiles(report)
            assert str(report) and report.to_json()

    for seed in SEEDS:
        run(f"forged {seed}", work)
