"""kafkarec.open: segments, logs, data folders, ranges, lists, file objects, early close, flat memory."""

import gzip
import io
import itertools
import os
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path

import builders
import counted_files
import golden
import numpy as np
import plain_logs
import pytest
import reading
import subprocesses
import zstandard
from paths import SEGMENTS

import kafkarec
from kafkarec.logs import logs_of

pytestmark = pytest.mark.core

CODECS = SEGMENTS / "all-codecs-0" / f"{0:020}.log"


def log_of(folder):
    log = kafkarec.open(SEGMENTS / folder)
    assert isinstance(log, kafkarec.Log)
    return log


def segment_of(path, **options):
    segment = kafkarec.open(path, **options)
    assert isinstance(segment, kafkarec.Segment)
    return segment


@pytest.mark.parametrize("folder, isolation", golden.consumer_reads())
def test_a_log_reads_as_a_real_consumer(folder, isolation):
    log = log_of(folder)
    columns = [*reading.DEFAULT_COLUMNS, "partition_leader_epoch"]
    whole = log.read(isolation=isolation, columns=columns)
    pieces = log.stream(isolation=isolation, columns=columns, batch_bytes=1)
    streamed = [row for piece in pieces for row in piece.to_arrow().to_pylist()]
    assert streamed == whole.to_arrow().to_pylist()
    got = reading.arrow_rows(whole)
    assert got == golden.consumed(folder, isolation)


def test_every_way_to_read_agrees():
    for log in logs_of(kafkarec.open(SEGMENTS)):
        data = golden.partition_bytes(Path(log.path).name)
        whole = list(kafkarec.decode(data, control=True))
        assert list(log.read(control=True)) == whole
        assert list(log.read(control=True, threads=2)) == whole
        assert [record for batch in log.batches() for record in batch] == whole
        assert b"".join(bytes(batch.raw) for batch in log.batches()) == data
        assert len(log.scan()) == len(kafkarec.scan(data)) == sum(len(table) for table in log.scan_pieces())
        assert log.next_offset == kafkarec.scan(data)[-1]["next_offset"]


