"""Archives in folders key=value: columns, options, streams, several folders of one partition as one log. Which folders
are found: tests/unit/storage/test_find.py."""

import gzip
import json
import os
import shutil
from collections import Counter
from datetime import date
from itertools import pairwise
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import flipped
from paths import SEGMENTS
from plain_logs import log
from pyspark.sql import types as T
from s3server import BUCKET, WITH_INDEXES, running
from source_rows import Read, read
from stream_engine import Query, caught_up

import kafkarec
import spark_udfs
from kafkarec.distributed import inferred_type
from spark_udfs.source.growing_log import GrowingLog
from spark_udfs.source.listing import DataLoss

LOG = (SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes()
TXN = SEGMENTS / "txn-0"
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


def parts(count, data=LOG):
    """The log cut between batches into `count` segments: (base offset, bytes)."""
    batches = list(kafkarec.batches(data))
    borders = [len(batches) * number // count for number in range(count + 1)]
    return [
        (batches[begin].base_offset or 0, b"".join(bytes(each.raw) for each in batches[begin:end]))
        for begin, end in pairwise(borders)
    ]


def archive(root, *folders, topic="ev", data=LOG):
    """The log in these folders, each with an equal part of it: <root>/<folder>/<topic>-0."""
    for folder, part in zip(folders, parts(len(folders), data), strict=True):
        log(root / folder / f"{topic}-0", part)
    return root


@pytest.fixture
def days(tmp_path):
    return archive(tmp_path / "arch", *(f"date={day}" for day in DAYS))


EXPECTED = [(record.offset, record.value) for record in kafkarec.decode(LOG)]
FIRSTS = [base for base, _ in parts(3)]


def values(rows):
    return [(row["offset"], row["value"]) for row in rows]


def assert_refused(message, path, **options):
    """By a read and by a stream."""
    with pytest.raises(ValueError, match=message):
        read(path, **options)
    with pytest.raises(ValueError, match=message):
        caught_up(path, **options)


# ---- one log of several folders ------------------------------------------------------------------------------------


def test_date_folders_are_one_log_in_order_of_offsets(days):
    job = Read(days)
    assert job.reader.columns[-1].name == "date" and values(job.rows) == EXPECTED
    assert {(row["topic"], row["partition"]) for row in job.rows} == {("ev", 0)}
    assert {row["offset"]: row["date"] for row in job.rows if row["offset"] in FIRSTS} == {
        first: date.fromisoformat(day) for first, day in zip(FIRSTS, DAYS, strict=True)
    }
    assert [split.later_segment for split in job.splits] == [True, True, False]
    reversed_days = archive(days.parent / "reversed", *(f"date={day}" for day in reversed(DAYS)))
    assert values(read(reversed_days)) == EXPECTED
    assert values(read(days, startingOffsets=json.dumps({"ev": {"0": FIRSTS[1] + 5}}))) == [
        each for each in EXPECTED if each[0] >= FIRSTS[1] + 5
    ]


# ---- overlaps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["records", "batches"])
def test_overlapping_folders_are_refused(tmp_path, view):
    whole, half = list(kafkarec.batches(LOG)), parts(2)[1]
    log(tmp_path / "date=2026-11-01" / "ev-0", (bytes(each.raw) for each in whole[:-3]))
    log(tmp_path / "date=2026-11-02" / "ev-0", half)
    end = (whole[-3].base_offset or 0) - 1
    message = (
        rf"^ev-0: {tmp_path}/date=2026-11-01/ev-0/0{{20}}\.log has offsets 0 to {end}, and "
        rf"{tmp_path}/date=2026-11-02/ev-0/{half[0]:020}\.log has offsets {half[0]} to 864: they overlap, .*"
        r"option\(\"where\", \"date <> '2026-11-02'\"\)$"
    )
    with pytest.raises(ValueError, match=message):
        read(tmp_path, view=view)
    with pytest.raises(ValueError, match=message):
        caught_up(tmp_path)
    assert read(tmp_path, where="date <> '2026-11-02'")


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_an_overlap_of_compressed_segments_is_found_when_they_are_read(tmp_path, mode):
    batches, half = list(kafkarec.batches(LOG)), parts(2)[1]
    first = tmp_path / "date=2026-11-01" / "ev-0" / f"{0:020}.log.gz"
    first.parent.mkdir(parents=True)
    log(tmp_path / "date=2026-11-02" / "ev-0", half)
    first.write_bytes(gzip.compress(parts(2)[0][1]))
    assert values(read(tmp_path, mode=mode)) == EXPECTED
    query = caught_up(tmp_path, mode=mode)
    assert query.rows["ev", 0] == EXPECTED
    first.write_bytes(gzip.compress(b"".join(bytes(each.raw) for each in batches[:-3])))
    message = rf"ev-0: {first} has offsets up to .*{half[0]:020}\.log has offsets from {half[0]} on: they overlap"
    assert_refused(message, tmp_path, mode=mode)


# ---- transactions ---------------------------------------------------------------------------------------------------


def test_a_marker_in_the_next_folder_ends_a_transaction(tmp_path):
    """Cut where transactions are open: the folders' side files are those of other segments, or none."""
    data = b"".join(path.read_bytes() for path in sorted(TXN.glob("*.log")))
    expected = [(each.offset, each.value) for each in kafkarec.open(TXN).read(isolation="read_committed")]
    for count in (2, 5, 20):
        folders = (f"date=2026-11-{number:02}" for number in range(1, count + 1))
        root = archive(tmp_path / str(count), *folders, topic="txn", data=data)
        assert values(read(root, isolationLevel="read_committed")) == expected


# ---- columns --------------------------------------------------------------------------------------------------------


def test_columns_by_name_and_by_schema(days):
    rows = read(days, columns="date,offset")
    assert list(rows[0]) == ["date", "offset"] and rows[0]["date"] == date(2026, 11, 1)
    texts = read(days, T.StructType([T.StructField("date", T.StringType()), T.StructField("offset", T.LongType())]))
    assert [str(row["date"]) for row in rows] == [row["date"] for row in texts]
    batches = read(days, view="batches")
    assert list(batches[0])[-1] == "date" and {row["date"].isoformat() for row in batches} == set(DAYS)
    metadata = read(days, includeMetadata="true", columnNameOfCorruptRecord="bad")
    assert list(metadata[0])[-2:] == ["bad", "date"]
    with pytest.raises(ValueError, match="no column 'dat'; did you mean date"):
        read(days, columns="dat")
    with pytest.raises(ValueError, match="column date is date, not double"):
        read(days, T.StructType([T.StructField("date", T.DoubleType())]))
    with pytest.raises(ValueError, match=r"column date is int, .* '2026-11-01' is not a whole number below"):
        read(days, T.StructType([T.StructField("date", T.IntegerType())]))


def test_a_row_of_damage_has_its_date(days):
    path = next((days / f"date={DAYS[1]}" / "ev-0").glob("*.log"))
    path.write_bytes(flipped(path.read_bytes(), 200))
    rows = read(days, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    assert [row["date"] for row in rows if row["bad"]] == [date(2026, 11, 2)]


@pytest.mark.parametrize("name", ["offset", "Key", "timestamp", "_magic", "_corrupt_record", "Topic"])
def test_a_key_with_the_name_of_a_column_is_refused(tmp_path, name):
    archive(tmp_path, f"{name}=1", f"{name}=2")
    with pytest.raises(ValueError, match=rf"folders {name}=\.\.\. have the name of a column .* by a glob"):
        read(tmp_path)
    assert values(read(tmp_path / f"{name}=*")) == EXPECTED


def test_folders_that_are_not_alike_are_refused(days):
    log(days / "date=2026-11-04" / "hour=00" / "ev-0", (865, LOG))
    message = r"same keys: .* has date, and .*date=2026-11-04/hour=00/ev-0 has date, hour\. Load them one by one"
    with pytest.raises(ValueError, match=message):
        read(days)
    shutil.rmtree(days / "date=2026-11-04")
    log(days / "orders-0", (0, LOG))
    with pytest.raises(ValueError, match=r"same keys: .* none"):
        read(days)


def test_a_value_of_another_type_than_the_first_folders_is_refused(tmp_path):
    archive(tmp_path, "date=2026-11-01/hour=05", "date=2026-11-02/hour=late")
    with pytest.raises(ValueError, match=r"hour is int, .*'late' is not a whole number .*hour=late/.*hour string"):
        read(tmp_path)
    text = T.StructType([T.StructField("hour", T.StringType())])
    assert {row["hour"] for row in read(tmp_path, text)} == {"05", "late"}


# Folders, and the type and values that the columns have.
INFERRED = {
    "int": ["05", "-5", "2026"],
    "int ": ["__HIVE_DEFAULT_PARTITION__", "5"],
    "bigint": ["5", "99999999999"],
    "date": ["2026-11-01", "0001-01-01"],
    "string": ["x", "2026-11-01"],
    "string ": ["05", "x"],
    "string  ": ["a%20b", "a%3Ab", "%C3%A9", "é", "%zz", "a=b"],
    "string   ": ["2026-11-1", "2026-11", "2026-02-30", "1_000", "true"],
}


def one_row(folder):
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [0]}), folder / "rows.parquet")


