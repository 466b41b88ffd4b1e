"""`kafkarec cat` on internal topics: objects where the folder's name is that of an internal topic, bytes with
`--raw`."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

from command import Here
from paths import SEGMENTS

from kafkarec import internal_topics

OFFSETS, METADATA = SEGMENTS / "__consumer_offsets-0", SEGMENTS / "__cluster_metadata-0"


def test_keys_and_values_are_objects(run: Here) -> None:
    ran = run("cat", OFFSETS)
    assert (ran.status, ran.err, len(ran.rows)) == (0, "", 18)
    row = ran.rows[2]
    assert row["key"] == {
        "type": "OffsetCommit",
        "data": {"group": "readers-classic", "topic": "grouped", "partition": 0},
    }
    assert (row["value"]["type"], row["value"]["version"], row["value"]["data"]["offset"]) == ("OffsetCommit", 4, 10)
    assert list(row)[:6] == ["topic", "partition", "offset", "timestamp", "timestamp_type", "key"]
    tombstone = ran.rows[14]
    assert tombstone["key"]["type"] == "ConsumerGroupCurrentMemberAssignment" and tombstone["value"] is None


def test_the_data_equals_that_of_kafka_dump_log(run: Here) -> None:
    printed = [
        json.loads(line.partition(" payload: ")[2])
        for line in (OFFSETS / "00000000000000000000.log.decoded.txt").read_text(encoding="utf-8").splitlines()
        if " payload: {" in line
    ]
    rows = [row for row in run("cat", OFFSETS).rows if row["value"] is not None]
    assert [row["value"]["data"] for row in rows] == [payload["data"] for payload in printed]


def test_raw_shows_the_bytes_of_the_same_records(run: Here) -> None:
    shown, raw = run("cat", METADATA).rows, run("cat", METADATA, "--raw").rows
    assert len(shown) == len(raw) > 100
    for decoded, stored in zip(shown, raw, strict=True):
        blob = stored["value"].encode() if "value" in stored else base64.b64decode(stored["value_base64"])
        assert decoded["value"] == internal_topics.read("__cluster_metadata", None, blob).as_json()["value"]


def test_control_records_are_not_messages(run: Here) -> None:
    first = run("cat", METADATA, "--control", "-n", 4).rows
    assert [row["control"] and row["control"]["type"] for row in first] == [
        "LEADER_CHANGE",
        "KRAFT_VERSION",
        "KRAFT_VOTERS",
        None,
    ]
    assert isinstance(first[0]["key"], str) and first[3]["value"]["type"] == "BeginTransactionRecord"


def test_key_as_and_value_as_show_bytes(run: Here) -> None:
    (row,) = run("cat", OFFSETS, "--value-as", "hex", "-n", 1).rows
    assert row["key"]["type"] == "GroupMetadata" and row["value_hex"].startswith("0003")


def test_one_column_alone_is_an_object(run: Here) -> None:
    rows = run("cat", OFFSETS, "--columns", "value,offset", "--last", 1).rows
    assert rows == [{"value": {"type": "ConsumerGroupMetadata", "version": 0, "data": {"epoch": 3}}, "offset": 17}]


def test_the_topic_can_be_given_by_option(run: Here, tmp_path: Path) -> None:
    file = shutil.copy(OFFSETS / "00000000000000000000.log", tmp_path / "rescued.bin")
    assert "value_base64" in run("cat", file, "-n", 1).rows[0]
    (row,) = run("cat", file, "-n", 1, "--topic", "__consumer_offsets").rows
    assert row["value"]["type"] == "GroupMetadata"


def test_undecodable_records_are_shown_as_bytes(run: Here) -> None:
    """Records of another topic in a folder that is named as an internal one."""
    folder = SEGMENTS / "all-codecs-0"
    plain = run("cat", folder, "-n", 50).rows
    named = run("cat", folder, "-n", 50, "--topic", "__transaction_state").rows
    assert [row | {"topic": "all-codecs"} for row in named] == plain


def test_raw_arrow_output_keeps_bytes(run: Here, tmp_path: Path) -> None:
    import pyarrow as pa

    out = tmp_path / "offsets.arrows"
    assert run("cat", OFFSETS, "--raw", "-o", out).status == 0
    with pa.ipc.open_stream(out) as stream:
        assert stream.read_all().schema.field("value").type == pa.binary()
