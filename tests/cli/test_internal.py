"""`kafkarec cat` on internal topics: objects where the folder's name is that of an internal topic, bytes with
`--raw`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from command import Here
from paths import SEGMENTS

OFFSETS = SEGMENTS / "__consumer_offsets-0"


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