@pytest.mark.spark
@pytest.mark.parametrize("kind", INFERRED)
def test_names_values_and_types_are_those_of_sparks_file_sources(kind, tmp_path, spark_session):
    folders = [f"k%20ey={value}" for value in INFERRED[kind]]
    archive(tmp_path / "ours", *folders)
    for folder in folders:
        one_row(tmp_path / "theirs" / folder)
    ours = spark_session.read.format("kafkarec").load(str(tmp_path / "ours"))
    theirs = spark_session.read.parquet(str(tmp_path / "theirs"))
    assert (
        ours.schema["k ey"] == theirs.schema["k ey"] and theirs.schema["k ey"].dataType.simpleString() == kind.strip()
    )
    assert ours.columns[-1] == theirs.columns[-1] == "k ey"
    rows = (frame.select("k ey").collect() for frame in (ours.select("k ey").distinct(), theirs))
    assert Counter(next(rows)) == Counter(next(rows))


@pytest.mark.spark
@pytest.mark.parametrize(
    "value, spark", [("1.5", "double"), ("1e5", "decimal(6,0)"), ("2026-11-01 05%3A00%3A00", "timestamp")]
)
def test_types_that_are_strings_here_and_not_in_spark(value, spark, tmp_path, spark_session):
    one_row(tmp_path / f"k={value}")
    assert spark_session.read.parquet(str(tmp_path)).schema["k"].dataType.simpleString() == spark
    assert inferred_type([unquote(value)]) == "string"


