"""The data source in a Spark session: schema, SQL, plans, errors; rows equal to those of the UDF and the local API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import SEGMENTS
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter
from source_rows import EVERYTHING, LOGS, expected, log_folder, spoil

import kafkarec
from spark_udfs import schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TXN = SEGMENTS / "txn-0"
# org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.schemaWithHeaders
KAFKA_SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
HEADERS = "headers array<struct<key: string, value: binary>>"


@pytest.fixture
def load(spark_session: Any) -> Callable[..., Any]:
    def frame(path: Path | str | list[str], **options: str) -> Any:
        reader = spark_session.read.format("kafkarec").options(**options)
        return reader.load(path if isinstance(path, list) else str(path))

    return frame


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def in_order(result: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in result)


def test_schema_is_the_kafka_sources(spark_session: Any, load: Callable[..., Any]) -> None:
    from pyspark.sql.types import StructType

    wanted = StructType.fromDDL(KAFKA_SOURCE)
    assert load(TXN).schema == wanted
    with_headers = load(TXN, includeHeaders="true")
    assert with_headers.schema == StructType.fromDDL(f"{KAFKA_SOURCE}, {HEADERS}")
    live = spark_session.createDataFrame([], with_headers.schema)
    assert live.unionByName(with_headers).count() == 267


def test_local_api_udf_and_data_source_return_the_same_rows(spark_session: Any, load: Callable[..., Any]) -> None:
    from spark_udfs.functions import kafka_explode

    names = ["key", "value", "offset", "timestamp", "timestampType", "headers"]
    paths = [str(path) for path in LOGS]
    blobs = spark_session.read.format("binaryFile").load(paths)
    udf = rows(kafka_explode(blobs, "content").select(names))
    source = rows(load(paths, includeHeaders="true", maxPartitionBytes="3000").select(names))
    local = [
        {name: row[name] for name in names}
        for path in LOGS
        for row in (expected(each, None, None) for each in kafkarec.open(path).read())
    ]
    for row in local:  # collect() returns naive datetimes, here in UTC
        row["timestamp"] = row["timestamp"] and row["timestamp"].replace(tzinfo=None)
    assert in_order(source) == in_order(udf) == in_order(local)
    assert len(source) == sum(1 for _ in local)


def test_permissive_reports_the_udfs_reasons_and_the_file_names(
    spark_session: Any, load: Callable[..., Any], tmp_path: Path
) -> None:
    from spark_udfs.functions import kafka_explode

    for number, path in enumerate(LOGS):
        log_folder(tmp_path / f"t-{number}", (0, spoil(path.read_bytes(), number)))
    blobs = spark_session.read.format("binaryFile").load(str(tmp_path / "*"))
    names = ["offset", "value", schema.CORRUPT]
    # Base offsets and leader epochs are restored in files only.
    udf = rows(kafka_explode(blobs, "content", "PERMISSIVE", keep=["path"], restore=False).select("path", *names))
    options = {**EVERYTHING, "restore": "false"}
    source = rows(load(tmp_path, mode="PERMISSIVE", maxPartitionBytes="3000", **options).select(names))
    for row in udf:
        path = row.pop("path").removeprefix("file:")
        if row[schema.CORRUPT]:
            damage_json = json.loads(row[schema.CORRUPT])
            row[schema.CORRUPT] = (path, damage_json["position"], damage_json["length"], damage_json["reason"])
    for row in source:
        if row[schema.CORRUPT]:
            damage_json = json.loads(row[schema.CORRUPT])
            row[schema.CORRUPT] = (
                damage_json["path"],
                damage_json["position"],
                damage_json["length"],
                damage_json["reason"],
            )
    assert in_order(source) == in_order(udf)
    assert sum(row[schema.CORRUPT] is not None for row in source) > 3
    dropped = rows(load(tmp_path, mode="DROPMALFORMED", restore="false").select("offset", "value"))
    kept = [{name: row[name] for name in ("offset", "value")} for row in source if row[schema.CORRUPT] is None]
    assert in_order(dropped) == in_order(kept)


def test_splits_are_sparks_partitions(load: Callable[..., Any]) -> None:
    assert load(TXN).rdd.getNumPartitions() == 1  # too small for two, of local[2]
    many = load(TXN, maxPartitionBytes="1000")
    assert many.rdd.getNumPartitions() > 10
    assert [row.offset for row in many.collect()] == [each.offset for each in kafkarec.open(TXN).read()]
    assert load(SEGMENTS, minPartitions="5").rdd.getNumPartitions() >= 5


def test_sql_view_user_schema_and_no_rows(spark_session: Any, load: Callable[..., Any], tmp_path: Path) -> None:
    spark_session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW txn USING kafkarec OPTIONS (path '{TXN}', includeHeaders 'true')"
    )
    result = spark_session.sql("SELECT count(*), max(offset), count(headers) FROM txn").collect()[0]
    assert tuple(result) == (267, 291, 0)
    reader = spark_session.read.format("kafkarec").schema("offset long, value binary")
    frame = reader.load(str(TXN))
    assert frame.columns == ["offset", "value"] and frame.count() == 267
    with pytest.raises(Exception, match="supports views, not tables: CREATE TEMPORARY VIEW v USING kafkarec"):
        spark_session.sql(f"CREATE TABLE never_made USING kafkarec OPTIONS (path '{TXN}')")
    assert load(tmp_path).count() == 0
    assert load(TXN, subscribePattern="none").collect() == []


def pushing_source() -> type[DataSource]:
    """A source of one row, or of none after any filter was pushed. Its classes are local, so pickled as code."""

    class Reader(DataSourceReader):
        rows = 1

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
            self.rows = 0
            return filters

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield from [(1,)] * self.rows

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushing"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return Source


def test_spark_keeps_pushed_filters_for_the_whole_frame(spark_session: Any) -> None:
    """Why the source takes no filters: PythonScanBuilder.pushFilters saves the plan in the frame's source, and later
    uses of that frame read it. If this fails, Spark plans each use separately, and filters could be pushed."""
    key = "spark.sql.python.filterPushdown.enabled"
    spark_session.dataSource.register(pushing_source())
    spark_session.conf.set(key, "true")
    try:
        frame = spark_session.read.format("pushing").load()
        assert frame.count() == 1
        assert frame.where("n > 0").count() == 0
        assert frame.count() == 0
    finally:
        spark_session.conf.unset(key)


def test_time_zones_do_not_change_timestamps(spark_session: Any, load: Callable[..., Any]) -> None:
    result = []
    for zone in ("America/New_York", "UTC"):
        spark_session.conf.set("spark.sql.session.timeZone", zone)
        result.append([row[0] for row in load(TXN).selectExpr("unix_millis(timestamp)").collect()])
    assert result[0] == result[1] == [each.timestamp for each in kafkarec.open(TXN).read()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/missing/folder"}, r"\[PATH_NOT_FOUND\] Path does not exist: /missing/folder"),
        ({"path": str(TXN), "maxPartitonBytes": "1"}, r"did you mean maxPartitionBytes\?"),
        ({"path": str(TXN), "columns": "ofset"}, r"did you mean offset\?"),
    ],
)
def test_wrong_options_fail_in_load(options: dict[str, str], message: str, spark_session: Any) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=message):
        spark_session.read.format("kafkarec").options(**options).load()


def test_failfast_reports_file_byte_and_offset(load: Callable[..., Any], tmp_path: Path) -> None:
    data = bytearray((SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes())
    data[20_000] ^= 1
    path = log_folder(tmp_path / "t-0", (0, bytes(data))) / f"{0:020}.log"
    damage = kafkarec.open(path).read(errors="skip").damage[0]
    with pytest.raises(Exception, match="CorruptRecordError") as refused:
        load(path).count()
    (line,) = [line for line in str(refused.value).splitlines() if "CorruptRecordError: " in line]
    assert str(path) in line and f"at byte {damage.position} (base offset " in line
    assert "mode PERMISSIVE keeps everything else" in str(refused.value)


def test_a_file_that_is_no_segment_is_refused(load: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("no log, but words\n" * 20)
    with pytest.raises(Exception, match="If it is none, a glob such as") as refused:
        load(path).count()
    assert f"{path} at byte 0" in str(refused.value)
