"""errors="skip" with damage at random places: no untouched batch is lost, doubled or invented."""

from __future__ import annotations

import random
from typing import Any

import builders
import golden
import pyarrow as pa
import pytest
import reading
from batch_damage import KINDS, Log, cut_header, flip, forge_length, make_log, mark_claimed, splice, zero
from long_run import LONG, fewer

import kafkarec

pytestmark = pytest.mark.core

SEEDS = range(2000 if LONG else fewer(60, 20))


def spoil(rng: random.Random, log: Log, kinds: list) -> None:
    """Apply one to five damages, not to the first batch nor to the last two: other tests cover the ends."""
    last = len(log.pieces) - 2
    for i in rng.sample(range(1, last), rng.randrange(1, 6)):
        log.touched.add(i)
        rng.choice(kinds)(rng, log, i)
    mark_claimed(log)


@pytest.mark.parametrize(
    ("inner_base", "prefix", "inner_count"),
    [
        *((base, b"", count) for base in (0, 4, 7, 389, 10**6) for count in (1, 3)),
        # after a prefix, an offset within the lost range (3 to 5) does not show that the batch is part of a value
        *((base, b"\x00\x00\x00\x00\x07", 1) for base in (0, 7, 389, 10**6)),
    ],
)
def test_batches_in_values_are_no_batches_of_the_log(inner_base: int, prefix: bytes, inner_count: int) -> None:
    """Whatever their offsets are, also when the outer header is destroyed, and also after a schema id."""
    batches = (builders.good_batch(2, base_offset=inner_base + 2 * i) for i in range(inner_count))
    inner = prefix + b"".join(batches)
    outer = [
        builders.batch([builders.record(offset_delta=i, value=inner) for i in range(3)], base_offset=base)
        for base in (0, 3, 6)
    ]
    spoiled = [
        builders.patched(outer[1], 8, (10**7).to_bytes(4, "big")),
        builders.patched(outer[1], 16, b"\x07"),
        outer[1][:9] + outer[1][14:],
        outer[1][30:],
        bytes(61) + outer[1][61:],
    ]
    for one in spoiled:
        skipped = decode_file(outer[0] + one + outer[2], restore=False)
        assert [record.offset for record in skipped] == [0, 1, 2, 6, 7, 8]
        assert [(damage.position, damage.length) for damage in skipped.damage] == [(len(outer[0]), len(one))]


def test_length_prefixed_batches_are_found() -> None:
    """An archive of [int32 length][batch]: damage between batches, which are no part of a value."""
    batches = [builders.good_batch(3, base_offset=3 * i) for i in range(4)]
    archive = b"".join(len(batch).to_bytes(4, "big") + batch for batch in batches)
    skipped = kafkarec.decode(archive, errors="skip")
    assert [record.offset for record in skipped] == list(range(12))
    assert [damage.length for damage in skipped.damage] == [4] * 4


def decode_file(data: bytes, **options: Any) -> kafkarec.RecordColumns:
    """Decode as a file: in buffers offsets may fall, so batches in values may be indistinguishable."""
    return reading.decode_file(data, "a.log", errors="skip", **options)


def assert_recovers(log: Log) -> kafkarec.RecordColumns:
    data = log.data
    skipped = decode_file(data)
    reading.assert_tiles(data, skipped)
    rows = [record.offset for record in skipped]
    missing = set(log.expected()) - set(rows)
    assert not missing, f"lost offsets {sorted(missing)[:10]}, damage {skipped.damage}"
    assert rows == sorted(set(rows)), "doubled or out of order"
    whole = {offset for offsets in log.offsets for offset in offsets}
    assert set(rows) <= whole, "invented records"
    return skipped


@pytest.mark.parametrize("kind", [*KINDS, None], ids=lambda kind: kind.__name__ if kind else "all")
def test_untouched_batches_are_recovered(kind: object) -> None:
    name = kind.__name__ if kind else "all"
    for seed in SEEDS:
        rng = random.Random(f"{name} {seed}")
        log = make_log(rng)
        spoil(rng, log, [kind] if kind else KINDS)
        try:
            assert_recovers(log)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("kind", [flip, zero, splice, forge_length, cut_header], ids=lambda kind: kind.__name__)
def test_batches_in_values_add_no_records(kind: object) -> None:
    """A topic of archived batches with damage around them."""
    nested = builders.good_batch(2, base_offset=0)
    for seed in SEEDS:
        rng = random.Random(f"nested {kind.__name__} {seed}")
        log = make_log(rng, 12, nested=nested)
        spoil(rng, log, [kind])
        try:
            assert_recovers(log)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_damaged_batch_with_later_looking_batches_inside_is_skipped_whole() -> None:
    nested = builders.good_batch(2, base_offset=5_000) + builders.good_batch(2, base_offset=5_002)
    outer = builders.batch(builders.records(3, value=nested), base_offset=1)
    spoiled = outer[:-1] + bytes([outer[-1] ^ 1])
    data = builders.good_batch(1) + spoiled + builders.good_batch(1, base_offset=4)
    skipped = kafkarec.decode(data, errors="skip")
    assert [record.offset for record in skipped] == [0, 4]
    [damage] = skipped.damage
    assert (damage.position, damage.length) == (len(builders.good_batch(1)), len(outer))
    assert (damage.lost_from, damage.lost_to) == (1, 3)
    assert damage.reason == "crc_mismatch"
    data = builders.good_batch(1) + spoiled
    assert [record.offset for record in kafkarec.decode(data, errors="skip")] == [0]


