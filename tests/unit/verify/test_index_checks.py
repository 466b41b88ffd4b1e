"""The checks of .index and .timeindex: entries that are as usual are compared a step at once, all others one by one."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import NamedTuple

import builders
import plain_logs
import pytest

import kafkarec
from kafkarec.ops.verify import side_file_checks
from kafkarec.ops.verify.findings import SideFileFindings
from kafkarec.ops.verify.side_file_checks import OffsetIndexCheck, TimeIndexCheck
from kafkarec.read.walk import HEADERS, BytesSegment, walk, walk_request
from kafkarec.sidecars import offset_index, time_index
from kafkarec.sidecars.index_entries import Entries

pytestmark = pytest.mark.core


class Batch(NamedTuple):
    data: bytes
    position: int
    last: int
    max_timestamp: int | None


class Indexes(NamedTuple):
    offsets: offset_index.OffsetIndex
    times: time_index.TimeIndex


def random_batches(random):
    """As a broker has them, mostly: sometimes with gaps, an offset that falls, wrappers, no timestamps."""
    batches, position, next_offset, now = [], 0, 100, 1_000
    odd = random.random() < 0.4
    for _ in range(random.randint(1, 30)):
        count, base = random.randint(1, 5), next_offset
        if odd and random.random() < 0.1:
            base = max(100, base + random.choice((-3, -1, 2, 40)))
        last, now = base + count - 1, now + random.randint(-20, 60)
        if odd and random.random() < 0.2:
            messages = [builders.message(offset=offset, timestamp=now) for offset in range(count)]
            batch = Batch(builders.wrapper(messages, offset=last, timestamp=now), position, last, now)
        else:
            time = None if odd and random.random() < 0.1 else now
            value = bytes(random.randint(0, 9000))
            data = plain_logs.batch(
                base, 1, last_offset_delta=count - 1, value=value, max_timestamp=-1 if time is None else time
            )
            batch = Batch(data, position, last, time)
        batches.append(batch)
        position, next_offset = position + len(batch.data), last + 1
    return batches


def random_indexes(random, batches):
    """What a broker writes for the batches; then, half of the time, with a few fields changed or entries shuffled."""
    offsets, times, largest = [], [], -1
    for batch in batches:
        grew = batch.max_timestamp is not None and batch.max_timestamp > largest
        largest = max(largest, batch.max_timestamp or -1)
        if random.random() < 0.7:
            offsets.append([batch.last, batch.position])
            if grew:
                times.append([largest, batch.last])
    if not times or times[-1][0] < largest:  # as a broker does when it closes a segment
        times += [[largest, batch.last] for batch in batches if batch.max_timestamp == largest][:1]
    for entries in (offsets, times) if random.random() < 0.6 else ():
        for _ in range(random.choice((0, 1, 3)) if entries else 0):
            entry = random.choice(entries)
            field = random.randrange(2)
            entry[field] = max(100, entry[field] + random.choice((-5000, -7, -1, 1, 2, 9, 7000)))
        if random.random() < 0.1:
            random.shuffle(entries)
    zeros = bytes(random.choice((0, 0, 120)))
    return Indexes(
        offset_index.read(offset_index.write(map(tuple, offsets), 100) + zeros, 100),
        time_index.read(time_index.write(map(tuple, times), 100) + zeros, 100),
    )


def found(indexes, pieces):
    findings = SideFileFindings(str), SideFileFindings(str)
    offsets, times = (
        OffsetIndexCheck(indexes.offsets, partial(findings[0].report, "i")),
        TimeIndexCheck(indexes.times, partial(findings[1].report, "t")),
    )
    everything = BytesSegment(b"".join(batch.data for piece in pieces for batch in piece))
    end = 0
    for piece in pieces:
        begin, end = end, end + sum(len(batch.data) for batch in piece)
        for step in walk([everything], walk_request(HEADERS), start=begin, stop=end):
            offsets.add(step)
            times.add(step)
    offsets.finish(end, 9000, True)
    times.finish(end, 9000, True)
    return [*findings[0], *findings[1]]


@pytest.mark.parametrize("seed", range(4))
def test_steps_and_single_entries_give_the_same_findings(seed, monkeypatch):
    random = Random(seed)
    with_findings = 0
    for _ in range(250):
        batches = random_batches(random)
        indexes = random_indexes(random, batches)
        cut = random.randrange(len(batches))
        splits = [batches], [one for one in (batches[:cut], batches[cut:]) if one], [[batch] for batch in batches]
        at_once = [found(indexes, pieces) for pieces in splits]
        with monkeypatch.context() as patched:
            patched.setattr(side_file_checks.IndexCheck, "_take_usual", lambda *_: False)
            one_by_one = found(indexes, splits[0])
        assert at_once == [one_by_one] * 3
        with_findings += bool(one_by_one)
    assert 50 < with_findings < 220  # both kinds are tried


@pytest.mark.parametrize("zeros, severity", [(1200, "anomaly"), (0, "error")])
def test_entries_that_a_truncation_leaves(tmp_path, zeros, severity):
    """They ascend behind the valid ones, and are of batches that are gone (AbstractIndex.truncateToEntries). A broker
    that is stopped trims its indexes; so zeros are those of one that runs, or was killed and rebuilds them."""
    batches = [plain_logs.batch(at, 1, max_timestamp=1_000 + at) for at in range(10)]
    size = len(batches[0])
    entries = [(2, 2 * size), (3, 4 * size), (6, 5 * size + 7)]
    (tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    (tmp_path / f"{0:020}.index").write_bytes(offset_index.write(entries, 0) + bytes(zeros))
    (tmp_path / f"{0:020}.timeindex").write_bytes(time_index.write([(1_002, 2), (1_003, 6)], 0) + bytes(zeros))
    report = kafkarec.verify(tmp_path)
    found = [(one.kind, one.severity) for one in report.findings]
    assert found == [("index_offset", severity), ("index_position", severity), ("time_largest", severity)]
    assert report.exit_status() == (severity == "error")


def test_the_indexes_that_kafkarec_writes_are_never_read_entry_by_entry(tmp_path, monkeypatch):
    """A log of many batches with an entry for nearly each: the work is done on columns."""
    with kafkarec.SegmentWriter(tmp_path, assign_offsets=True, index_interval_bytes=1) as writer:
        for at in range(500):
            writer.append(kafkarec.encode([{"value": bytes(100), "timestamp": 1_000 + at}]))
    assert len(offset_index.read(next(tmp_path.glob("*.index")).read_bytes(), 0)) > 400
    monkeypatch.setattr(Entries, "__getitem__", only_the_last(Entries.__getitem__))
    assert kafkarec.verify(tmp_path).findings == ()


def test_offsets_of_more_than_64_bits(tmp_path):
    """The base offset of the file's name and the relative one of an entry: the sum is compared, and does not fail."""
    base = 2**63 - 2
    (tmp_path / f"{base:020}.log").write_bytes(kafkarec.encode([(base, 1, b"k", b"v", [])]))
    (tmp_path / f"{base:020}.index").write_bytes(offset_index.write([(base, 0), (base + 200, 50)], base))
    (tmp_path / f"{base:020}.timeindex").write_bytes(time_index.write([(1, base), (2, base + 2**31 - 1)], base))
    report = kafkarec.verify(tmp_path)
    assert {one.kind for one in report.findings} >= {"end_was_longer"} and not report.damage
    assert f"up to {base + 2**31 - 1}" in str(report)


def only_the_last(read):
    def checked(self, number):
        assert number in (-1, len(self) - 1)
        return read(self, number)

    return checked


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_the_fields_of_the_entries(seed):
    random = Random(seed)
    for count in (0, 1, 2, 1023, 1024, 1025, 3000):
        pairs = [(random.randrange(1 << 31), random.randrange(1 << 31)) for _ in range(count)]
        for module in (offset_index, time_index):
            index = module.read(module.write(pairs, 0), 0)
            entries = list(index)
            assert list(zip(*index.columns(), strict=True)) == entries
            assert module.read(index.used, 2**63 - 1).columns() == index.columns()
            falls = [n for n in range(1, len(entries)) if not follows(module, entries[n], entries[n - 1])]
            assert list(index.falls(index.columns())) == falls
            assert index.rising == (falls[0] if falls else len(entries))


def follows(module, entry, previous):
    if module is offset_index:
        return bool(entry.offset > previous.offset and entry.position > previous.position)
    return bool(entry.timestamp > previous.timestamp and entry.offset >= previous.offset)
