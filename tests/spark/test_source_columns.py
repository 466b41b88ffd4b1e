"""Columns and options of the data source: a user's schema, metadata, the batches view, and wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paths import SEGMENTS
from pyspark.sql import types as T
from source_rows import LOGS, Read, log_folder, read, spoil

import kafkarec
from spark_udfs import schema
from spark_udfs.source import columns, options

pytestmark = pytest.mark.spark

TXN = SEGMENTS / "txn-0"
KAFKA_SOURCE = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, type_) for name, type_ in fields.items()])


def names(**given: str) -> list[str]:
    chosen = options.parse({name.lower(): value for name, value in given.items()}, "read")
    found = columns.struct(columns.chosen(chosen))
    assert columns.of_schema(found, chosen) == columns.chosen(chosen)
    return found.fieldNames()


def test_the_kafka_sources_columns_in_its_order() -> None:
    metadata = [column.name for column in columns.METADATA]
    assert names() == KAFKA_SOURCE
    assert names(includeHeaders="true") == [*KAFKA_SOURCE, "headers"]
    assert names(includeMetadata="TRUE") == [*KAFKA_SOURCE, *metadata]
    assert names(columnNameOfCorruptRecord="bad") == [*KAFKA_SOURCE, "bad"]
    assert names(columns="offset, headers,_magic") == ["offset", "headers", "_magic"]
    assert names(view="batches")[:4] == ["topic", "partition", "file", "position"]


def test_types_are_sparks() -> None:
    for column in (*columns.RECORDS, *columns.METADATA, *columns.BATCHES):
        field = columns.struct((column,)).fields[0]
        assert field.dataType.simpleString() == column.type and field.nullable


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_a_users_schema_gives_only_these_columns_in_this_order(path: Path) -> None:
    whole = read(path, includeHeaders="true", includeMetadata="true")
    some = struct(_sequence=T.IntegerType(), value=T.BinaryType(), topic=T.StringType(), offset=T.LongType())
    rows = read(path, some)
    assert rows == [{name: row[name] for name in some.fieldNames()} for row in whole]
    assert [list(row) for row in rows] == [some.fieldNames()] * len(whole)
    assert read(path, columns="_sequence,value,topic,offset") == rows
    assert read(path, columns="topic") == [{"topic": row["topic"]} for row in whole]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (struct(ofset=T.LongType()), r"no column 'ofset'; did you mean offset\?; there are: key binary, .* int"),
        (struct(offset=T.IntegerType()), "column offset is bigint, not int; cast it after reading"),
        (struct(value=T.StringType()), "column value is binary, not string"),
        (T.StructType([T.StructField("offset", T.LongType(), False)]), "column offset may be null: leave NOT NULL out"),
        (T.StructType([T.StructField("offset", T.LongType())] * 2), "named twice: offset"),
        (struct(position=T.LongType()), "no column 'position'"),
    ],
)
def test_wrong_columns_of_a_users_schema(given: T.StructType, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(TXN, given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"columns": "offset,ofset"}, "no column 'ofset'; did you mean offset"),
        ({"columns": "offset,offset"}, "named twice: offset"),
        ({"columns": " , "}, "option columns=' , ': names with commas"),
        ({"columns": "offset", "view": "batches"}, "no column 'offset'.*there are: topic string"),
        ({"columnNameOfCorruptRecord": "value"}, "columnNameOfCorruptRecord='value' is the name of a column"),
        ({"maxPartitonBytes": "1"}, r"no option 'maxpartitonbytes'; did you mean maxPartitionBytes\?"),
        ({"kafka.bootstrap.servers": "a:9092"}, "no option 'kafka.bootstrap.servers'"),
        ({"maxPartitionBytes": "0"}, "maxPartitionBytes='0': bytes above 0, such as 1048576, 64m or 1g"),
        ({"maxPartitionBytes": "many"}, "maxPartitionBytes='many'"),
        ({"minPartitions": "-1"}, "minPartitions='-1': a whole number above 0"),
        ({"includeHeaders": "yes"}, "includeHeaders='yes': true or false"),
        ({"mode": "LENIENT"}, "mode='LENIENT': one of FAILFAST, PERMISSIVE, DROPMALFORMED"),
        ({"isolationLevel": "committed"}, "one of read_uncommitted, read_committed"),
        ({"storageOptions": "[]"}, "option storageOptions: a JSON object"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": "5"}, 'JSON such as {"topic": {"0": 1700000000000}}'),
        ({"isolationLevel": "read_committed", "kafka.isolation.level": "read_committed"}, "only one of the options"),
    ],
)
def test_wrong_options(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(TXN, **given)


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("64m", 64 << 20), ("64MB", 64 << 20), ("2 GiB", 2 << 30), ("8k", 8 << 10)]
)
def test_sizes(text: str, number: int) -> None:
    assert options.parse({"maxpartitionbytes": text}, "read")["maxPartitionBytes"] == number


def test_options_of_another_use_are_told_apart() -> None:
    only_read = next(each.name for each in options.TABLE if each.uses == "read")
    with pytest.raises(ValueError, match=f"option {only_read} is for read, not for write"):
        options.parse({only_read: "1"}, "write")
    lower = [each.name.lower() for each in options.TABLE]
    assert len(set(lower)) == len(lower) and all(each.meaning for each in options.TABLE)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_metadata_is_the_batches(path: Path) -> None:
    segment = kafkarec.open(path)
    wanted = segment.read(columns=["offset", *(c.source for c in columns.METADATA if c.source)], control=True)
    rows = read(path, includeMetadata="true", includeControl="true", maxPartitionBytes="2000")
    for column in columns.METADATA:
        if column.source:
            assert [row[column.name] for row in rows] == wanted.column(column.source), column.name
    crcs = dict(zip(wanted.batches.column("position"), wanted.batches.column("crc"), strict=True))
    assert [row["_batch_crc"] for row in rows] == [crcs[row["_file_position"]] for row in rows]
    assert {row["_file_path"] for row in rows} == {str(path)}
    assert any(row["_is_control"] for row in rows) == any(wanted.batches.column("is_control"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("size", ["1g", "600"])
def test_batches_view_is_the_local_scan(path: Path, size: str) -> None:
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


def test_batches_view_of_damage(tmp_path: Path) -> None:
    for seed in range(20):  # a flipped bit in a length or a magic is seen without the checksum
        data = bytearray(LOGS[-1].read_bytes())
        data[10 + 181 * (seed % 2)] ^= 1 << (seed % 7)
        path = log_folder(tmp_path / f"t-{seed}", (0, bytes(data))) / f"{0:020}.log"
        table = kafkarec.open(path).scan(errors="skip")
        given: dict[str, Any] = {"view": "batches", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "why"}
        rows = read(path, **given)
        assert [row["position"] for row in rows if row["why"] is None] == table.column("position")
        assert [row["position"] for row in rows if row["why"]] == [each.position for each in table.damage]
        assert table.damage
        with pytest.raises(kafkarec.KafkaRecordError):
            read(path, view="batches")


def test_the_corrupt_column_under_another_name_and_in_a_users_schema(tmp_path: Path) -> None:
    path = log_folder(tmp_path / "t-0", (0, spoil(LOGS[2].read_bytes(), 1))) / f"{0:020}.log"
    damage = kafkarec.open(path).read(errors="skip").damage
    assert damage
    rows = read(path, mode="PERMISSIVE", columnNameOfCorruptRecord="why", columns="offset,why,_file_position")
    told = [row for row in rows if row["why"]]
    assert [row["_file_position"] for row in told] == [each.position for each in damage]
    some = struct(_corrupt_record=T.StringType(), topic=T.StringType())
    rows = read(path, some, mode="PERMISSIVE")
    assert len(rows) - len(damage) == len(kafkarec.open(path).read(errors="skip"))
    assert {row["topic"] for row in rows} == {"t"}


def test_unchecked_checksums_and_the_limit_of_a_payload(tmp_path: Path) -> None:
    good = kafkarec.encode([(0, 1, None, bytes(100_000), [])], compression="gzip")
    bad = good[:17] + bytes([good[17] ^ 1]) + good[18:]
    path = log_folder(tmp_path / "t-0", (0, bad))
    with pytest.raises(kafkarec.CorruptRecordError):
        read(path)
    assert len(read(path, checkCrcs="false")) == 1
    with pytest.raises(kafkarec.LimitExceededError):
        read(path, checkCrcs="false", maxDecompressedBytes="64k")
    told = Read(
        {
            "path": str(path),
            "checkCrcs": "false",
            "maxDecompressedBytes": "64k",
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": "why",
        }
    ).rows
    assert [row["why"] is None for row in told] == [False] and "limit_exceeded" in told[0]["why"]