# ---- basePath -------------------------------------------------------------------------------------------------------


def test_a_base_path_gives_the_columns_of_the_folders_below_it(days):
    chosen = days / "date=2026-11-0[12]"
    assert "date" not in read(chosen)[0]
    rows = read(chosen, basePath=str(days))
    assert {row["date"].isoformat() for row in rows} == set(DAYS[:2])
    assert rows == read(chosen / "ev-0" / "*.log", basePath=f"file://{days}/")
    assert rows == read(chosen, basePath=str(days.parent))
    assert {row["date"] for row in read(chosen, basePath=str(days), where="date > '2026-11-01'")} == {date(2026, 11, 2)}
    with pytest.raises(ValueError, match=r"option basePath='.*/other': .*date=2026-11-01 is not below it"):
        read(chosen, basePath=str(days.parent / "other"))


# ---- where ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where, message",
    [
        ("", r"option where='': '' cannot be read; expected comparisons .* joined by AND, such as date"),
        ("offset > 5", "option where: no folder has the key 'offset'; there are: date"),
        ("date = '2026-11-1'", "option where: '2026-11-1' is not a date such as 2026-11-01, and the folders of date"),
    ],
)
def test_a_where_that_cannot_be_right_is_refused(where, message, days):
    assert_refused(message, days, where=where)
    with pytest.raises(ValueError, match=r"option where: no folder date=\.\.\. is below the path\. .* startingOffsets"):
        read(TXN, where="date = '2026-11-01'")


