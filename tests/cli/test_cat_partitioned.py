"""`cat -o DIR --partition-by topic,date`: other tools read the folder back as what the log holds."""

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from builders import flipped
from command import interruptible
from paths import SEGMENTS
from plain_logs import log

import kafkarec
from kafkarec.support import partitioned_files

NAMES = ("txn", "all-codecs", "compacted", "logappend")
PATHS = [str(SEGMENTS / f"{name}-0") for name in NAMES]
DAY = 86_400_000
NULL = "__HIVE_DEFAULT_PARTITION__"


def log_of(folder, times):
    """A partition folder with a record for each time; None: no timestamp."""
    with kafkarec.SegmentWriter(folder / "t-0") as writer:
        writer.write([(n, -1 if at is None else at, None, b"v%d" % n, []) for n, at in enumerate(times)])
    return folder / "t-0"


def offsets_by_folder(table):
    """Folder -> the offsets of its files, file by file in the order of their names."""
    found = {}
    for path in sorted(table.rglob("*.parquet"), key=lambda each: int(each.stem.rpartition("-")[2])):
        rows = pq.ParquetFile(path).read(columns=["offset"]).column("offset").to_pylist()
        found.setdefault(str(path.parent.relative_to(table)), []).append(rows)
    return found


def test_the_folder_has_the_rows_of_the_log(run, tmp_path):
    assert run("cat", *PATHS, "-o", tmp_path / "table/", "--partition-by", "topic,date").status == 0
    (hive, one) = ds.dataset(tmp_path / "table", partitioning="hive").to_table(), tmp_path / "one.parquet"
    assert run("cat", *PATHS, "-o", one).status == 0
    expected = pq.read_table(one)
    key = [("topic", "ascending"), ("offset", "ascending")]
    assert (
        hive.select(expected.schema.names)
        .sort_by(key)
        .equals(expected.cast(hive.select(expected.schema.names).schema).sort_by(key))
    )
    glob = f"{tmp_path}/table/*/*/*.parquet"
    counts = duckdb.sql(
        f"select topic, date, count(*) from read_parquet('{glob}', hive_partitioning=true) group by all order by all"
    ).fetchall()
    days = {}
    for topic, at in zip(expected["topic"].to_pylist(), expected["timestamp"].to_pylist(), strict=True):
        days[topic, at.date()] = days.get((topic, at.date()), 0) + 1
    assert [(topic, day, count) for (topic, day), count in sorted(days.items())] == counts
    for rows in (rows for files in offsets_by_folder(tmp_path / "table").values() for rows in files):
        assert rows == sorted(rows)


@pytest.mark.parametrize("by", ["topic", "date", "date,topic"])
def test_by_either_of_them_and_in_this_order(run, tmp_path, by):
    assert run("cat", *PATHS, "-o", tmp_path / "table", "--partition-by", by).status == 0
    files = list((tmp_path / "table").rglob("*.parquet"))
    assert {",".join(part.partition("=")[0] for part in path.relative_to(tmp_path / "table").parts[:-1])
            for path in files} == {by}  # fmt: skip
    columns = {name for path in files for name in pq.read_schema(path).names}
    assert columns & {"topic", "date"} == {"topic"} - set(by.split(","))
    assert sum(pq.read_metadata(path).num_rows for path in files) == 267 + 865 + 25 + 150


def test_null_and_odd_times_have_a_folder_and_days_are_those_of_utc(run, tmp_path):
    far = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)
    log = log_of(tmp_path, [0, DAY - 1, DAY, None, 0, far, far + DAY, 1 << 50])
    assert run("cat", log, "-o", tmp_path / "table", "--partition-by", "date", "--columns", "offset,value").status == 0
    assert offsets_by_folder(tmp_path / "table") == {
        "date=1970-01-01": [[0, 1, 4]],
        "date=1970-01-02": [[2]],
        "date=9999-12-31": [[5]],
        f"date={NULL}": [[3, 6, 7]],
    }
    assert pq.read_schema(tmp_path / "table" / "date=1970-01-02" / "part-1.parquet").names == ["offset", "value"]