@pytest.mark.slow
def test_any_range_of_offsets_is_a_filter():
    """Through the indexes and without them: the same as reading everything and choosing."""
    chance = random.Random(1)
    for folder in ("txn-0", "compacted-0", "all-codecs-0", "logappend-live-0"):
        log = log_of(folder)
        every = list(log.read(control=True))
        edges = [None, -5, 0, *(chance.randrange(every[-1].offset + 5) for _ in range(25)), 2**63 - 1]
        for _ in range(60):
            low, high = chance.choice(edges), chance.choice(edges)
            wanted = [r for r in every if (low is None or r.offset >= low) and (high is None or r.offset < high)]
            result = log.read(start_offset=low, end_offset=high, control=True)
            assert list(result) == wanted, (folder, low, high)
            assert result.to_arrow().validate(full=True) is None
            pieces = log.stream(start_offset=low, end_offset=high, control=True, batch_bytes=500)
            assert [record for piece in pieces for record in piece] == wanted
            touched = [
                batch
                for batch in log.scan()
                if (low is None or batch["last_offset"] >= low) and (high is None or batch["base_offset"] < high)
            ]
            assert list(log.scan(start_offset=low, end_offset=high)) == touched


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "field, start, end",
    [pytest.param(8, 30, 99, id="batch_length"), pytest.param(23, 10, 30, id="last_offset_delta")],
)
def test_a_range_has_the_good_batches_behind_damage(tmp_path, field, start, end, threads):
    """Neither the length of a damaged batch below the range nor its last offset leaves out good ones."""
    raw = plain_logs.batches(15)
    path = tmp_path / f"{0:020}.log"
    for number, bit in itertools.product(range(10), range(32)):
        at = sum(map(len, raw[:number])) + field + bit // 8
        path.write_bytes(builders.flipped(b"".join(raw), at, 1 << bit % 8))
        pieces = kafkarec.open(path).stream(start_offset=start, end_offset=end, errors="skip", threads=threads)
        found = [offset for piece in pieces for offset in piece.column("offset")]
        good = {offset for offset in range(start, min(end, 45)) if offset // 3 != number}
        assert good <= set(found) and found == sorted(found), (number, bit)


WRAPPED = [builders.wrapper([builders.message(offset=i) for i in range(3)], offset=last) for last in range(2, 30, 3)]


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize(
    "batches, wrong",
    [
        pytest.param(plain_logs.batches(10), 2, id="no gaps"),
        pytest.param([plain_logs.batch(base, 3) for base in range(0, 50, 5)], 2, id="compacted"),
        pytest.param(WRAPPED, 1, id="wrapper messages"),
    ],
)
def test_wrong_base_offsets_do_not_end_a_range(tmp_path, batches, wrong, errors):
    """Of one batch, or of two in a row: slightly above the range, in it but with records above it, and far above."""
    path = tmp_path / f"{0:020}.log"
    positions = [0, *itertools.accumulate(map(len, batches))]
    bases = (13, 14, 99, 2**31, 2**40)
    for at, many, end, base in itertools.product(range(10), (1, wrong), (13, 14, 15, 16, 20), bases):
        spoiled = [*batches]
        for number in range(at, min(at + many, 10)):
            spoiled[number] = (base + 3 * number).to_bytes(8, "big") + batches[number][8:]
        path.write_bytes(b"".join(spoiled))
        segment = segment_of(path, restore=False)
        columns = ["offset", "batch_position"]
        rows = reading.arrow_rows(segment.read(errors=errors, columns=columns))
        found = reading.arrow_rows(segment.read(errors=errors, columns=columns, end_offset=end))
        changed = positions[at : at + many]
        good, wanted = (
            [row for row in some if row["offset"] < end and row["batch_position"] not in changed]
            for some in (found, rows)
        )
        assert good == wanted and all(row in rows for row in found), (at, many, end, base)


@pytest.mark.parametrize("magic", [1, 2])
def test_damage_above_a_range_is_none_of_it(magic, tmp_path):
    """Of wrapper messages, which have no first offset in their headers, one behind the range is read."""
    rows = [{"value": b"x" * 9, "timestamp": 1}] * 10
    parts = [kafkarec.encode(rows, base_offset=at, magic=magic, compression="gzip") for at in range(0, 50, 10)]
    broken = builders.flipped(parts[2], -9)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join([*parts[:2], broken, *parts[3:]]))
    log = kafkarec.open(path)
    for errors in ("raise", "skip"):
        found = log.read(end_offset=20, errors=errors, columns=["offset"])
        assert (found.column("offset"), found.damage) == (list(range(20)), ())
    damage = log.read(start_offset=20, end_offset=40, errors="skip").damage
    assert [(one.position, one.length) for one in damage] == [(len(parts[0] + parts[1]), len(broken))]
    with pytest.raises(kafkarec.CorruptRecordError, match="crc"):
        log.read(end_offset=21)