def test_many_damaged_lengths_lose_no_other_batch() -> None:
    """Every third batch declares a byte too many, every third has a flipped bit in its length: plausible headers with
    lengths up to the whole file must not exhaust the search's work limit."""
    one = builders.good_batch(1, base_offset=0)
    size = len(one) - 12
    for spoil_size in (lambda i: size + 1, lambda i: size ^ 1 << i * 7 % 31):
        sizes = [spoil_size(i) if i % 3 == 0 else size for i in range(3000)]
        data = b"".join(i.to_bytes(8, "big") + n.to_bytes(4, "big") + one[12:] for i, n in enumerate(sizes))
        skipped = kafkarec.decode(data, errors="skip", restore=False)
        assert [record.offset for record in skipped] == [i for i in range(3000) if i % 3]
        assert len(skipped.damage) == 1000


def test_a_length_that_ends_a_byte_before_the_end_is_not_followed() -> None:
    pieces = [builders.good_batch(2, base_offset=2 * i) for i in range(5)]
    left = len(b"".join(pieces[2:]))
    for rest in (1, 5, 9):
        pieces[2] = builders.patched(pieces[2], 8, (left - 12 - rest).to_bytes(4, "big"))
        skipped = kafkarec.decode(b"".join(pieces), errors="skip", restore=False)
        assert [record.offset for record in skipped] == [0, 1, 2, 3, 6, 7, 8, 9]


def test_damage_has_position_reason_and_lost_offsets() -> None:
    good = [builders.good_batch(5, base_offset=base) for base in (10, 15, 20)]
    middle = good[1][:70] + b"\xff" + good[1][71:]
    skipped = kafkarec.decode(good[0] + middle + good[2], errors="skip")
    [damage] = skipped.damage
    assert damage.file is None
    assert (damage.position, damage.length) == (len(good[0]), len(good[1]))
    assert damage.next_position == len(good[0]) + len(good[1])
    assert (damage.lost_from, damage.lost_to) == (15, 19)
    assert damage.reason == "crc_mismatch"
    assert [record.offset for record in skipped] == [*range(10, 15), *range(20, 25)]
    assert len(skipped.batches) == 2


@pytest.mark.parametrize("at", ["first", "last"])
def test_lost_offsets_are_unknown_at_the_ends(at: str) -> None:
    good = builders.good_batch(5, base_offset=15)
    bad = good[:-1] + b"\xff"
    skipped = kafkarec.decode(bad + good if at == "first" else good + bad, errors="skip")
    [damage] = skipped.damage
    assert (damage.lost_from if at == "first" else damage.lost_to) is None
    assert len(skipped) == 5


def test_no_record_of_a_bad_batch_is_returned() -> None:
    """The first two records are intact; the batch is not."""
    parts = [*builders.records(2), builders.record(offset_delta=2, length=300)]
    data = builders.batch(parts) + builders.good_batch(1, base_offset=3)
    skipped = kafkarec.decode(data, errors="skip")
    assert [record.offset for record in skipped] == [3]
    assert [damage.reason for damage in skipped.damage] == ["record_length_invalid"]


def test_codec_errors_and_exceeded_limits_are_damage() -> None:
    bad = [
        builders.batch(codec="lz4", payload=b"no frame", count=1, base_offset=1),
        builders.batch(codec=6, payload=b"?", count=1, base_offset=2),
        builders.batch([builders.record(value=bytes(100_000))], codec="gzip", base_offset=3),
    ]
    data = builders.good_batch(1) + b"".join(bad) + builders.good_batch(1, base_offset=4)
    skipped = kafkarec.decode(data, errors="skip", max_decompressed_bytes=10_000)
    assert [record.offset for record in skipped] == [0, 4]
    assert [damage.reason for damage in skipped.damage] == [
        "payload_corrupt",
        "unsupported_codec",
        "limit_exceeded",
    ]
    reading.assert_tiles(data, skipped)


@pytest.mark.parametrize("tail", [1, 11, 12, 16, 17, 60])
def test_a_cut_last_batch_is_the_tail_and_no_damage(tail: int) -> None:
    good = builders.good_batch(3)
    skipped = kafkarec.decode(good + builders.good_batch(9, base_offset=3)[:tail], errors="skip")
    assert skipped.damage == ()
    assert skipped.remaining == tail
    assert len(skipped) == 3