def test_memory_files_and_groups_are_limited(run, tmp_path, monkeypatch):
    """Times in no order: many days at once are held, flushed as a group and, when too many are open, closed."""
    log = log_of(tmp_path, [DAY * (n * 7 % 30) for n in range(3000)])
    for name, value in (("GROUP_BYTES", 3000), ("HELD_BYTES", 20_000), ("FILE_BYTES", 30_000), ("MOST_OPEN", 4)):
        monkeypatch.setattr(partitioned_files, name, value)
    held, real = [], partitioned_files.PartitionedFiles.add

    def add(self, rows, values):
        for start in range(0, rows.num_rows, 100):
            real(self, rows.slice(start, 100), values)
            held.append(self._held_bytes)
            assert sum(file.writer is not None for file in self._files.values()) <= 4

    monkeypatch.setattr(partitioned_files.PartitionedFiles, "add", add)
    assert run("cat", log, "-o", tmp_path / "table", "--partition-by", "topic,date").status == 0
    assert 0 < max(held) <= 20_000 and len(held) == 30
    found = offsets_by_folder(tmp_path / "table")
    assert len(found) == 30 and all(len(files) > 1 for files in found.values())
    for folder, files in found.items():
        day = (datetime.fromisoformat(folder.rpartition("=")[2]) - datetime(1970, 1, 1)).days
        assert [row for rows in files for row in rows] == [n for n in range(3000) if n * 7 % 30 == day]


def test_names_of_folders_are_escaped_as_hive_does(tmp_path):
    files = partitioned_files.PartitionedFiles(str(tmp_path), ("topic",), name="part")
    for topic in ("a/b=c", "", None, "k\u00f6ln", "50%"):
        files.add(pa.record_batch([pa.array([1])], ["n"]), {"topic": topic})
    files.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "topic=a%2Fb%3Dc",
        f"topic={NULL}",
        "topic=k\u00f6ln",
        "topic=50%25",
    }
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    assert sorted(map(str, table["topic"].to_pylist())) == ["50%", "None", "None", "a/b=c", "k\u00f6ln"]


def test_damage_keeps_what_is_before_it(run, tmp_path):
    data = (SEGMENTS / "txn-0" / f"{0:020}.log").read_bytes()
    source = log(tmp_path / "txn-0", [flipped(data, len(data) // 2)])
    ran = run("cat", source, "-o", tmp_path / "table", "--partition-by", "topic")
    assert ran.status == 1
    ((_, (rows,)),) = offsets_by_folder(tmp_path / "table").items()
    assert rows == [each["offset"] for each in run("cat", source).rows]


def test_nothing_is_left_of_an_interrupted_run(tmp_path):
    with kafkarec.SegmentWriter(tmp_path / "t-0") as writer:
        for start in range(0, 600_000, 50_000):
            writer.write([(n, DAY * n // 10_000, None, b"%0100d" % n, []) for n in range(start, start + 50_000)])
    child = interruptible("cat", tmp_path / "t-0", "-o", tmp_path / "table", "--partition-by", "topic,date")
    while not list(tmp_path.glob(".table.*.part/*/*/*.parquet")):
        assert child.poll() is None
    child.send_signal(2)
    assert child.wait(60) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


def test_a_disk_that_gets_full_is_named_as_of_a_file(run, tmp_path, monkeypatch):
    def write_table(self, table, **options):
        raise OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", write_table)
    ran = run("cat", SEGMENTS / "txn-0", "-o", tmp_path / "new", "--partition-by", "topic")
    assert (ran.status, ran.complaint) == (3, f"kafkarec: {tmp_path}/new: no space left on device")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(run, tmp_path):
    (tmp_path / "table").mkdir()
    assert run("cat", PATHS[0], "-o", tmp_path / "table", "--partition-by", "topic").status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
    ((folder, (rows,)),) = offsets_by_folder(tmp_path / "table").items()
    assert (folder, len(rows)) == ("topic=txn", 267)