def test_any_range_of_times_is_a_filter():
    chance = random.Random(2)
    for folder in ("txn-0", "compacted-0", "all-codecs-0", "logappend-0"):
        log = log_of(folder)
        every = list(log.read(control=True))
        times = sorted({record.timestamp for record in every})
        for _ in range(40):
            low, high = (chance.choice([None, times[0] - 1, *times, times[-1] + 1]) for _ in range(2))
            wanted = [r for r in every if (low is None or r.timestamp >= low) and (high is None or r.timestamp < high)]
            assert list(log.read(start_timestamp=low, end_timestamp=high, control=True)) == wanted
        moment = chance.choice(times)
        expected = next(r.offset for r in every if r.timestamp >= moment)
        aware = datetime.fromtimestamp(moment // 1000, UTC).replace(microsecond=moment % 1000 * 1000)
        assert log.offset_for_timestamp(moment) == log.offset_for_timestamp(aware) == expected
        assert log.offset_for_timestamp(times[-1] + 1) is None


def test_each_log_of_a_folder_has_its_own_offset_for_a_time():
    logs = kafkarec.open(CODECS.parent.parent)
    wanted = {(log.topic, log.partition): log.offset_for_timestamp(1700000003039) for log in logs}
    assert logs.offset_for_timestamp(1700000003039) == wanted and len(set(wanted.values())) > 1
    with pytest.raises(ValueError, match="timestamp None"):
        log_of("txn-0").offset_for_timestamp(None)


def test_offsets_and_times_may_be_integers_of_other_libraries():
    log = log_of("txn-0")
    first, end, time = np.int64(5), np.int32(20), np.int64(1700000003039)
    assert list(log.read(start_offset=first, end_offset=end)) == list(log.read(start_offset=5, end_offset=20))
    assert log.offset_for_timestamp(time) == 30
    assert kafkarec.open(CODECS, partition=np.int64(7)).partition == 7


def rich_log():
    """Return a log with every magic and codec; nulls, headers, missing timestamps."""
    pieces, offset = [], 0
    for codec in builders.CODECS:
        records = [
            builders.record(
                offset_delta=i,
                timestamp_delta=(7 * i) % 5 - 2,
                key=None if i % 3 == 0 else b"k%d" % i,
                value=None if i % 4 == 1 else b"v" * i,
                headers=[(b"h%d" % j, None if j % 2 else b"x" * j) for j in range(i % 4)],
            )
            for i in range(13)
        ]
        pieces.append(builders.batch(records, codec=codec, base_offset=offset))
        offset += 13
        pieces.append(builders.message(magic=0, offset=offset, value=b"old"))
        pieces.append(builders.message(magic=1, offset=offset + 1, key=None, value=b"older"))
        offset += 2
    return b"".join(pieces)


def test_columns_are_valid_after_rows_are_removed(tmp_path):
    """Rows are removed in place: nulls, headers and end offsets are those of the remaining rows."""
    data = rich_log()
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)
    segment = segment_of(path)
    columns = [*reading.RECORD_FIELDS]
    every = reading.arrow_rows(kafkarec.decode(data, columns=columns))
    assert any(row["key"] is None for row in every) and any(row["timestamp"] is None for row in every)
    last = every[-1]["offset"]
    for low in range(0, last + 2, 2):
        for high in range(low, last + 2, 3):
            result = segment.read(start_offset=low, end_offset=high, columns=columns)
            assert reading.arrow_rows(result) == [row for row in every if low <= row["offset"] < high]
    for low in range(builders.NOW - 3, builders.NOW + 4):
        result = segment.read(start_timestamp=low, end_timestamp=low + 2, columns=columns)
        wanted = [row for row in every if row["timestamp"] is not None and low <= row["timestamp"] < low + 2]
        assert reading.arrow_rows(result) == wanted


@pytest.mark.slow
def test_a_wrong_index_loses_no_record(tmp_path):
    folder = tmp_path / "all-codecs-0"
    shutil.copytree(CODECS.parent, folder)
    every = [r.offset for r in log_of("all-codecs-0").read()]
    chance = random.Random(3)
    for spoiled in (b"", b"\0" * 8, b"\x7f" * 80, b"x" * 13, *(chance.randbytes(800) for _ in range(50))):
        (folder / f"{0:020}.index").write_bytes(spoiled)
        log = kafkarec.open(folder)
        assert [r.offset for r in log.read(start_offset=500)] == [o for o in every if o >= 500]
    log = log_of("all-codecs-0")
    times = sorted({record.timestamp for record in log.read()})
    for spoiled in (b"\x7f" * 120, b"", bytes(24), *(chance.randbytes(8 * 12) for _ in range(50))):
        (folder / f"{0:020}.timeindex").write_bytes(spoiled)
        moment = chance.choice(times)
        wanted = [r.offset for r in log.read() if r.timestamp >= moment]
        assert [r.offset for r in kafkarec.open(folder).read(start_timestamp=moment)] == wanted


def test_an_index_saves_reading(monkeypatch):
    """Reading from the middle does not fetch the first half."""
    readings = counted_files.counted(monkeypatch)
    segment = segment_of(CODECS)
    assert [record.offset for record in segment.read(start_offset=700)] == list(range(700, 865))
    assert 0 < counted_files.of_segments(readings) < segment.size * 0.4


def test_batches_are_written_unchanged(tmp_path):
    segment, data = segment_of(CODECS), CODECS.read_bytes()
    with open(tmp_path / "w", "wb") as plain, gzip.open(tmp_path / "packed", "wb") as packed:
        for batch in segment.batches():
            for file in (plain, packed):
                assert batch.write_to(file) == batch.size_in_bytes
    assert (tmp_path / "w").read_bytes() == gzip.decompress((tmp_path / "packed").read_bytes()) == data
    memory, one = io.BytesIO(), next(iter(kafkarec.batches(data)))
    assert one.write_to(memory) == one.size_in_bytes
    assert memory.getvalue() == data[: one.size_in_bytes]