def test_folders_that_where_excludes_are_not_listed(days, monkeypatch):
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path=".": (listed.append(str(path)), real(path))[1])
    assert len(read(days, where="date = '2026-11-02'")) > 0
    assert any("2026-11-02" in path for path in listed)
    assert not any("2026-11-01" in path or "2026-11-03" in path for path in listed)


def test_the_schema_is_the_same_whatever_where_excludes(tmp_path):
    archive(tmp_path, "date=2026-11-01/hour=05", "date=2026-11-02/hour=06")
    schemas = {Read(tmp_path, where=f"date {each} '2026-11-01'").reader.columns for each in "=<>"}
    assert len(schemas) == 1
    (tmp_path / "date=2026-10-31").mkdir()  # without any hour
    assert Read(tmp_path).reader.columns in schemas


# ---- streams --------------------------------------------------------------------------------------------------------


def test_a_stream_reads_new_date_folders(tmp_path):
    cuts = parts(4)
    log(tmp_path / "date=2026-11-01" / "ev-0", cuts[0])
    query = caught_up(tmp_path)
    (tmp_path / "date=2026-11-02").mkdir()
    assert query.run() == 0
    log(tmp_path / "date=2026-11-02" / "ev-0", cuts[1])
    assert query.run() == 1
    query.restart()
    log(tmp_path / "date=2026-11-03" / "ev-0", (cuts[2][0], cuts[2][1][:100]))
    assert query.run() == 0
    log(tmp_path / "date=2026-11-03" / "ev-0", cuts[2])
    assert query.trigger(crash=True)
    log(tmp_path / "date=2026-11-04" / "ev-0", cuts[3])
    assert query.run() == 1 and query.run() == 0
    assert query.rows["ev", 0] == EXPECTED


def test_a_streams_rows_have_their_date(days):
    query = Query(days, maxOffsetsPerTrigger="100", columns="topic,partition,offset,value,date")
    seen = []
    real = query._task
    query._task = lambda task: [seen.append((row["offset"], row["date"])) or row for row in real(task)]
    query.run()
    assert seen == [(row["offset"], row["date"]) for row in read(days)] and len(query.sizes) > 3


def test_a_stream_with_where_and_one_whose_new_folder_is_of_another_type(days):
    query = caught_up(days, where="date >= '2026-11-02'")
    assert query.rows["ev", 0] == [each for each in EXPECTED if each[0] >= FIRSTS[1]]
    every = caught_up(days, columns="topic,partition,offset,value,date")
    log(days / "date=later" / "ev-0", (865, kafkarec.encode([(865, 0, None, b"x", [])])))
    with pytest.raises(ValueError, match=r"the column date is date, .* 'later' is not a date such as 2026-11-01"):
        every.reader.partitions(json.loads(every.log[-1]), every.reader.latestOffset(json.loads(every.log[-1]), None))


