"""Columns and options of the data source: a user's schema, metadata, the batches view, wrong values."""

import re

import pytest
from paths import DOCS, SEGMENTS
from plain_logs import log
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from source_rows import LOGS, read, spoil

import kafkarec
from spark_udfs import schema
from spark_udfs.source import columns, options

TXN = SEGMENTS / "txn-0"
KAFKA_SOURCE = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def struct(**fields):
    return T.StructType([T.StructField(name, type_) for name, type_ in fields.items()])


def names(**source_options):
    chosen = options.parse({name.lower(): value for name, value in source_options.items()}, "read")
    struct_type = columns.spark_schema(columns.select_columns(chosen))
    assert columns.from_schema(struct_type, chosen) == columns.select_columns(chosen)
    return struct_type.fieldNames()


def test_the_kafka_sources_columns_in_its_order():
    metadata = [column.name for column in columns.METADATA]
    assert names() == KAFKA_SOURCE
    assert names(includeHeaders="true") == [*KAFKA_SOURCE, "headers"]
    assert names(includeMetadata="TRUE") == [*KAFKA_SOURCE, *metadata]
    assert names(columnNameOfCorruptRecord="bad") == [*KAFKA_SOURCE, "bad"]
    assert names(columns="offset, headers,_magic") == ["offset", "headers", "_magic"]
    assert names(view="batches")[:4] == ["topic", "partition", "file", "position"]


def test_types_are_those_of_spark():
    for column in (*columns.RECORDS, *columns.METADATA, *columns.BATCHES):
        field = columns.spark_schema((column,)).fields[0]
        assert field.dataType.simpleString() == column.type and field.nullable
    for table in (schema.RECORD_COLUMNS, schema.BATCH_COLUMNS):  # so that nothing is cast
        ours, sparks = (
            schema.arrow_struct_list(table),
            to_arrow_type(T.ArrayType(columns.spark_schema(table)), timezone="UTC"),
        )
        assert ours.equals(sparks, check_metadata=True) and str(ours) == str(sparks)


def test_names_and_types_of_the_kafka_source():
    """org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.schemaWithHeaders, plus the corrupt record."""
    assert schema.sql_struct(schema.RECORD_COLUMNS) == (
        "struct<topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,key:binary,value:binary,"
        "headers:array<struct<key:string,value:binary>>,_corrupt_record:string>"
    )
    assert set(schema.kafkarec_names(schema.BATCH_COLUMNS)) == set(kafkarec.scan(b"").schema.names)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_a_users_schema_selects_and_orders_the_columns(path):
    whole = read(path, includeHeaders="true", includeMetadata="true")
    some = struct(_sequence=T.IntegerType(), value=T.BinaryType(), topic=T.StringType(), offset=T.LongType())
    rows = read(path, some)
    assert rows == [{name: row[name] for name in some.fieldNames()} for row in whole]
    assert [list(row) for row in rows] == [some.fieldNames()] * len(whole)
    assert read(path, columns="_sequence,value,topic,offset") == rows
    assert read(path, columns="topic") == [{"topic": row["topic"]} for row in whole]


@pytest.mark.parametrize(
    "source_options, message",
    [
        (struct(ofset=T.LongType()), r"no column 'ofset'; did you mean offset\?; there are: key binary, .* int"),
        (struct(offset=T.IntegerType()), "column offset is bigint, not int; cast it after reading"),
        (struct(value=T.StringType()), "column value is binary, not string"),
        (T.StructType([T.StructField("offset", T.LongType(), False)]), "column offset may be null: leave NOT NULL out"),
        (T.StructType([T.StructField("offset", T.LongType())] * 2), "named twice: offset"),
        (struct(position=T.LongType()), "no column 'position'"),
    ],
)
def test_wrong_columns_of_a_users_schema_are_refused(source_options, message):
    with pytest.raises(ValueError, match=message):
        read(TXN, source_options)


