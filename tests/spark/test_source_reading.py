"""The data source returns the rows of the local API in every mode, however a segment is split."""

import json
import logging
from dataclasses import replace

import pytest
from paths import SEGMENTS
from plain_logs import log
from source_rows import EVERYTHING, LOGS, Read, expected, read, repeated, spoil

import kafkarec
from kafkarec.sidecars import offset_index
from spark_udfs import schema
from spark_udfs.source.listing import DataLoss

ALL_CODECS = SEGMENTS / "all-codecs-0" / "00000000000000000000.log"


def names(path):
    return f"{path.parent.name}/{path.stem.lstrip('0') or 0}"


def local(path, **options):
    segment = kafkarec.open(path)
    return [expected(each, segment.topic, segment.partition) for each in segment.read(**options)]


def local_with_damage(path):
    """Records and damaged ranges of a file in order: (position of the batch or damage, record or damage)."""
    segment = kafkarec.open(path)
    columns = segment.read(
        errors="skip", columns=["offset", "timestamp", "timestamp_type", "key", "value", "headers", "batch_position"]
    )
    rows = [
        (position, 1, expected(record, segment.topic, segment.partition))
        for position, record in zip(columns.column("batch_position"), columns, strict=True)
    ]
    rows += [(each.position, 0, each) for each in columns.damage]
    return [what for _, _, what in sorted(rows, key=lambda row: row[:2])]


def same(rows, expected_rows):
    assert len(rows) == len(expected_rows)
    for row, what in zip(rows, expected_rows, strict=True):
        if isinstance(what, kafkarec.Damage):
            damaged = json.loads(row[schema.CORRUPT])
            assert damaged == {"path": what.file, **{n: getattr(what, n) for n in list(damaged)[1:]}}
            assert {name for name, value in row.items() if value is not None} <= {schema.CORRUPT, "topic", "partition"}
        else:
            assert row == what


@pytest.mark.parametrize("path", LOGS, ids=names)
@pytest.mark.parametrize("size", ["4000", "300", "1"])
def test_rows_of_many_splits_equal_those_of_the_file(path, size):
    job = Read(path, maxPartitionBytes=size, **EVERYTHING)
    assert job.rows == local(path)
    splits = job.splits
    assert splits[0].begin == 0 and splits[-1].end == path.stat().st_size
    assert [each.end for each in splits[:-1]] == [each.begin for each in splits[1:]]
    if size == "1":
        assert len(splits) > 1 or len(kafkarec.open(path).scan()) == 1


@pytest.mark.parametrize("seed", range(16))
def test_damaged_copies_are_read_in_all_modes(seed, tmp_path, caplog):
    source = LOGS[seed % len(LOGS)]
    path = log(tmp_path / source.parent.name, (0, spoil(source.read_bytes(), seed))) / f"{0:020}.log"
    expected_rows = local_with_damage(path)
    damage = [each for each in expected_rows if isinstance(each, kafkarec.Damage)]
    good = [each for each in expected_rows if not isinstance(each, kafkarec.Damage)]
    for size in ("1g", "500"):
        same(read(path, mode="PERMISSIVE", maxPartitionBytes=size, **EVERYTHING), expected_rows)
        assert read(path, mode="DROPMALFORMED", maxPartitionBytes=size, **EVERYTHING) == good
        caplog.clear()
        with caplog.at_level(logging.INFO, "spark_udfs"):
            plain = read(path, mode="PERMISSIVE", maxPartitionBytes=size, includeHeaders="true")
        assert plain == [{name: row[name] for name in plain[0]} for row in good] if plain else not good
        assert sum("damaged: " in line for line in caplog.messages) == len(damage)
        if damage:
            with pytest.raises(kafkarec.KafkaRecordError) as refused:
                read(path, maxPartitionBytes=size)
            first = str(refused.value).splitlines()[0]
            assert str(path) in first and f"at byte {refused.value.position}" in first
            assert "PERMISSIVE" in refused.value.__notes__[0]


def test_arrow_batches_have_a_limited_size_and_number_of_rows(tmp_path):
    value = bytes(3 << 20)
    data = kafkarec.encode([(i, 1, None, value, []) for i in range(30)], compression="zstd", batch_size=1 << 30)
    path = log(tmp_path / "large-0", (0, data))
    sizes = [batch.nbytes for batch in Read(path, maxDecompressedBytes="1g").batches]
    assert len(sizes) == 2 and max(sizes) <= 64 << 20
    rows = [batch.num_rows for batch in Read(SEGMENTS / "txn-0", maxRecordsPerBatch="100").batches]
    assert rows == [30, 100, 100, 37]