def test_a_data_folder(tmp_path):
    for name in ("txn-0", "all-codecs-0"):
        shutil.copytree(SEGMENTS / name, tmp_path / name)
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-1.0123456789abcdef0123456789abcdef-delete")
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "notes.txt").write_text("mine")
    with kafkarec.open(tmp_path) as folder:
        assert isinstance(folder, kafkarec.LogDir)
        assert [(log.topic, log.partition) for log in folder] == [("all-codecs", 0), ("txn", 0)]
        assert len(folder["txn", 0].segments) == 2
        with pytest.raises(KeyError):
            folder["txn", 1]
        assert ("txn", 0) in folder and ("txn", 1) not in folder and folder["txn", 0] in folder
        assert folder.folder_file("meta.properties") == b"version=1\n"
        assert folder.folder_file("none") is None
        assert {one.name for one in folder.left_out} == {
            "txn-1.0123456789abcdef0123456789abcdef-delete",
            "notes.txt",
        }
        result = folder.read().to_arrow()
        assert result.column_names[-3:] == ["topic", "partition", "file"]
        assert set(result["topic"].to_pylist()) == {"all-codecs", "txn"}
        assert "2 partitions" in repr(folder) and "2 segments" in repr(folder["txn", 0])


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError):
        kafkarec.open(tmp_path / "no.log")
    for wrong in ({"start_offset": "1"}, {"end_offset": 2**63}, {"start_timestamp": datetime(2026, 1, 1)}):
        with pytest.raises(ValueError):
            segment_of(CODECS).read(**wrong)
    for verb in ("read", "stream", "batches"):
        with pytest.raises(TypeError, match="no such option: colour; there are check_crcs, columns"):
            getattr(segment_of(CODECS), verb)(colour="red")
    with pytest.raises(ValueError, match="batch_bytes"):
        segment_of(CODECS).stream(batch_bytes=0)
    assert len(list(segment_of(CODECS).stream(batch_bytes=2**63))) == 1
    with pytest.raises(ValueError, match="no column 'colour'"):
        segment_of(CODECS).read(columns=["colour"])
    for name, value in (("topic", 5), ("partition", "0"), ("partition", -1), ("partition", 2**31)):
        with pytest.raises(ValueError, match=f"{name} {value!r}:"):
            kafkarec.open(CODECS, **{name: value})


def test_a_file_named_without_its_folder_has_the_files_beside_it(monkeypatch):
    first, second = sorted((SEGMENTS / "txn-0").glob("*.log"))
    monkeypatch.chdir(first.parent)
    segment = kafkarec.open(first.name)
    assert segment.facts.next_batches()[0].base == int(second.stem)
    assert len(segment.transaction_evidence.snapshots()) == len([*first.parent.glob("*.snapshot")]) > 0


def test_a_cut_segment_before_another_lost_its_end(tmp_path):
    folder = tmp_path / "txn-0"
    folder.mkdir()
    first, second = sorted((SEGMENTS / "txn-0").glob("*.log"))
    for cut in (1, 5, 13, 70):
        data = first.read_bytes()[:-cut]
        (folder / first.name).write_bytes(data)
        (folder / second.name).write_bytes(second.read_bytes()[:-cut])
        log = kafkarec.open(folder)
        result = log.read(errors="skip")
        assert [(one.file, one.reason) for one in result.damage] == [(str(folder / first.name), "length_beyond_end")]
        assert "the log goes on after it" in result.damage[0].detail
        assert result.remaining > 0
        sizes = sum(row["size_in_bytes"] for row in result.batches) + sum(one.length for one in result.damage)
        assert sizes + result.remaining == log.size
        with pytest.raises(kafkarec.CorruptRecordError):
            log.read()
        alone = segment_of(folder / first.name).read(errors="skip")
        assert alone.damage == () and alone.remaining > 0


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_files_are_closed_after_their_last_user():
    before = open_files()
    segment = segment_of(CODECS)
    pieces = segment.stream(batch_bytes=1)
    next(pieces)
    assert open_files() == before + 1
    pieces.close()
    assert open_files() == before
    batches = list(segment.batches())
    assert open_files() == before
    assert [len(list(batch)) for batch in batches[:2]] and open_files() == before
    with segment:
        list(segment.read())
        assert open_files() == before + 1
    assert open_files() == before
    assert segment.source.read_at(0, 3) == CODECS.read_bytes()[:3]
    segment.close()
    assert open_files() == before
    log = log_of("txn-0")
    with pytest.raises(kafkarec.CorruptRecordError):
        segment_of(io.BytesIO(b"\xff" * 100)).read()
    log.read(isolation="read_committed")
    assert open_files() == before


