"""`kafkarec cat` on internal topics: objects where the folder's name is that of an internal topic, bytes with
`--raw`, JSON text in Parquet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from command import Here
from paths import SEGMENTS

OFFSETS, TXN = SEGMENTS / "__consumer_offsets-0", SEGMENTS / "txn-0"


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


def test_the_topic_can_be_given_by_option(run: Here, tmp_path: Path) -> None:
    file = shutil.copy(OFFSETS / "00000000000000000000.log", tmp_path / "rescued.bin")
    assert "value_base64" in run("cat", file, "-n", 1).rows[0]
    (row,) = run("cat", file, "-n", 1, "--topic", "__consumer_offsets").rows
    assert row["value"]["type"] == "GroupMetadata"


def test_keys_and_values_are_json_text_in_parquet(run: Here, tmp_path: Path) -> None:
    assert run("cat", OFFSETS, "-o", tmp_path / "x.parquet").err == ""
    table = pq.read_table(tmp_path / "x.parquet")
    for name in ("key", "value"):
        cells = [None if text is None else json.loads(text) for text in table[name].to_pylist()]
        assert cells == [row[name] for row in run("cat", OFFSETS).rows]
        assert table[f"{name}_base64"].null_count == len(cells)


def test_bytes_that_are_no_message_are_base64(run: Here, tmp_path: Path) -> None:
    log, rows, again = (tmp_path / name for name in ("__consumer_offsets-3", "x.parquet", "y.log"))
    (tmp_path / "x.json").write_text('{"key":"k","value":"plain"}\n')
    for verb, source, to in (("build", tmp_path / "x.json", log), ("cat", log, rows), ("build", rows, again)):
        assert run(verb, source, "-o", to).status == 0
    (row,) = pq.read_table(rows).to_pylist()
    assert (row["key"], row["key_base64"], row["value"], row["value_base64"]) == (None, "aw==", None, "cGxhaW4=")
    assert run("cat", again, "--columns", "key,value").rows == [{"key": "k", "value": "plain"}]


def test_beside_other_topics_they_stay_bytes_and_this_is_said(run: Here, tmp_path: Path) -> None:
    ran = run("cat", OFFSETS, TXN, "-o", tmp_path / "x.parquet")
    assert ran.status == 0 and "keys and values of internal topics stay bytes" in ran.complaint
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.schema.field("key").type == pa.binary() and "key_base64" not in table.schema.names
