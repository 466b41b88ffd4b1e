"""study: its sizes are those of convert, its samples are whole batches spread over the log."""

import io
import os
import random
from itertools import pairwise
from pathlib import Path

import counted_files
import golden
import plain_logs
import pytest
from builders import flipped

import kafkarec
from kafkarec import NothingToTry, study
from kafkarec.ops.study import CODECS, Candidate, codec_and_level
from kafkarec.ops.study.sampling import sample_shares

ONE = {"codecs": ["zstd:3"], "batch_sizes": [None]}


def folder_of(path, *segments, bases=(0,)):
    return kafkarec.open(plain_logs.log(path, *zip(bases, segments, strict=True)))


def noisy(first, count, noise, seed):
    """Return `count` records of 200 bytes, of which a share is random, from the offset `first` on."""
    some = random.Random(seed)
    cut = int(200 * noise)
    rows = [(first + n, 1000 + n, b"k%d" % (n % 50), some.randbytes(cut) + bytes(200 - cut), []) for n in range(count)]
    return kafkarec.encode(rows, batch_size=4096)


def test_samples_are_whole_batches_spread_over_the_log(tmp_path, monkeypatch):
    parts = [noisy(first, 9000, 0.5, first) for first in (0, 9000, 18000)]
    log = folder_of(tmp_path / "t-0", *parts, bases=(0, 9000, 18000))
    total = sum(map(len, parts))
    readings = counted_files.counted(monkeypatch)
    assert study(log, **ONE, sample=1 << 20).pieces == 8
    found = [one for one in readings if 128 << 10 <= one.length <= (128 << 10) + 5000]
    places = []
    for path, begin, length in found:
        number = int(Path(path).stem) // 9000
        columns = kafkarec.decode(parts[number][begin : begin + length])
        assert not columns.damage and columns.remaining == 0 and len(columns)
        places.append(sum(map(len, parts[:number])) + begin)
    assert len(places) == 8 and {int(Path(one.path).stem) for one in found} == {0, 9000, 18000}
    for number, place in enumerate(places):
        assert abs(place - (2 * number + 1) * total / 16) < total / 8
    assert all(b - a >= 128 << 10 for a, b in pairwise(places))
    assert [study(log, **ONE, sample=size << 10).pieces for size in (1, 64, 300, 600)] == [2, 2, 2, 4]


@pytest.mark.parametrize("sample", [1, 64 << 10, 1 << 20, 16 << 20, 1 << 40])
@pytest.mark.parametrize(
    "sizes",
    [
        [30_000] * 2000,
        [30_000 + 1000 * (n % 7) for n in range(2000)],
        [1 << 30] * 20,
        [1 << 30] * 1000,
        [1 << 30, *[30_000] * 500],
        [0, 100, 0],
        [5 << 20],
    ],
    ids=["small", "sizes that repeat", "large", "many large", "one large", "empty", "one"],
)
def test_the_sample_is_a_budget_for_all_logs(sizes, sample):
    read = sample_shares(sizes, sample)
    least = [min(size, sample, 256 << 10) for size in sizes]
    assert all(not each or low <= each <= size for each, low, size in zip(read, least, sizes, strict=True))
    assert any(read) and sum(read) <= max(sample, max(least)) * 1.1 + max(least)
    if sum(sizes) <= sample:
        assert read == sizes
    else:
        assert sum(read) >= 0.8 * sample - max(least)


@pytest.mark.parametrize("seed", range(4))
def test_a_sample_estimates_the_whole_within_its_margin(tmp_path, seed):
    """Uniform records: the estimate is close; different halves: the margin covers the error."""
    halves = noisy(0, 10_000, 0.1, seed) + noisy(10_000, 10_000, 0.9, seed)
    for name, data, least, most in (("alike-0", noisy(0, 20_000, 0.4, seed), 0, 0.02), ("halves-0", halves, 0.1, 1)):
        log = folder_of(tmp_path / name, data)
        ([whole], [part]) = (study(log, **ONE, sample=sample).outcomes for sample in (None, 256 << 10))
        assert part.margin is not None and least < part.margin < most
        assert abs(part.share - whole.share) < max(part.margin, 0.02)