def test_a_file_that_grows_or_shrinks_after_planning(tmp_path):
    data = ALL_CODECS.read_bytes()
    cut = len(data) - 10  # a live log: the last batch is half written
    path = log(tmp_path / "live-0", (0, data[:cut])) / f"{0:020}.log"
    for size in ("1g", "20000"):
        path.write_bytes(data[:cut])
        before = read(path)
        source = Read(path, maxPartitionBytes=size)
        path.write_bytes(data)
        grown = source.again()
        assert grown == before
        path.write_bytes(data[: cut // 2])
        with pytest.raises(DataLoss, match="when the query was planned: it was truncated"):
            source.again()
        source.reader.options = replace(source.reader.options, failOnDataLoss=False)
        less = source.again()
        assert less and less == before[: len(less)]
        path.unlink()
        assert source.again() == []
        path.mkdir()
        assert source.again() == []
        source.reader.options = replace(source.reader.options, failOnDataLoss=True)
        with pytest.raises(DataLoss, match=f"live-0: {path} is a folder now, and no segment"):
            source.again()
        path.rmdir()


def _indexed_log(folder, number, bits):
    """A log of twice `number` small batches, each in the .index. bits: flipped in the base offset of batch 127"""
    batches = [
        bytearray(kafkarec.encode([(None, 0, None, b"v", [])] * 5, base_offset=5 * n)) for n in range(2 * number)
    ]
    batches[127][7] ^= bits
    path = log(folder / "orders-0", (0, b"".join(batches))) / f"{0:020}.log"
    size = len(batches[0])
    entries = [(5 * n + 4, n * size) for n in range(1, len(batches))]
    path.with_suffix(".index").write_bytes(offset_index.write(entries, 0))
    return path, size


@pytest.mark.parametrize("bits", [1, 2, 8])
@pytest.mark.parametrize("number", [100, 126, 127, 128, 300])
def test_no_split_at_an_index_entry_is_beside_a_damaged_base_offset(number, bits, tmp_path):
    """It falls before the batch before it, or into its offsets, and other batches prove the right one."""
    path, size = _indexed_log(tmp_path, number, bits)
    job = Read(path, mode="PERMISSIVE", maxPartitionBytes=f"{number * size}", minPartitions="1")
    assert [row["offset"] for row in job.rows] == [*range(10 * number)]
    borders = [split.end for split in job.splits]
    assert borders == [number * size, 2 * number * size] if number == 300 else [2 * number * size]


@pytest.mark.parametrize(("number", "mode", "count"), [
    (119, "PERMISSIVE", 2), (120, "PERMISSIVE", 1), (127, "PERMISSIVE", 1), (134, "PERMISSIVE", 1),
    (135, "PERMISSIVE", 2), (120, "FAILFAST", 2),
])  # fmt: skip
def test_a_url_is_split_where_the_batches_beside_are_good(number, mode, count, tmp_path):
    """At a URL, where each header may be a request, fewer batches are looked at, and in FAILFAST only those beside it,
    since that restores nothing."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: no URLs")
    path, size = _indexed_log(tmp_path, number, 8)
    memory = fsspec.filesystem("memory")
    for each in path.parent.iterdir():
        memory.pipe(f"/{tmp_path.name}/orders-0/{each.name}", each.read_bytes())
    try:
        job = Read(f"memory://{tmp_path.name}", mode=mode, maxPartitionBytes=f"{number * size}", minPartitions="1")
    finally:
        memory.rm(f"/{tmp_path.name}", recursive=True)
    assert len(job.splits) == count
    found = [row["offset"] for row in job.rows]
    if mode == "FAILFAST":
        del found[5 * 127 : 5 * 128]
    assert found == [offset for offset in range(10 * number) if mode != "FAILFAST" or offset // 5 != 127]


@pytest.mark.parametrize("indexed", [True, False])
def test_large_segments_are_split_at_index_entries_or_headers(indexed, tmp_path):
    data = repeated(ALL_CODECS.read_bytes(), 40, 865)
    path = log(tmp_path / "orders-0", (0, data)) / f"{0:020}.log"
    if indexed:
        entries, last = bytearray(), 0
        for batch in kafkarec.batches(data):
            if batch.position - last > 4096:
                entries += batch.last_offset.to_bytes(4, "big") + batch.position.to_bytes(4, "big")
                last = batch.position
        path.with_suffix(".index").write_bytes(entries)
    whole = read(path)
    job = Read(path, maxPartitionBytes="150000")
    splits = job.splits
    assert job.rows == whole and len(whole) == 40 * 865
    assert len(data) // 170_000 <= len(splits) <= len(data) // 150_000 + 1
    assert all(120_000 <= split.end - split.begin < 170_000 for split in splits[:-1])
    ends = {"startingOffsets": '{"orders": {"0": 20000}}', "endingOffsets": '{"orders": {"0": 21000}}'}
    narrow = Read(path, maxPartitionBytes="150000", **ends)
    assert [row["offset"] for row in narrow.rows] == list(range(20000, 21000))
    assert len(narrow.tasks) < 4 or not indexed
