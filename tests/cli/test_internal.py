"""`kafkarec cat` on internal topics: objects where the folder's name is that of an internal topic, bytes with
`--raw`, JSON text in Parquet."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from paths import SEGMENTS

OFFSETS, TXN = SEGMENTS / "__consumer_offsets-0", SEGMENTS / "txn-0"


def test_the_data_equals_that_of_kafka_dump_log(run):
    printed = [
        json.loads(line.partition(" payload: ")[2])
        for line in (OFFSETS / "00000000000000000000.log.decoded.txt").read_text(encoding="utf-8").splitlines()
        if " payload: {" in line
    ]
    rows = [row for row in run("cat", OFFSETS).rows if row["value"] is not None]
    assert [row["value"]["data"] for row in rows] == [payload["data"] for payload in printed]


def test_keys_and_values_are_json_text_in_parquet(run, tmp_path):
    assert run("cat", OFFSETS, "-o", tmp_path / "x.parquet").err == ""
    table = pq.read_table(tmp_path / "x.parquet")
    for name in ("key", "value"):
        cells = [None if text is None else json.loads(text) for text in table[name].to_pylist()]
        assert cells == [row[name] for row in run("cat", OFFSETS).rows]
        assert table[f"{name}_base64"].null_count == len(cells)


def test_bytes_that_are_no_message_are_base64(run, tmp_path):
    log, rows, again = (tmp_path / name for name in ("__consumer_offsets-3", "x.parquet", "y.log"))
    (tmp_path / "x.json").write_text('{"key":"k","value":"plain"}\n')
    for verb, source, to in (("build", tmp_path / "x.json", log), ("cat", log, rows), ("build", rows, again)):
        assert run(verb, source, "-o", to).status == 0
    (row,) = pq.read_table(rows).to_pylist()
    assert (row["key"], row["key_base64"], row["value"], row["value_base64"]) == (None, "aw==", None, "cGxhaW4=")
    assert run("cat", again, "--columns", "key,value").rows == [{"key": "k", "value": "plain"}]


def test_beside_other_topics_they_stay_bytes_and_this_is_said(run, tmp_path):
    ran = run("cat", OFFSETS, TXN, "-o", tmp_path / "x.parquet")
    assert ran.status == 0 and "keys and values of internal topics stay bytes" in ran.complaint
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.schema.field("key").type == pa.binary() and "key_base64" not in table.schema.names