def test_damage_is_left_out_and_counted(tmp_path):
    data = noisy(0, 2000, 0.5, 1)
    good = study(folder_of(tmp_path / "good-0", data), **ONE)
    report = study(folder_of(tmp_path / "bad-0", flipped(data, len(data) // 2)), **ONE)
    assert (good.damage, report.damage) == (0, 1)
    assert report.makeup.batches == good.makeup.batches - 1
    assert abs(report.outcomes[0].share - good.outcomes[0].share) < 0.01


@pytest.mark.parametrize("kind", ["cut", "offset of the last batch", "first batch"])
def test_damage_at_an_end_leaves_the_sample_spread(tmp_path, kind):
    """Of 17 MB, half of which are zeros and half random: a sample of the beginning alone would say 2 %."""
    data = bytearray(noisy(0, 42_000, 0.0, 1) + noisy(42_000, 42_000, 1.0, 2))
    folder_of(tmp_path / "whole-0", bytes(data))
    if kind == "cut":
        del data[-1000:]
    elif kind == "first batch":
        data[:100] = bytes(range(100, 200))
    else:
        last = list(kafkarec.scan(data))[-1]["position"]
        data[last] ^= 0x40
    folder_of(tmp_path / "hurt-0", bytes(data))
    wanted, report = (study(tmp_path / name, **ONE, sample=512 << 10) for name in ("whole-0", "hurt-0"))
    assert report.pieces == wanted.pieces and report.sampled >= 512 << 10
    share = wanted.outcomes[0].share
    assert share > 0.4 and report.outcomes[0].share == pytest.approx(share, abs=0.1)


def test_old_magics_are_measured_as_magic_2(tmp_path):
    rows = [(n, 1000 + n, b"k", b"value %d" % n, []) for n in range(100)]
    old = kafkarec.encode(rows, magic=1)
    report = study(folder_of(tmp_path / "old-0", old), codecs=["none", "gzip"], batch_sizes=[None, 1 << 20])
    by_wish = {outcome.candidate: outcome.size for outcome in report.outcomes}
    assert by_wish[Candidate("none", None, 1 << 20)] == len(kafkarec.encode(rows, batch_size=1 << 20)) < len(old)
    assert by_wish[Candidate("gzip", 6, 1 << 20)] < by_wish[Candidate("none", None, 1 << 20)]


def test_the_best_settings_are_not_beaten_in_both_size_and_time(tmp_path):
    report = study(folder_of(tmp_path / "t-0", noisy(0, 3000, 0.3, 7)))
    for one in report.outcomes:
        beaten = any(
            (other.share < one.share and (other.write_rate or 0) >= (one.write_rate or 0))
            or (other.share <= one.share and (other.write_rate or 0) > (one.write_rate or 0))
            for other in report.outcomes
        )
        assert one.is_best is not beaten
    assert report.smallest is min(report.outcomes, key=lambda one: one.share)
    assert len({(one.candidate.compression, one.candidate.level) for one in report.outcomes}) == len(CODECS)


@pytest.mark.parametrize("data", [b"", bytes(5000), os.urandom(5000)], ids=["empty", "zeros", "noise"])
def test_a_log_without_records_has_no_estimates(tmp_path, data):
    with pytest.raises(NothingToTry, match=f"no good batch in {len(data)} bytes"):
        study(folder_of(tmp_path / "t-0", data))


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("zstd", ("zstd", 3)),
        ("ZSTD:9", ("zstd", 9)),
        ("gzip", ("gzip", 6)),
        ("gzip:1", ("gzip", 1)),
        ("lz4", ("lz4", 9)),
        ("none", ("none", None)),
        ("snappy", ("snappy", None)),
        ("zstd:-5", ("zstd", -5)),
        (kafkarec.Compression.ZSTD, ("zstd", 3)),
    ],
)
def test_codec_and_level(text, wanted):
    assert codec_and_level(text) == wanted


@pytest.mark.parametrize(
    "text, said",
    [
        ("brotli", "not a codec; there are none, gzip, snappy, lz4, zstd"),
        ("snappy:3", "no compression levels"),
        ("gzip:0", "levels 1 to 9"),
        ("zstd:fast", "the level is a number"),
        ("", "not a codec; there are none"),
        ("zstd:23", "-131072 to 22"),
        (4, "4 is not a codec"),
    ],
)
def test_no_such_codec_or_level(text, said):
    with pytest.raises(ValueError, match=said):
        codec_and_level(text)


def test_accepted_sources():
    folder = golden.VECTORS / "segments"
    path = folder / "all-codecs-0"
    for log in (path, kafkarec.open(path), io.BytesIO((path / f"{0:020}.log").read_bytes())):
        assert study(log, **ONE).size == 50319
    with pytest.raises(TypeError, match="several partitions; study one at a time"):
        study(folder)
