"""`kafkarec.internal_topics`, the public functions: one record, rows, columns, the list of types."""

import doctest

import polars
import pyarrow as pa
import pytest
from paths import SEGMENTS

import kafkarec
from kafkarec import internal_topics
from kafkarec.internal_topics import internal_records as records_module

OFFSETS = kafkarec.decode((SEGMENTS / "__consumer_offsets-0" / "00000000000000000000.log").read_bytes())
METADATA_LOG = (SEGMENTS / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()


def test_one_record():
    record = OFFSETS[2]
    result = internal_topics.read("__consumer_offsets", record.key, record.value)
    assert (result.type, result.type_id, result.version, result.is_tombstone) == ("OffsetCommit", 1, 4, False)
    assert result.key == {"group": "readers-classic", "topic": "grouped", "partition": 0}
    assert result.value == {
        "offset": 10,
        "leaderEpoch": -1,
        "metadata": "note 10",
        "commitTimestamp": 1795227913956,
        "topicId": "cMKeh4UETHqYvSSYh98UrQ",
    }
    assert (result.raw_key, result.raw_value, result.problem) == (record.key, record.value, None)
    assert result == internal_topics.read("__consumer_offsets", record.key, record.value)
    assert len({result, internal_topics.read("__consumer_offsets", record.key, record.value)}) == 1
    with pytest.raises(AttributeError):
        result.type = "GroupMetadata"
    assert "readers-classic" in repr(result) and "raw_value" not in repr(result)


def test_rows_of_mixed_types_leave_control_records_out():
    decoded = kafkarec.decode(METADATA_LOG, control=True)
    rows = list(internal_topics.rows(decoded, "__cluster_metadata"))
    assert len(rows) == sum(not record.is_control for record in decoded) < len(decoded)
    assert list(rows[0]) == ["offset", "timestamp", "type", "version", "is_tombstone", "key", "value", "problem"]
    assert {row["problem"] for row in rows} == {None}
    topics = [row["value"]["name"] for row in rows if row["type"] == "TopicRecord"]
    assert {"txn", "compacted", "logappend"} <= set(topics)


def test_columns_of_one_type_convert_to_any_table():
    result = internal_topics.columns(OFFSETS, "__consumer_offsets", type="OffsetCommit")
    names = [column.name for column in internal_topics.schema("__consumer_offsets", "OffsetCommit")]
    assert list(result) == ["offset", "timestamp", "version", "is_tombstone", *names, "problem"]
    assert result["key_group"] == ["readers-classic"] * 3 + ["readers-consumer"] * 3
    assert result["value_offset"] == [10, 20, 25] * 2
    assert result["value_expireTimestamp"] == [None] * 6
    assert pa.table(result).num_rows == polars.DataFrame(result).height == 6
    assert list(internal_topics.columns([], "__consumer_offsets", type="OffsetCommit")) == list(result)
    assert list(internal_topics.columns(OFFSETS, "__consumer_offsets"))[-1] == "problem"


def test_errors_for_wrong_names_list_the_right_names():
    with pytest.raises(ValueError, match=r"'orders' is no internal topic; give one of __consumer_offsets, "):
        internal_topics.read("orders", None, None)
    with pytest.raises(ValueError, match=r"has no records 'Offset'; there are: LegacyOffsetCommit, OffsetCommit"):
        internal_topics.rows([], "__consumer_offsets", type="Offset")
    with pytest.raises(ValueError, match="without the name of their topic: pass topic=, one of __consumer_offsets, "):
        internal_topics.columns([])
    with pytest.raises(ValueError, match="one of keep, raise"):
        internal_topics.read("__consumer_offsets", None, None, errors="skip")


def test_the_schema_lists_types_and_versions():
    columns = {column.name: column for column in internal_topics.schema("__cluster_metadata", "PartitionRecord")}
    assert columns["value_replicas"] == ("value_replicas", "int32", True, "0-2", False, ())
    assert columns["value_directories"] == ("value_directories", "uuid", True, "1-2", False, ())
    assert repr(columns["value_lastKnownElr"]) == "<Column value_lastKnownElr [int32]?, versions 2>"
    assert "PartitionRecord" in repr(internal_topics.TOPICS["__cluster_metadata"])
    (members,) = (column for column in internal_topics.schema("__consumer_offsets", "GroupMetadata") if column.fields)
    assert [field.name for field in members.fields][:2] == ["memberId", "groupInstanceId"]
    assert members.fields[1].versions == "3-4"


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(records_module).failed == 0
