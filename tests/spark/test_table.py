"""write_table: the rows are those of the source, each once, whatever is killed and whoever else writes."""

import json
import os
import shutil
from pathlib import Path

import builders
import duckdb
import plain_logs
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from builders import flipped
from damage_reports import Frames, nothing_is_shipped  # noqa: F401
from paths import SEGMENTS
from plain_logs import log
from source_rows import read

import kafkarec
import spark_udfs
from spark_udfs import cluster
from spark_udfs.source import publishing
from spark_udfs.source.listing import DataLoss

DAY = 86_400_000


def write(source, out, spark=None, **options):
    return spark_udfs.write_table(spark or Frames(), source, out, **options)


def rows(out):
    """The rows of a table as pyarrow reads them, sorted."""
    types = pa.schema([("topic", pa.string()), ("date", pa.string())])
    hive = ds.partitioning(types, flavor="hive")
    found = ds.dataset(str(out), format="parquet", partitioning=hive).to_table().to_pylist() if files(out) else []
    return sorted(found, key=lambda row: (str(row["topic"]), row["partition"], row["offset"]))


def files(out):
    """Everything that readers of `**/*.parquet` find."""
    return sorted(str(path.relative_to(out)) for path in Path(out).rglob("*.parquet"))


def expected(source, **options):
    found = read(source, **options)
    for row in found:
        row["date"] = None if row["timestamp"] is None else row["timestamp"].date().isoformat()
    return sorted(found, key=lambda row: (str(row["topic"]), row["partition"], row["offset"]))


def grown(folder, *values, partition=0, topic="t", **options):
    """Appends records to a log, each in a batch of its own, a day after one another."""
    with kafkarec.SegmentWriter(folder / f"{topic}-{partition}", **options) as writer:
        for number, value in enumerate(values):
            writer.write([(0, (number + 1) * DAY, b"k", value.encode(), [])])


def values(out):
    return [f"{row['topic']}-{row['partition']} {row['offset']} {row['value'].decode()}" for row in rows(out)]