@pytest.mark.slow
def test_a_large_segment_streams_in_little_memory(tmp_path):
    """192 MB with two claimed lengths of 128 MB, one of a batch that is restored: the peak stays below 48 MB."""
    batch = plain_logs.batch(0, 100, value=b"x" * 150)
    forged = builders.patched(batch, 8, (1 << 27).to_bytes(4, "big"))
    bad = builders.patched(forged, 100, b"!")
    count = (192 << 20) // len(batch)
    path = tmp_path / f"{0:020}.log"
    with open(path, "wb") as file:
        for i in range(count):
            file.write((100 * i).to_bytes(8, "big") + {50: forged, count // 2: bad}.get(i, batch)[8:])
    out = subprocesses.run(
        subprocesses.PEAK
        + f"""
import kafkarec
begin()
records = damage = 0
for piece in kafkarec.open({str(path)!r}).stream(errors="skip"):
    records += len(piece)
    damage += len(piece.damage)
print(records, damage, peak())
"""
    )
    records, damage, peak = map(int, out.split())
    assert records == (count - 1) * 100 and damage == 1
    assert peak < 48 << 20


@pytest.mark.parametrize("suffixes", [("", ".gz"), (".gz", ".zst"), ("", ".gz", ".zst")], ids=str)
def test_a_compressed_copy_beside_its_segment_is_read_once(tmp_path, suffixes):
    """As `gzip -k` and `zstd` leave it. Its content is still there for repairs (segments_for_reports)."""
    shutil.copytree(SEGMENTS / "txn-0", tmp_path / "txn-0")
    whole = list(log_of("txn-0").read())
    path = tmp_path / "txn-0" / f"{30:020}.log"
    data = path.read_bytes()
    path.unlink()
    packed = {"": data, ".gz": gzip.compress(data), ".zst": zstandard.ZstdCompressor().compress(data)}
    for suffix in suffixes:
        path.with_name(path.name + suffix).write_bytes(packed[suffix])
    log = log_of(tmp_path / "txn-0")
    assert list(log.read()) == whole
    [follower] = log.followers()
    assert [row for _, piece in follower.poll() for row in piece] == whole
    names = [path.name + suffix for suffix in suffixes]
    assert [one.name for one in log.segments] == [f"{0:020}.log", names[0]]
    assert sorted(one.name for one in log.segments_for_reports) == [f"{0:020}.log", *names]
    left = {one.name: (one.kind, one.why) for one in log.left_out if one.name in names}
    why = f"a compressed copy of {names[0]}, which is read; left out"
    assert left == dict.fromkeys(names[1:], ("copy", why))
    named = [tmp_path / "txn-0" / name for name in (f"{0:020}.log", names[-1])]
    assert list(kafkarec.open(named).read()) == whole, "a copy that is named is read"


def test_what_has_no_partition_in_its_name_beside_copies_of_several_is_left_out_and_said(tmp_path):
    data = (SEGMENTS / "txn-0" / f"{0:020}.log").read_bytes()
    own = f"{0:020}.log"
    for name in (f"a-0-{own}", f"a-1-{own}", own, "notes.txt", "partition.metadata"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "a-2").mkdir()
    with kafkarec.open(tmp_path) as folder:
        assert [(log.topic, log.partition, len(log.segments)) for log in folder] == [("a", 0, 1), ("a", 1, 1)]
        unnamed = "its name has no topic and partition"
        assert [(one.name, one.kind, one.why.partition(", beside")[0]) for one in folder.left_out] == [
            (own, "segment", unnamed),
            ("a-2", "partition", "a folder"),
            ("notes.txt", "foreign", unnamed),
        ]
    report = kafkarec.verify(tmp_path)
    assert [one.kind for one in report.findings if one.kind == "other_log_file"], "a log that is not verified is said"


def test_a_file_object_may_return_fewer_bytes_than_it_is_asked_for(tmp_path):
    """As a raw file of the io module does: what was read again was then taken for damage."""

    class FewBytes(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 10) if size > 0 else size)

    data = CODECS.read_bytes()
    with kafkarec.open(FewBytes(data)) as segment, kafkarec.open(io.BytesIO(data)) as usual:
        assert [bytes(batch.raw) for batch in segment.batches()] == [bytes(batch.raw) for batch in usual.batches()]
        assert segment.raw(5, 60) == data[5:65] and segment.raw(len(data) - 3, 60) == data[-3:]
