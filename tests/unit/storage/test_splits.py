"""Segment.splits and between: the parts of a file, read one by one, have the file's records."""

import itertools
import os
import random

import golden
import pytest

import kafkarec

pytestmark = [pytest.mark.core, pytest.mark.python]

LOGS = [path for path in sorted((golden.VECTORS / "segments").glob("*/*.log")) if path.stat().st_size]


def facts(damage):
    return [(each.position, each.length, each.reason) for each in damage]


def compare(segment, max_bytes):
    whole = segment.read(errors="skip", control=True)
    splits = segment.splits(max_bytes)
    assert splits[0][0] == 0 and splits[-1][1] == segment.size
    assert all(first[1] == second[0] for first, second in itertools.pairwise(splits))
    parts = [segment.between(*ends).read(errors="skip", control=True) for ends in splits]
    assert [record for part in parts for record in part] == list(whole)
    assert [result for part in parts for result in facts(part.damage)] == facts(whole.damage)
    assert [p for part in parts for p in part.batches.column("position")] == whole.batches.column("position")
    assert sum(part.remaining for part in parts) == whole.remaining
    return len(splits)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem.lstrip('0') or 0}")
def test_parts_are_the_whole(path):
    segment = kafkarec.open(path)
    assert compare(segment, 1 << 30) == 1
    counts = [compare(segment, size) for size in (4000, 300, 1)]
    assert counts == sorted(counts)
    assert counts[-1] > 1 or len(segment.scan()) == 1


def test_a_part_that_ends_inside_a_batch_is_damaged_and_wrong_bounds_are_refused(tmp_path):
    segment = kafkarec.open(LOGS[0])
    (begin, end), *_ = segment.splits(500)
    with pytest.raises(kafkarec.CorruptRecordError, match="the log goes on after it"):
        segment.between(begin, end - 5).read()
    with pytest.raises(ValueError, match="bytes 5 to 1 of a file"):
        segment.between(5, 1)
    with pytest.raises(ValueError, match="max_bytes 0"):
        segment.splits(0)


@pytest.mark.parametrize("seed", range(15))
def test_parts_of_a_log_with_copied_and_damaged_bytes_are_the_whole(seed, tmp_path):
    """Bytes of the log copied into it: offsets fall, and the batches after damage decide which count."""
    chance = random.Random(seed)
    data = bytearray(LOGS[seed % len(LOGS)].read_bytes())
    for _ in range(chance.randrange(1, 4)):
        at, source, size = (chance.randrange(len(data)) for _ in range(3))
        data[at:at] = data[source : source + size]
        data[chance.randrange(len(data))] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    segment = kafkarec.open(path)
    assert isinstance(segment, kafkarec.Segment) and segment.read(errors="skip").damage
    compare(segment, chance.choice([1, 500, 5000]))


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_parts_beside_a_damaged_base_offset_are_the_whole(tmp_path, bits):
    """It falls before the batch before it, or into its offsets: 634 or 633 where that one ends at 635."""
    batches = [bytearray(kafkarec.encode([(None, 0, None, b"v", [])] * 5, base_offset=5 * n)) for n in range(300)]
    batches[127][7] ^= bits
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    segment = kafkarec.open(path)
    assert isinstance(segment, kafkarec.Segment) and len(segment.read(errors="skip").restored) == 1
    assert compare(segment, 1) == 63 and compare(segment, 127 * len(batches[0])) == 1


def test_a_range_that_begins_behind_a_part():
    """Its entry of the .index is outside of the part, which has no bytes to read then and none that remain."""
    segment = kafkarec.open(golden.VECTORS / "segments" / "all-codecs-0" / f"{0:020}.log")
    assert isinstance(segment, kafkarec.Segment)
    (begin, end), *_, last = segment.splits(5000)
    part, start = segment.between(begin, end), segment.read().batches[-1]["last_offset"]
    assert segment.position_of(start) > end and part.position_of(start) == end
    for table in (part.read(start_offset=start), part.scan(start_offset=start), *part.stream(start_offset=start)):
        assert (len(table), table.remaining, table.damage) == (0, 0, ())
    assert segment.between(*last).read(start_offset=start).column("offset")[-1] == start


@pytest.mark.parametrize("cut", [1, 40])
@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_the_end_of_a_file_that_has_grown_is_no_damage(tmp_path, cut, errors):
    """A batch was half written at `end`; by now it is whole, and others follow."""
    batch = kafkarec.encode([(None, 0, None, b"value", [])], base_offset=0)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(number.to_bytes(8, "big") + batch[8:] for number in range(9)))
    end = 3 * len(batch) + cut
    with kafkarec.open(path) as log:
        part = log.between(0, end, has_grown=True)
        got = part.read(errors=errors)
        assert (len(got), got.remaining, got.damage, part.size, log.size) == (3, cut, (), end, 9 * len(batch))
        assert sum(len(table) for table in part.scan_pieces(errors=errors)) == 3
        assert len(log.between(0, end).read(errors="skip").damage) == 1


@pytest.mark.parametrize("taken", [0, 5, 60])
def test_a_part_that_is_no_longer_in_the_file(tmp_path, taken):
    """As when a broker cuts the zeros off a preallocated file, in which the part began: reading it ends."""
    path = tmp_path / "0.log"
    path.write_bytes(LOGS[0].read_bytes() + bytes(5000))
    segment = kafkarec.open(path)
    size = LOGS[0].stat().st_size
    part = segment.between(size, segment.size)
    os.truncate(path, size - taken)
    for table in (part.read(errors="skip"), part.scan(errors="skip")):
        assert len(table) == 0 and [one.reason for one in table.damage] == ["unreadable"]
    with pytest.raises(kafkarec.CorruptRecordError, match="shorter now than when it was opened"):
        part.read()