@pytest.mark.parametrize(
    "source_options, message",
    [
        ({"columns": "offset,ofset"}, "no column 'ofset'; did you mean offset"),
        ({"columns": "OFFSET"}, "no column 'OFFSET'; did you mean offset"),
        ({"columns": "offset,offset"}, "named twice: offset"),
        ({"columns": " , "}, "option columns=' , ': must be names with commas"),
        ({"columns": "offset", "view": "batches"}, "no column 'offset'.*there are: topic string"),
        ({"columnNameOfCorruptRecord": "value"}, "columnNameOfCorruptRecord='value' is the name of another column"),
        ({"maxPartitonBytes": "1"}, r"no option 'maxpartitonbytes', as Spark passes it, in lower case; did you"),
        ({"pathGlobFilter": "*.log"}, "no option pathGlobFilter: a glob in the path chooses files, such as"),
        ({"modifiedAfter": "2026-01-01"}, "no option modifiedAfter: startingTimestamp is for the times of records"),
        ({"kafka.bootstrap.servers": "a:9092"}, "no option 'kafka.bootstrap.servers'"),
        ({"maxPartitionBytes": "0"}, "maxPartitionBytes='0': must be a number of bytes above 0, such as 1048576"),
        ({"maxPartitionBytes": "many"}, "maxPartitionBytes='many'"),
        ({"minPartitions": "-1"}, "minPartitions='-1': must be a whole number above 0"),
        ({"includeHeaders": "yes"}, "includeHeaders='yes': must be true or false"),
        ({"mode": "LENIENT"}, "mode='LENIENT': must be one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
        ({"isolationLevel": "committed"}, "one of read_uncommitted, read_committed"),
        ({"storageOptions": "[]"}, "option storageOptions: must be a JSON object"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970, or a time such as 2026-11-01"),
        ({"startingTimestamp": "1969-12-31"}, "must not be before 1970"),
        ({"endingOffsetsByTimestamp": "5"}, 'JSON such as {"topic": {"0": 1700000000000}}'),
        (
            {"endingOffsetsByTimestamp": '{"t": {"0": 1700000000}}'},
            "looks like seconds, .*write 1700000000000 or",
        ),
        (
            {"startingTimestamp": "1700000000000000"},
            "looks like microseconds, .*write 1700000000000 or 2023-11-14",
        ),
        (
            {"isolationLevel": "read_committed", "kafka.isolation.level": "read_committed"},
            "isolationLevel is set twice",
        ),
    ],
)
def test_wrong_options_are_refused(source_options, message):
    with pytest.raises(ValueError, match=message):
        read(TXN, **source_options)


@pytest.mark.parametrize(
    "text, number", [("1", 1), ("64m", 64 << 20), ("64MB", 64 << 20), ("2 GiB", 2 << 30), ("8k", 8 << 10)]
)
def test_sizes_are_parsed(text, number):
    assert options.parse({"maxpartitionbytes": text}, "read").maxPartitionBytes == number


def test_an_option_for_reading_is_refused_for_writing():
    only_read = next(each.name for each in options.TABLE if each.uses == "read")
    with pytest.raises(ValueError, match=f"option {only_read} is for read, not for write"):
        options.parse_for_write({only_read: "1"})
    lower = [each.name.lower() for each in options.TABLE]
    assert len(set(lower)) == len(lower)


def test_every_option_is_on_the_pages_about_the_source():
    pages = "".join((DOCS / "spark" / f"{page}.md").read_text() for page in ("read", "stream", "write"))
    assert [one.name for one in options.TABLE if not re.search(rf"\b{one.name}\b", pages)] == []


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_metadata_equals_the_batch_fields(path):
    segment = kafkarec.open(path)
    expected = segment.read(columns=["offset", *(c.source for c in columns.METADATA if c.source)], control=True)
    rows = read(path, includeMetadata="true", includeControl="true", maxPartitionBytes="2000")
    for column in columns.METADATA:
        if column.source:
            assert [row[column.name] for row in rows] == expected.column(column.source), column.name
    crcs = dict(zip(expected.batches.column("position"), expected.batches.column("crc"), strict=True))
    assert [row["_batch_crc"] for row in rows] == [crcs[row["_file_position"]] for row in rows]
    assert {row["_file_path"] for row in rows} == {str(path)}
    assert any(row["_is_control"] for row in rows) == any(expected.batches.column("is_control"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("size", ["1g", "600"])
def test_batches_view_equals_the_local_scan(path, size):
    table = kafkarec.open(path).scan()
    rows = read(path, view="batches", maxPartitionBytes=size)
    assert len(rows) == len(table)
    for row, batch in zip(rows, table, strict=True):
        of_time = ("base_timestamp", "max_timestamp")
        times = {name: row[name] and round(row[name].timestamp() * 1000) for name in of_time}
        kind = schema.NO_TIMESTAMP_TYPE if batch["timestamp_type"] is None else batch["timestamp_type"]
        rest = {name: value for name, value in batch.items() if name != "timestamp_type"}
        assert {name: row[name] for name in rest} | times == rest
        assert (row["timestampType"], row["file"]) == (kind, str(path))
        assert path.parent.name == f"{row['topic']}-{row['partition']}"


def test_batches_view_reports_damage(tmp_path):
    for seed in range(20):  # a flipped bit in a length or a magic is found without the checksum
        data = bytearray(LOGS[-1].read_bytes())
        data[10 + 181 * (seed % 2)] ^= 1 << (seed % 7)
        path = log(tmp_path / f"t-{seed}", (0, bytes(data))) / f"{0:020}.log"
        table = kafkarec.open(path).scan(errors="skip")
        source_options = {"view": "batches", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
        rows = read(path, **source_options)
        assert [row["position"] for row in rows if row["why"] is None] == table.column("position")
        assert [row["position"] for row in rows if row["why"]] == [each.position for each in table.damage]
        assert table.damage
        with pytest.raises(kafkarec.KafkaRecordError):
            read(path, view="batches")


def test_the_corrupt_column_can_be_renamed_and_be_in_a_users_schema(tmp_path):
    path = log(tmp_path / "t-0", (0, spoil(LOGS[2].read_bytes(), 1))) / f"{0:020}.log"
    damage = kafkarec.open(path).read(errors="skip").damage
    assert damage
    rows = read(path, mode="PERMISSIVE", columnNameOfCorruptRecord="why", columns="offset,why,_file_position")
    damaged_rows = [row for row in rows if row["why"]]
    assert [row["_file_position"] for row in damaged_rows] == [each.position for each in damage]
    some = struct(_corrupt_record=T.StringType(), topic=T.StringType())
    rows = read(path, some, mode="PERMISSIVE")
    assert len(rows) - len(damage) == len(kafkarec.open(path).read(errors="skip"))
    assert {row["topic"] for row in rows} == {"t"}
