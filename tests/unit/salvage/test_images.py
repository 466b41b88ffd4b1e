"""Files without a known name that hold several logs: images of a file system, logs one behind another. All batches that
are whole in them are saved or set aside; none is put into a log to which it does not belong."""

import random
from collections import Counter

import builders
import pytest
from crc32c import crc32c
from plain_logs import batch
from salvage_runs import LOGS

import kafkarec
from kafkarec import salvage

_BLOCK = 4096


def scanned(data):
    """What a search of each byte finds: batches of magic 2 with a right checksum, not those within others. Without the
    bytes that no checksum covers."""
    found, at = [], 0
    while (at := data.find(b"\2", at + 16) - 16) >= 0:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        fits = 61 <= size <= min(len(data) - at, 1 << 20)
        if fits and crc32c(data[at + 21 : at + size]) == int.from_bytes(data[at + 17 : at + 21], "big"):
            found.append(data[at + 17 : at + size])
            at += size
        else:
            at += 1
    return found


def saved(out):
    return Counter(one for path in out.rglob("*.log") for one in scanned(path.read_bytes()))


def extents(data, chance):
    """The blocks of a file, the last one with zeros, in pieces of 1 to 16."""
    data += bytes(-len(data) % _BLOCK)
    found, at = [], 0
    while at < len(data):
        size = _BLOCK * chance.choice((1, 1, 2, 4, 16))
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("seed", range(6))
def test_an_image_with_logs_of_kafka(tmp_path, seed):
    """In one piece each, or in extents in any order, with other data and free blocks between."""
    chance = random.Random(seed)
    files = [extents(path.read_bytes(), chance) for path in chance.sample(LOGS, min(6, len(LOGS)))]
    pieces = [piece for file in files for piece in file]
    if seed % 2:
        chance.shuffle(pieces)
    between = (bytes(_BLOCK), chance.randbytes(_BLOCK), b"", b"")
    image = tmp_path / "disk.img"
    image.write_bytes(b"".join(piece + chance.choice(between) for piece in pieces))
    report = salvage(image, tmp_path / "out")
    expected = Counter(scanned(image.read_bytes()))
    assert expected.total() > 50
    assert not expected - saved(tmp_path / "out")
    counted = sum(one.batches for one in report.partitions)
    assert counted + sum(one.batches for each in report.partitions for one in each.set_aside) >= expected.total()


def pieces(report):
    return [(one.start_offset, one.next_offset) for one in report.partitions]


def salvaged(tmp_path, *parts):
    (tmp_path / "found").write_bytes(b"".join(parts))
    return salvage(tmp_path / "found", tmp_path / "out")


def produced(base, sequence):
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence, "base_offset": base}
    return batch(count=2, last_offset_delta=1, **fields)


PIECES = {
    "offsets that fall; then each gap at damage may be between two logs": (
        [batch(0, 5), batch(5, 5), bytes(900), batch(100, 5), bytes(900), batch(7, 3), batch(10, 5)],
        [(0, 10), (100, 105), (7, 15)],
    ),
    "damage and one wrong leader epoch are no other log": (
        [batch(0, 5), bytes(900), batch(9, 5), batch(14, 5, epoch=3), batch(19, 5)],
        [(0, 24)],
    ),
    "leader epochs that fall": (
        [batch(0, 5, epoch=4), batch(5, 5, epoch=4), batch(70, 5, epoch=1), batch(75, 5, epoch=1)],
        [(0, 10), (70, 80)],
    ),
    "sequences that fall": (
        [produced(0, 0), produced(2, 2), produced(4, 4), produced(40, 0), produced(42, 2)],
        [(0, 6), (40, 44)],
    ),
}


@pytest.mark.parametrize("why", PIECES)
def test_where_another_log_begins(why, tmp_path):
    parts, expected = PIECES[why]
    report = salvaged(tmp_path, *parts)
    assert pieces(report) == expected
    assert ("this file holds 3 pieces of several logs" in str(report)) is (len(expected) == 3)


def test_no_marker_is_written_into_what_may_be_two_logs(tmp_path):
    """With --topic and --partition it is one log, and its transaction is ended where the marker was lost."""
    data = [batch(at, 1, transaction=9, base_sequence=seq) for at, seq in ((0, 0), (2, 1))]
    lost = bytes(builders.end_marker(1, 9, commit=True)[:-1]) + b"\xff"
    report = salvaged(tmp_path, data[0], lost, data[1])
    assert not report.partitions[0].markers and report.partitions[0].batches == 2
    named = salvage(tmp_path / "found", tmp_path / "named", topic="orders", partition=0)
    assert len(named.partitions[0].markers) == 1


def test_a_batch_whose_offset_is_in_another_piece_is_set_aside(tmp_path):
    broken = b"\xd2" + batch(5, 5)[1:]
    report = salvaged(tmp_path, batch(50, 5), batch(0, 5), broken, batch(5, 5))
    assert pieces(report) == [(50, 55), (0, 10)]
    aside = [each for one in report.partitions for each in one.set_aside]
    assert [one.reason for one in aside] == ["offset_out_of_order"]
    assert scanned((tmp_path / "out" / aside[0].saved_as).read_bytes()) == scanned(broken)
    assert kafkarec.verify(tmp_path / "out").exit_status() == 0
