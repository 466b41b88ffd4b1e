"""examples/pipeline.py by spark-submit, twice: its tables have what the standalone library reads, once."""

import json

import pyarrow.parquet as pq
import pytest
from long_run import MINUTES
from paths import ROOT
from spark_submit import command, environment, quick_conf
from subprocesses import output_of

import kafkarec
from spark_udfs import decoding

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

PIPELINE = ROOT / "examples" / "pipeline.py"


def run(fat, python, folder):
    """As `make pipeline` runs it; returns what it printed."""
    words = ("--py-files", str(fat), str(PIPELINE), str(folder / "tables"))
    submit, env = command(python, "local[2]", quick_conf(python), *words), environment(folder, python)
    return output_of(*submit, cwd=folder, env=env)


def rows(table):
    found = pq.read_table(table).to_pylist()
    return sorted(found, key=lambda row: (row["offset"] is None, row["offset"]))


def event(value):
    try:
        decoded = json.loads(value)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) and isinstance(decoded.get("n"), int) else None


def test_the_tables_have_every_record_and_every_damage_once(fat, bare_python, tmp_path):
    printed, tables = run(fat, bare_python, tmp_path), tmp_path / "tables"
    first = {name: rows(tables / name) for name in ("silver", "quarantine")}

    silver, bad = [], []
    with kafkarec.open(tables / "bronze" / "orders-0") as log:
        records = log.read(errors="skip")
        for each in records:
            place = {"topic": "orders", "partition": 0, "offset": each.offset}
            values = event(each.value) if each.value is not None else dict.fromkeys(("codec", "round", "n"))
            if values is None:
                bad.append(place | {"problem": "not JSON with n", "raw_key": each.key, "raw_value": each.value})
            else:
                silver.append(place | {"deleted": each.value is None} | values)
        damage = [decoding.corrupt_record_json(each) for each in records.damage]
    assert len(damage) == 1 and len(silver) > 500 and len(bad) > 20
    assert any(row["deleted"] for row in silver)
    assert [{name: value for name, value in row.items() if name != "timestamp"} for row in first["silver"]] == silver
    found = [{name: row[name] for name in bad[0]} for row in first["quarantine"] if row["damage"] is None]
    assert found == bad
    damaged = [row for row in first["quarantine"] if row["damage"] is not None]
    assert [row["problem"] for row in damaged] == ["damaged: crc_mismatch"]
    texts = [json.loads(row["damage"]) for row in damaged]
    expected = [json.loads(text) for text in damage]
    for name in ("position", "length", "lost_from", "lost_to", "next_position", "reason"):
        assert [each[name] for each in texts] == [each[name] for each in expected]
    lost = sum(each["lost_to"] - each["lost_from"] + 1 for each in expected)
    assert len(silver) + len(bad) + lost == 865
    assert "nothing arrives\n" in printed and printed.count("+0\n") == 2

    again = run(fat, bare_python, tmp_path)
    assert again.count("+0\n") == 6 and " arrives, " not in again
    assert {name: rows(tables / name) for name in first} == first


def test_the_pipeline_is_one_page():
    assert len(PIPELINE.read_text(encoding="utf-8").splitlines()) <= 100
    assert "examples/pipeline.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