@pytest.fixture
def source(tmp_path):
    grown(tmp_path / "source", "a", "b", "c")
    grown(tmp_path / "source", "d", partition=1)
    return tmp_path / "source"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "table"


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    """Skip fsync: in these tests processes crash, machines do not."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


ALL = ["t-0 0 a", "t-0 1 b", "t-0 2 c", "t-1 0 d"]


# ---- what is written


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"includeHeaders": "true", "includeMetadata": "true"},
        {"isolationLevel": "read_committed", "minPartitions": "5", "maxPartitionBytes": "4k"},
        {"subscribe": "txn,all-codecs", "includeControl": "true"},
        {"startingTimestamp": "2023-11-14T22:13:20.004Z", "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=str,
)
def test_the_rows_are_those_of_the_source(out, options):
    written = write(SEGMENTS, out, **options)
    assert rows(out) == expected(SEGMENTS, **options) != []
    assert (written.rows, sorted(written.files)) == (len(rows(out)), files(out))
    assert written.bytes == sum((out / name).stat().st_size for name in written.files)
    assert not (out / "_temporary").exists()


def with_odd_values(folder):
    """Logs with times before 1970, before year 1, after 9999 and none, topics that look like other types, and a key of
    folders that needs escapes."""
    times = (-200_000 * DAY, -DAY - 1, -2, 0, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001)
    dated = (
        plain_logs.batch(at, 1, base_timestamp=time, max_timestamp=time, value=b"x") for at, time in enumerate(times)
    )
    log(folder / "region=a%2Fb" / "times-0", dated)
    log(folder / "region=eu west" / "none-0", (0, builders.message(magic=0, value=b"x")))
    for topic in ("0042", "1e3", "true", "2024-01-01", "a.b_c"):
        grown(folder / "region=#1 = 'A'", "x", topic=topic)
    return folder


@pytest.mark.parametrize("by", [("topic", "date"), ("region", "topic", "date"), ()], ids=str)
def test_duckdb_polars_and_pyarrow_read_the_same_rows(tmp_path, out, by):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    source = with_odd_values(tmp_path / "source")
    write(source, out, partition_by=by)
    names = ["region", "topic", "partition", "offset", "timestamp", *(["date"] if by else [])]
    columns = ", ".join(f'"{name}"' for name in names).replace('"timestamp"', "epoch_ms(timestamp)")
    in_duckdb = duckdb.sql(
        f"select {columns} from read_parquet('{out}/**/*.parquet', hive_partitioning = true) order by all"
    ).fetchall()
    frame = polars.scan_parquet(f"{out}/**/*.parquet", hive_partitioning=True).select(names)
    in_polars = frame.with_columns(polars.col("timestamp").dt.epoch("ms")).collect().rows()
    types = pa.schema([("region", pa.string()), ("topic", pa.string()), ("date", pa.date32())])
    hive = ds.partitioning(pa.schema([types.field(name) for name in by]), flavor="hive")
    table = ds.dataset(out, format="parquet", partitioning=hive).to_table(names)
    times = table["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    in_pyarrow = zip(*table.set_column(4, "timestamp", times).to_pydict().values(), strict=True)

    def ordered(found):
        return sorted(map(tuple, found), key=lambda row: row[:4])

    assert len(in_duckdb) == 13 and ordered(in_duckdb) == ordered(in_polars) == ordered(in_pyarrow)
    regions = {row[1]: row[0] for row in in_duckdb}
    assert (regions["times"], regions["0042"]) == ("a/b", "#1 = 'A'")
    if by:
        day = {row[4]: row[5] for row in in_duckdb if row[1] == "times"}
        assert [day[time] and str(day[time]) for time in (-2, -DAY - 1, 0)] == [
            "1969-12-31",
            "1969-12-30",
            "1970-01-01",
        ]
        assert [time for time in day if day[time] is None] == [253_402_300_800_000, -62_135_596_800_001]


def test_partitions_of_a_task_share_files_in_their_order(tmp_path, out):
    for number in range(20):
        grown(tmp_path / "source", "a", "b", partition=number)
    written = write(tmp_path / "source", out)
    assert written.rows == 40 and len(written.files) == 2
    for name in written.files:
        table = pq.ParquetFile(out / name).read(["partition", "offset"]).to_pylist()
        assert [(row["partition"], row["offset"]) for row in table] == [
            (number, table[0]["offset"]) for number in range(20)
        ]


@pytest.mark.parametrize("by", [(), "topic", ["date"], ("date", "topic"), ("partition", "date")], ids=str)
def test_other_partition_columns(source, out, by):
    write(source, out, partition_by=by, columns=["topic", "partition", "offset", "value"])
    names = [by] if isinstance(by, str) else list(by)
    for name in files(out):
        assert [part.partition("=")[0] for part in name.split("/")[:-1]] == names
        inside = [each for each in ("topic", "partition", "offset", "value") if each not in names]
        assert pq.ParquetFile(out / name).schema_arrow.names == inside
    table = ds.dataset(out, partitioning="hive").to_table()
    assert sorted(table["value"].to_pylist()) == [b"a", b"b", b"c", b"d"]
    assert set(names) <= set(table.schema.names)
    write(source, out, partition_by=by, columns=["topic", "partition", "offset", "value"])
    assert ds.dataset(out).count_rows() == 4


def test_keys_of_folders_are_columns_and_date_is_theirs_if_they_have_it(tmp_path, out):
    for day in ("2026-11-01", "2026-11-02"):
        grown(tmp_path / "arch" / "region=eu west" / f"date={day}", day, topic=f"t{day[-1]}")
    write(tmp_path / "arch", out, partition_by=("topic", "region", "date"))
    assert [name.rpartition("/")[0] for name in files(out)] == [
        "topic=t1/region=eu west/date=2026-11-01",
        "topic=t2/region=eu west/date=2026-11-02",
    ]
    write(tmp_path / "arch", tmp_path / "other", partition_by="topic")
    found = ds.dataset(tmp_path / "other", partitioning="hive").to_table().to_pylist()
    assert {(row["region"], str(row["date"])) for row in found} == {
        ("eu west", "2026-11-01"),
        ("eu west", "2026-11-02"),
    }


def test_values_as_text(source, out):
    write(source, out, value_as="utf8")
    assert {row["value"] for row in rows(out)} == {"a", "b", "c", "d"}
    with pytest.raises(ValueError, match=r"columns key binary, .*value string; not with .*value binary"):
        write(source, out)
    with kafkarec.SegmentWriter(source / "t-1") as writer:
        writer.write([(0, DAY, None, b"ok", []), (1, DAY, None, b"no \xff", [])])
    with pytest.raises(ValueError, match=r"t-1, offset 2: byte 3 of the value is not UTF-8"):
        write(source, out, value_as="utf8")
    assert len(rows(out)) == 4 and not (out / "_temporary").exists()


# ---- append, overwrite, errorifexists


def test_append_adds_what_the_table_has_not(source, out, caplog):
    caplog.set_level("INFO", "spark_udfs")
    first = write(source, out)
    assert first.offsets == {"t": {0: [0, 3], 1: [0, 1]}}
    assert f"kafkarec write_table table={out} rows=4 files=3 bytes={first.bytes} damaged=0 seconds=" in caplog.text
    before = files(out)
    again = write(source, out)
    assert (again.rows, again.files, again.offsets) == (0, (), {"t": {0: [3, 3], 1: [1, 1]}})
    grown(source, "e", "f")
    grown(source, "new", topic="u")
    more = write(source, out)
    assert (more.rows, more.offsets) == (3, {"t": {0: [3, 5], 1: [1, 1]}, "u": {0: [0, 1]}})
    assert values(out) == [*ALL[:3], "t-0 3 e", "t-0 4 f", ALL[3], "u-0 0 new"]
    assert set(before) <= set(files(out))
    assert json.loads((out / "_table.json").read_text())["offsets"] == {"t": {"0": 5, "1": 1}, "u": {"0": 1}}


def test_partitions_that_are_not_chosen_keep_their_offsets(source, out):
    write(source, out, assign={"t": [1]})
    write(source, out, assign={"t": [0]}, endingOffsets={"t": {"0": 2}})
    assert values(out) == [*ALL[:2], ALL[3]]
    assert write(source, out).offsets == {"t": {0: [2, 3], 1: [1, 1]}}
    assert values(out) == ALL


def test_a_folder_that_spark_connect_removes_is_refused(source, tmp_path, monkeypatch):
    """There the working folder of tasks and planners is one of the session; with all that is in it, it goes."""
    session = tmp_path / "4a91c0de"
    session.mkdir()
    monkeypatch.chdir(session)
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", session.name)
    for path in ("table", ".", "../table", session / "table"):
        with pytest.raises(
            ValueError, match=f"^{path} is in a temporary folder of this session on the cluster; name an"
        ):
            write(source, path)
    assert list(session.iterdir()) == []
    write(source, tmp_path / "table")
    assert values(tmp_path / "table") == ALL
    assert repr(write(source, tmp_path / "table")) == "0 rows in 0 files, 0 bytes; 0 damaged ranges"


def test_a_folder_of_that_name_without_spark_connect_is_none_of_these(source, tmp_path, monkeypatch):
    """Spark sets the variable to "default" there. Where the working folder was removed, an absolute path needs none."""
    working = tmp_path / "default"
    working.mkdir()
    monkeypatch.chdir(working)
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", "default")
    write(source, "table")
    assert values(working / "table") == ALL
    shutil.rmtree(working)
    write(source, tmp_path / "table")
    assert values(tmp_path / "table") == ALL


def test_errorifexists_refuses_a_table(source, out):
    write(source, out, mode="errorifexists")
    before = files(out)
    with pytest.raises(ValueError, match="is a table already; mode 'append' adds what it lacks"):
        write(source, out, mode="errorifexists")
    assert files(out) == before


def test_overwrite_replaces_the_table(source, out):
    write(source, out)
    before = files(out)
    write(source, out, mode="overwrite", assign={"t": [0]}, partition_by="date")
    assert values(out) == ALL[:3]
    assert not set(before) & set(files(out)) and not (out / "topic=t").exists()
    assert write(source, out, mode="overwrite").offsets == {"t": {0: [0, 3], 1: [0, 1]}}
    assert values(out) == ALL


def test_overwrite_keeps_what_is_behind_symbolic_links(tmp_path, source, out):
    write(source, out)
    other = tmp_path / "other" / "kept.parquet"
    other.parent.mkdir()
    other.write_bytes(b"another table's")
    (out / "link").symlink_to(other.parent)
    (out / "dangling.parquet").symlink_to("nowhere")
    write(source, out, mode="overwrite")
    assert other.read_bytes() == b"another table's"
    assert not (out / "dangling.parquet").is_symlink()


def test_folders_that_readers_ignore_are_refused(tmp_path, out):
    grown(tmp_path / "source" / "_region=a", "a")
    with pytest.raises(ValueError, match=r"partition_by=\('_region',\): readers ignore folders .* begin with '_'"):
        write(tmp_path / "source", out, partition_by="_region")
    write(tmp_path / "source", out)
    assert [row["_region"] for row in rows(out)] == ["a"]


def test_an_empty_log_makes_an_empty_table(tmp_path, out):
    log(tmp_path / "source" / "t-0", (5, b""))
    assert write(tmp_path / "source", out).rows == 0
    grown(tmp_path / "source", "a")
    assert write(tmp_path / "source", out).offsets == {"t": {0: [5, 6]}}


def test_aborted_records_are_left_out_and_an_open_transaction_blocks_and_is_told(tmp_path, out, caplog):
    """The marker comes with a later call."""
    batches, offset = [], 0
    for transaction, count in ((None, 2), (7, 3), (None, 1)):
        batches.append(plain_logs.batch(offset, count, transaction=transaction))
        offset += count
    log(tmp_path / "source" / "t-0", batches)
    first = write(tmp_path / "source", out, isolationLevel="read_committed")
    assert first.offsets == {"t": {0: [0, 2]}} and first.rows == 2
    (note,) = first.notes
    assert "t-0: a transaction is open since offset 2" in note and "the log ends at 6" in note and note in caplog.text
    assert note in str(first)
    again = write(tmp_path / "source", out, isolationLevel="read_committed")
    assert again.rows == 0 and again.notes == first.notes
    batches.append(builders.end_marker(6, 7, commit=False))
    log(tmp_path / "source" / "t-0", batches)
    last = write(tmp_path / "source", out, isolationLevel="read_committed")
    assert (last.rows, last.offsets, last.notes) == (1, {"t": {0: [2, 7]}}, ())
    assert [row["offset"] for row in rows(out)] == [0, 1, 5]


def test_a_last_batch_behind_a_gap_waits_and_is_told(tmp_path, out):
    batches = plain_logs.batches(4)
    folder = log(tmp_path / "source" / "t-0", (0, batches[0] + batches[2]))
    first = write(tmp_path / "source", out)
    (note,) = first.notes
    assert first.offsets == {"t": {0: [0, 3]}} and "begins at offset 6, and not 3; it is not read before" in note
    log(folder, (0, batches[0] + batches[2] + batches[3]))
    last = write(tmp_path / "source", out)
    assert (last.rows, last.offsets, last.notes) == (6, {"t": {0: [3, 12]}}, ())


# ---- logs that are not those of the table any more


def test_a_log_that_is_shorter_than_the_table(source, out):
    write(source, out)
    shutil.rmtree(source / "t-0")
    grown(source, "A")
    text = r"data loss in t-0: the table ends at 3, and the log ends at offset 1: .* failOnDataLoss=false continues"
    with pytest.raises(DataLoss, match=text):
        write(source, out)
    assert values(out) == ALL
    assert write(source, out, failOnDataLoss=False).offsets["t"][0] == [1, 1]  # from here on it follows this log
    grown(source, "B")
    assert write(source, out).offsets["t"][0] == [1, 2]
    assert sorted(values(out)) == sorted([*ALL, "t-0 1 B"])


def test_a_log_that_begins_after_the_table(source, out):
    write(source, out)
    shutil.rmtree(source / "t-0")
    grown(source, "x", start_offset=9)
    with pytest.raises(DataLoss, match=r"t-0: the table ends at 3, and the log begins at offset 9: .*failOnDataLoss"):
        write(source, out)
    assert write(source, out, failOnDataLoss=False).offsets["t"][0] == [9, 10]
    assert values(out) == [*ALL[:3], "t-0 9 x", ALL[3]]


def test_append_does_not_go_back_and_says_so(source, out):
    """The first two calls begin inside of one partition."""
    chosen = {"startingOffsets": {"t": {"0": 2}}, "assign": {"t": [0]}}
    assert write(source, out, **chosen).notes == ()
    assert write(source, out, **chosen).notes == ()
    grown(source, "d")
    later = write(source, out)
    assert later.offsets["t"] == {0: [3, 4], 1: [0, 1]}
    text = "t-0: the table begins at offset 2, and what is chosen of the log at 0: append does not go back"
    assert [note.partition(";")[0] for note in later.notes] == [text]
    assert write(source, out, mode="overwrite").notes == write(source, out).notes == ()


def test_folders_that_where_leaves_out_between_two_calls(tmp_path, out):
    source = tmp_path / "source"
    for number in range(3):
        grown(source / f"day={number}", "x", start_offset=number)
    assert write(source, out, where="day = 0").rows == 1
    with pytest.raises(DataLoss, match="begins at offset 2: it was truncated, or where leaves its first folders out"):
        write(source, out, where="day = 2")
    assert write(source, out, where="day >= 1").offsets == {"t": {0: [1, 3]}}
    assert write(source, out).notes == ()


# ---- damage


def test_damage(tmp_path, out):
    source = tmp_path / "source"
    data = plain_logs.batches(4)
    bad = flipped(b"".join(data), len(data[0]) + 80)
    log(source / "t-0", (0, bad))
    with pytest.raises(kafkarec.KafkaRecordError) as refused:
        write(source, out)
    advice = "read_mode PERMISSIVE keeps everything else; _quarantine in the table then has the reason"
    assert refused.value.__notes__[0] == advice
    assert files(out) == [] and not (out / "_temporary").exists()
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        written = write(source, out, read_mode=mode, mode="overwrite")
        assert [row["offset"] for row in rows(out)] == [0, 1, 2, 6, 7, 8, 9, 10, 11]
        assert str(written).startswith(f"9 rows in 1 file, {written.bytes} bytes; 1 damaged range\n")
        (damage,) = written.damage
        report = spark_udfs.damage_report(Frames(), source).rows
        assert [damage] == [{name: row[name] for name in damage} for row in report]
        assert (damage["lost_from"], damage["lost_to"], damage["topic"], damage["partition"]) == (3, 5, "t", 0)
        quarantined = [json.loads(line) for path in out.glob("_quarantine/*.json") for line in path.open()]
        assert damage in quarantined
    before = len(list(out.glob("_quarantine/*.json")))
    log(source / "t-0", (0, bad + plain_logs.batch(12, 1)))
    again = write(source, out)  # in FAILFAST, too: the damage is before the table's end
    assert (again.rows, again.damage) == (1, ()) and len(list(out.glob("_quarantine/*.json"))) == before


# ---- refusals


@pytest.mark.parametrize(
    "options, text",
    [
        ({"format": "iceberg"}, "does not write format='iceberg' yet"),
        ({"format": "delta"}, "does not write format='delta' yet"),
        ({"format": "orc"}, "format='orc': must be one of parquet"),
        ({"mode": "ignore"}, "mode='ignore': must be one of append, overwrite, errorifexists"),
        ({"mode": "PERMISSIVE"}, "For damage set read_mode='PERMISSIVE'"),
        ({"read_mode": "append"}, "must be one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
        ({"compression": "xz"}, "compression='xz': must be one of zstd"),
        ({"value_as": "avro"}, "value_as='avro': must be one of None, utf8"),
        ({"value_as": "utf8", "columns": ["offset"]}, "value_as is for the column value"),
        ({"partition_by": "key"}, r"partition_by=\('key',\): must be some of topic, partition, date"),
        ({"partition_by": ("date", "date")}, "each once"),
        ({"columns": ["topic"]}, "leaves none of them for the files"),
        ({"columns": ["ofset"]}, "did you mean offset"),
        ({"view": "batches"}, "option view is for read, not for write_table"),
        ({"columnNameOfCorruptRecord": "bad"}, "for read, stream, not for write_table"),
        ({"endOfLog": "strict"}, "for read, stream, count, damage_report, not for write_table"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "nothing"}, "cannot find nothing"),
    ],
    ids=str,
)
def test_wrong_arguments_write_nothing(source, out, options, text):
    with pytest.raises(ValueError, match=text):
        write(source, out, **options)
    assert not out.exists()


def test_a_folder_with_something_else_is_refused(source, tmp_path, out):
    with pytest.raises(ValueError, match="holds t-0, and no table that write_table has made"):
        write(source, source)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "part-00000.parquet").touch()
    for mode in ("append", "overwrite"):
        with pytest.raises(ValueError, match=r"holds part-00000\.parquet"):
            write(source, tmp_path / "other", mode=mode)
    write(source, out)
    with pytest.raises(ValueError, match=r"holds another table \(_table\.json\)"):
        publishing.resolve_folder(str(out), {})
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        write(source, tmp_path / "file")


def test_no_table_is_written_into_a_folder_that_is_read(source):
    """A broker does not start where a folder of its data folder is not named topic-partition."""
    for given, out in ((source, "table"), (source, "t-0/table"), (source / "t-1", "t-1/table")):
        with pytest.raises(ValueError, match=r"/table is in .*, one of the inputs: nothing is written there"):
            write(given, source / out)
    (source / "meta.properties").touch()
    with pytest.raises(ValueError, match=r"/table is in .*, the data folder that holds .*: nothing is written there"):
        write(source / "t-0", source / "table")
    assert sorted(each.name for each in source.rglob("*") if each.is_dir()) == ["t-0", "t-1"]


# ---- other drivers, killed drivers


class Meanwhile(Frames):
    """What `happens` when the tasks have ended, and before the driver commits."""

    def __init__(self, happens):
        self.happens = happens

    def collect(self):
        self.happens()
        return super().collect()


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("is_new", [True, False])
def test_of_two_drivers_one_gets_a_conflict(source, out, mode, is_new):
    if not is_new:
        write(source, out)
        grown(source, "e")
    other = Meanwhile(lambda: write(source, out))
    with pytest.raises(spark_udfs.Conflict, match=r"job [0-9a-f]{32} has changed the table since"):
        write(source, out, other, mode=mode)
    assert values(out) == (ALL if is_new else [*ALL[:3], "t-0 3 e", ALL[3]])
    assert not (out / "_temporary").exists()
    write(source, out, mode=mode)
    assert values(out) == (ALL if is_new else [*ALL[:3], "t-0 3 e", ALL[3]])


class InTasks(Frames):
    def first(self):
        return self.lines[0]


def conflicts():
    raise spark_udfs.Conflict("the table has changed")


def test_a_table_that_was_removed_meanwhile_is_a_conflict_also_with_connect(source, out):
    write(source, out)
    grown(source, "e")
    other = Meanwhile((out / "_table.json").unlink)
    with pytest.raises(
        spark_udfs.Conflict, match=r"_table\.json is not there any more since .* nothing of this job is there"
    ):
        write(source, out, other)

    with pytest.raises(spark_udfs.Conflict, match="the table has changed"):
        cluster.call_in_task(InTasks(), conflicts)


def test_staged_files_of_another_machine_are_told(source, out):
    other = Meanwhile(lambda: [path.unlink() for path in out.rglob("*.staged")])
    with pytest.raises(FileNotFoundError, match="must be a folder that the driver and all executors share"):
        write(source, out, other)
    assert not (out / "_temporary").exists()


# ---- in a session


@pytest.mark.spark
def test_the_table_is_the_one_that_spark_writes(spark_session, tmp_path):
    from pyspark.sql import functions as F

    spark, ours, theirs = spark_session, str(tmp_path / "ours"), str(tmp_path / "theirs")
    options = {"includeHeaders": "true", "minPartitions": "3"}
    written = spark_udfs.write_table(spark, str(SEGMENTS), ours, **options)
    source = spark.read.format("kafkarec").options(**options).load(str(SEGMENTS))
    source.withColumn("date", F.to_date("timestamp")).write.partitionBy("topic", "date").parquet(theirs)
    one, other = spark.read.parquet(ours), spark.read.parquet(theirs)
    assert one.schema == other.schema
    assert one.exceptAll(other).count() == other.exceptAll(one).count() == 0
    assert written.rows == one.count() == 1617
    assert spark_udfs.write_table(spark, str(SEGMENTS), ours, **options).rows == 0
    assert spark.read.parquet(ours).count() == 1617