@pytest.mark.parametrize("lists_twice", [False, True])
def test_a_folder_that_appears_after_its_offsets_is_a_loss(days, caplog, monkeypatch, lists_twice):
    """lists_twice: a file disappears after the first listing that has the folder."""
    real, disappears = GrowingLog.clamp_reporting_loss, []

    def clamp(self, *arguments, **options):
        if disappears:
            raise disappears.pop()
        return real(self, *arguments, **options)

    monkeypatch.setattr(GrowingLog, "clamp_reporting_loss", clamp)
    first = days / f"date={DAYS[0]}"
    first.rename(days.parent / "later")
    for strict in ("true", "false"):
        query = caught_up(days, failOnDataLoss=strict)
        (days.parent / "later").rename(first)
        disappears += [FileNotFoundError()] * lists_twice
        log(days / "date=2026-11-04" / "ev-0", (865, kafkarec.encode([(865, 0, None, b"x", [])])))
        if strict == "true":
            with pytest.raises(
                DataLoss, match=rf"ev-0: {first}/ev-0/.*\.log has appeared, and offsets up to 864 were read"
            ):
                query.run()
        else:
            assert query.run() == 1 and query.rows["ev", 0][-1][0] == 865
        first.rename(days.parent / "later")
        shutil.rmtree(days / "date=2026-11-04")
    assert caplog.text.count("has appeared") == 1


# ---- in a session ---------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_archives(days, tmp_path, spark_session):
    reader = spark_session.read.format("kafkarec")
    frame = reader.load(str(days))
    assert frame.where("date = '2026-11-02'").count() == FIRSTS[2] - FIRSTS[1]
    assert [tuple(row) for row in frame.groupBy("date").count().orderBy("date").collect()] == [
        (date.fromisoformat(day), end - first) for day, first, end in zip(DAYS, FIRSTS, [*FIRSTS[1:], 865], strict=True)
    ]
    assert frame.schema == spark_udfs.read_log(spark_session, str(days)).schema
    assert spark_udfs.read_log(spark_session, str(days), where="date > '2026-11-02'").count() == 865 - FIRSTS[2]
    texts = reader.schema("date string, offset long").load(str(days))
    assert texts.orderBy("offset").first() == ("2026-11-01", 0)
    where = "date >= ''2026-11-02''"
    options = f"path '{days}', where '{where}', view 'batches'"
    spark_session.sql(f"CREATE OR REPLACE TEMPORARY VIEW ev USING kafkarec OPTIONS ({options})")
    assert spark_session.sql("SELECT min(date) FROM ev").first()[0] == date(2026, 11, 2)
    stream = spark_session.readStream.format("kafkarec").load(str(days)).select("date", "offset")
    query = stream.writeStream.format("memory").queryName("archived").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark_session.table("archived").count() == 865 and spark_session.table("archived").dtypes[0][1] == "date"


@pytest.mark.spark
def test_a_damage_report_has_the_keys_of_the_folders(days, spark_session):
    path = next((days / f"date={DAYS[1]}" / "ev-0").glob("*.log"))
    path.write_bytes(flipped(path.read_bytes(), 200))
    report = spark_udfs.damage_report(spark_session, str(days))
    assert [each["date"] for each in report.files] == list(DAYS) and report.rows[0]["date"] == DAYS[1]
    assert [tuple(row) for row in report.frame.select("file", "date").collect()] == [(str(path), DAYS[1])]
    good = spark_udfs.damage_report(spark_session, str(days), where="date <> '2026-11-02'")
    assert good.rows == () and good.frame.columns[-1] == "date"


# ---- buckets --------------------------------------------------------------------------------------------------------


def test_archives_in_a_bucket(tmp_path):
    with running("s3fs", "pyarrow") as server:
        server.put_folder(archive(tmp_path, *(f"date={day}" for day in DAYS)), "arch", WITH_INDEXES)
        options, url = {"storageOptions": json.dumps(server.options())}, f"s3://{BUCKET}/arch"
        rows = read(url, **options)
        assert values(rows) == EXPECTED and {row["date"].isoformat() for row in rows} == set(DAYS)
        chosen = read(f"{url}/date=*", basePath=f"s3a://{BUCKET}/arch/", where="date < '2026-11-03'", **options)
        assert chosen == [row for row in rows if row["date"] < date(2026, 11, 3)]
        query = caught_up(url, **options)
        assert query.rows["ev", 0] == EXPECTED
