"""Fingerprints and checksums of single batches of a file, and where its whole batches end."""

import builders
import pytest
from plain_logs import batch

import kafkarec
from kafkarec.storage import raw_batches

FIRST = batch(7, 3)
SECOND = batch(10, 3)
MESSAGES = [builders.message(magic=magic, offset=3, value=b"old") for magic in (0, 1)]


def segment(tmp_path, *pieces):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(pieces))
    return kafkarec.open(path)


@pytest.mark.parametrize("raw", [FIRST, *MESSAGES], ids=["magic 2", "magic 0", "magic 1"])
def test_a_checksum_is_valid_for_the_whole_unchanged_batch_only(tmp_path, raw):
    log = segment(tmp_path, SECOND, raw)
    start = len(SECOND)
    assert raw_batches.has_valid_checksum(log, start, log.size)
    assert not raw_batches.has_valid_checksum(log, start, log.size - 1)
    assert not raw_batches.has_valid_checksum(log, start, start + 16)
    assert not raw_batches.has_valid_checksum(log, start, log.size + 1), "the file ends before the batch"
    for changed in (builders.flipped(raw), builders.patched(raw, 16, b"\x03")):
        log = segment(tmp_path, SECOND, changed)
        assert not raw_batches.has_valid_checksum(log, start, log.size)


def test_zeros_after_the_batches_are_preallocated(tmp_path):
    log = segment(tmp_path, FIRST, SECOND, bytes(100))
    end = len(FIRST + SECOND)
    assert [raw_batches.last_frame(log, position) for position in (0, len(FIRST), end)] == [(len(FIRST), end)] * 2 + [
        (end, end)
    ]
    assert raw_batches.incomplete_end(log, end, 100, 20) is None


@pytest.mark.parametrize(
    "tail, expected",
    [
        (bytes(100), True),
        (bytes(100) + SECOND, False),
        (bytes(1 << 21), True),
        (bytes(100) + SECOND + bytes(50), False),
    ],
    ids=["zeros", "a batch behind them", "more zeros", "a batch between them"],
)
def test_zeros_that_end_a_file(tail, expected, tmp_path):
    assert raw_batches.ends_in_zeros(segment(tmp_path, FIRST, tail), len(FIRST)) is expected


@pytest.mark.parametrize(
    "broken",
    [bytes(12) + b"\1" + bytes(20), builders.patched(SECOND, 8, b"\xff"), builders.patched(SECOND, 16, b"\3")],
    ids=["no length", "a negative length", "no magic"],
)
def test_frames_do_not_lead_over_a_wrong_header(tmp_path, broken):
    log = segment(tmp_path, FIRST, broken, SECOND)
    assert raw_batches.last_frame(log, 0) is None


@pytest.mark.parametrize("left", [1, 8, 11, 12, 16, 17, 60, len(SECOND) - 1])
def test_an_incomplete_end_is_damage_with_both_lengths(tmp_path, left):
    log = segment(tmp_path, FIRST, SECOND[:left])
    found = raw_batches.incomplete_end(log, len(FIRST), left, 8)
    assert found[:7] == (log.path, len(FIRST), left, 8, None, len(FIRST) + left, "length_beyond_end")
    assert (found.expected, found.found) == (len(SECOND) if left >= 12 else None, left)
    assert ("(base offset 10)" in found.detail) == (left >= 12)
    assert found.detail.endswith(f"left {left}, the file ends in mid-batch")


@pytest.mark.parametrize("zeros, is_incomplete", [(0, False), (1, True), (11, True), (12, False), (500, False)])
def test_zeros_are_an_incomplete_end_only_where_a_batch_may_begin_so(tmp_path, zeros, is_incomplete):
    log = segment(tmp_path, FIRST, bytes(zeros))
    assert (raw_batches.incomplete_end(log, len(FIRST), zeros, 8) is not None) == is_incomplete