def test_a_length_beyond_the_end_hides_no_later_batch() -> None:
    good = [builders.good_batch(3, base_offset=base) for base in (0, 3, 6)]
    forged = builders.patched(good[1], 8, (10**6).to_bytes(4, "big"))
    skipped = kafkarec.decode(good[0] + forged + good[2], errors="skip", restore=False)
    assert [record.offset for record in skipped] == [0, 1, 2, 6, 7, 8]
    [damage] = skipped.damage
    assert (damage.position, damage.length, damage.reason) == (
        len(good[0]),
        len(good[1]),
        "length_beyond_end",
    )
    raising = kafkarec.decode(good[0] + forged + good[2])
    assert raising.remaining == len(forged + good[2])


GOOD_BATCH = builders.good_batch(3)
BETWEEN = {
    "garbage": b"garbage!!" * 3,
    "zeros": bytes(50),
    "a batch with a bad checksum": GOOD_BATCH[:-1] + b"\xff",
    "a too short length": builders.patched(GOOD_BATCH, 8, (40).to_bytes(4, "big")),
    "a too long length": builders.patched(GOOD_BATCH, 8, (300).to_bytes(4, "big")),
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_batches_whose_offsets_restart_are_recovered(kind: str) -> None:
    """Archived producer batches all begin at offset 0: below the last good offset, but followed by another batch."""
    data = GOOD_BATCH * 2 + BETWEEN[kind] + GOOD_BATCH * 3
    skipped = kafkarec.decode(data, errors="skip", restore=False)
    assert [record.offset for record in skipped] == [0, 1, 2] * 5
    assert sum(damage.length for damage in skipped.damage) == len(BETWEEN[kind])


def test_two_logs_in_sequence_are_both_recovered() -> None:
    log = [builders.good_batch(3, base_offset=3 * i) for i in range(4)]
    skipped = kafkarec.decode(b"".join([*log[:3], b"junkjunk", log[3], *log]), errors="skip")
    assert [record.offset for record in skipped] == [*range(12), *range(12)]


def test_garbage_and_zeros_alone_have_no_batches() -> None:
    for data in (b"text instead of batches, a good deal of it " * 9, bytes(4096), b"\xff" * 500):
        skipped = kafkarec.decode(data, errors="skip")
        assert len(skipped) == 0
        reading.assert_tiles(data, skipped)
    assert kafkarec.decode(b"", errors="skip").damage == ()


def test_the_batches_table_lists_every_good_batch_despite_filters() -> None:
    data = golden.vector("v2-txn-sequence").bytes
    for options in ({}, {"control": True}, {"isolation": "read_committed"}):
        columns = kafkarec.decode(data, errors="skip", **options)
        assert pa.table(columns.batches).equals(pa.table(kafkarec.scan(data)))


def test_scan_skips_framing_damage_and_keeps_the_rest() -> None:
    good = builders.good_batch(2)
    table = kafkarec.scan(good + b"garbage, garbage, garbage" + builders.good_batch(1, base_offset=2), errors="skip")
    assert [row["base_offset"] for row in reading.batch_rows(table)] == [0, 2]
    assert [damage.length for damage in table.damage] == [25]


def test_random_damage_in_real_segments() -> None:
    data = golden.partition_bytes("all-codecs-0")
    everything = {(r.offset, r.key, r.value) for r in kafkarec.decode(data)}
    rows = reading.batch_rows(kafkarec.scan(data))
    for seed in SEEDS:
        rng = random.Random(seed)
        start = rng.randrange(len(data) - 200)
        length = rng.choice([1, 16, 200, 5000])
        spoiled = builders.patched(data, start, rng.randbytes(length))[: len(data)]
        skipped = kafkarec.decode(spoiled, errors="skip")
        reading.assert_tiles(spoiled, skipped)
        recovered = [(r.offset, r.key, r.value) for r in skipped]
        intact = [r for r in rows if r["position"] + r["size_in_bytes"] <= start or r["position"] >= start + length]
        expected = {o for row in intact for o in range(row["base_offset"], row["next_offset"])}
        assert expected <= {row[0] for row in recovered}, f"seed {seed}"
        assert len(recovered) == len(set(recovered))
        assert {row for row in recovered if row[0] in expected} <= everything


def test_chance_candidates_in_compressed_bytes_do_not_exhaust_the_search() -> None:
    """In a large input a random size field is often plausible, and each such CRC would read megabytes.

    40 forged lengths in 64 MB of incompressible batches: the search reads 16 KB byte by byte each time.
    """
    rng = random.Random(7)
    one = builders.batch([builders.record(value=rng.randbytes(16_000))])
    count = 4000
    pieces = [builders.patched(one, 0, base.to_bytes(8, "big")) for base in range(count)]
    spoiled = set(rng.sample(range(1, count - 1), 40))
    for i in spoiled:
        pieces[i] = builders.patched(pieces[i], 8, (len(one) // 2).to_bytes(4, "big"))
    skipped = kafkarec.decode(b"".join(pieces), errors="skip", columns=["offset"], restore=False)
    assert [record.offset for record in skipped] == [i for i in range(count) if i not in spoiled]
    assert sum(damage.length for damage in skipped.damage) == 40 * len(one)
