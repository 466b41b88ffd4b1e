"""Files are read through windows: the same results as for bytes in memory, whatever the window; bytes
that cannot be read are damage with their byte range, and all others are read."""

import os
import random

import builders
import golden
import hurt_logs
import pytest
import reading
from fake_file import FakeFile, read
from long_run import CORE, fewer
from paths import SEGMENTS
from plain_logs import batch, batches

import kafkarec

pytestmark = pytest.mark.core

WINDOWS = [1, 61, 64, 200, 5000, 1 << 20]


def cases(window, *more):
    """Return golden files for a window: all, or in the core subset every ninth, different files for each window."""
    files = [*golden.vectors(), *more, *golden.segment_files()]
    return files[WINDOWS.index(window) :: 9] if CORE else files


def outcome(make):
    """Return rows, batches, damage and tail, or the error."""
    try:
        decoded = make()
    except kafkarec.KafkaRecordError as error:
        return type(error), str(error), error.reason, error.position, error.next_position
    return reading.arrow_rows(decoded), reading.arrow_rows(decoded.batches), decoded.damage, decoded.remaining


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_every_vector_through_every_window(window, errors):
    for case in cases(window, *golden.invalid()):
        wanted = outcome(lambda case=case: reading.decode_file(case.bytes, control=True, errors=errors))
        assert outcome(lambda case=case: read(FakeFile(case.bytes, window), errors=errors)) == wanted, case


@pytest.mark.parametrize("window", WINDOWS)
def test_scans_through_every_window(window):
    for case in cases(window):
        [scanned] = reading.scan_pieces(case.bytes, whole=True)
        for skip_bytes in (0, 100, 1 << 20):
            fake = FakeFile(case.bytes, window, skip_bytes)
            table = reading.scan(fake)
            assert reading.arrow_rows(table) == reading.arrow_rows(scanned), case


def test_a_scan_of_large_batches_fetches_only_their_headers():
    data = 60 * b"".join(batch(offset, 1, value=bytes(20_000)) for offset in range(50))
    fake = FakeFile(data, 1 << 20, 8192)
    assert len(reading.scan(fake)) == 3000
    assert fake.fetched < 2 * (1 << 20) + 3000 * 64


@pytest.mark.parametrize("seed", range(fewer(40, 20)))
def test_random_damage_through_random_windows(seed):
    """Damage, resynchronisation and tails do not depend on where a window ends."""
    chance = random.Random(seed)
    [part] = hurt_logs.damaged(chance, hurt_logs.written_log(chance), chance.randrange(1, 4))
    data = part.data + bytes(chance.choice([0, 0, 5, 300]))
    wanted = outcome(lambda: reading.decode_file(data, control=True, errors="skip"))
    for window in (64, chance.randrange(100, 3000), 1 << 20):
        assert outcome(lambda window=window: read(FakeFile(data, window), errors="skip")) == wanted


@pytest.mark.parametrize("length", [1, 10, 700, 9000])
def test_only_batches_with_an_unreadable_byte_are_lost(length):
    [segment] = hurt_logs.golden_log(SEGMENTS / "all-codecs-0").segments
    data = hurt_logs.stored(segment).data
    for start in range(50, len(data) - length, 977):
        bad = range(start, start + length)
        decoded = read(FakeFile(data, 1 << 20, 8192, [bad]), columns=["offset"], errors="skip")
        kept = [
            offset
            for batch in segment.batches
            if batch.start + len(batch.raw) <= bad.start or batch.start >= bad.stop
            for offset, _ in batch.rows
        ]
        assert decoded.column("offset") == kept
        assert {one.reason for one in decoded.damage} == {"unreadable"}


@pytest.mark.parametrize("present", [0, 1, 61, 5000, 12_345])
def test_a_file_that_shrinks_is_damage_from_there_on(present):
    data = golden.partition_bytes("all-codecs-0")
    decoded = read(FakeFile(data, 256, 64, present=present), errors="skip")
    whole = [b for b in kafkarec.scan(data) if b["position"] + b["size_in_bytes"] <= present]
    assert reading.arrow_rows(decoded.batches) == whole
    assert {one.reason for one in decoded.damage} == {"unreadable"}
    assert "shorter now" in decoded.damage[0].detail
    reading.assert_tiles(data, decoded)


def test_more_bytes_than_were_asked_for_are_refused():
    class Broken(FakeFile):
        def read_at(self, position, length):
            return b"x" * (length + 1)

    with pytest.raises(ValueError, match="returned"):
        read(Broken(golden.partition_bytes("all-codecs-0")))


def test_a_large_batch_is_checked_before_it_is_held():
    """From 64 windows on the checksum is computed piece by piece, so a forged length takes no memory."""
    good = batch(5, 2, value=bytes(range(256)) * 40)
    assert len(good) > 64 * 64
    decoded = read(FakeFile(good + good, 64), errors="skip")
    assert len(decoded) == 4 and not decoded.damage
    spoiled = builders.patched(good, len(good) - 9, b"\xff")
    decoded = read(FakeFile(spoiled + good, 64), errors="skip")
    assert [one.reason for one in decoded.damage] == ["crc_mismatch"] and len(decoded) == 2


def test_files_by_descriptor(tmp_path):
    data = golden.partition_bytes("txn-0")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    with kafkarec.open(path) as segment:
        assert list(segment.read(control=True)) == list(kafkarec.decode(data, control=True))
    with kafkarec.open(path) as segment:
        os.truncate(path, 700)
        decoded = segment.read(errors="skip")
    assert decoded.damage[-1].reason == "unreadable"
    assert decoded.damage[-1].next_position == len(data)


def test_the_first_batches_of_a_scan_wait_for_no_more():
    data = b"".join(batches(20_000, 1))
    fake = FakeFile(data, 16 << 10)
    pieces = reading.scan_pieces(fake)
    assert 20 < len(next(pieces)) < 200 and fake.fetched < 64 << 10
    assert sum(len(piece) for piece in pieces) + len(next(reading.scan_pieces(data, file=None))) == 20_000
    one = next(kafkarec.open(FakeFile(data, 16 << 10)).batches())
    assert one.base_offset == 0
