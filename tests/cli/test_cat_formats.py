"""`cat --format csv`, arrow and parquet: other tools read back what the log holds."""

import csv
import io
import json
from pathlib import Path

import builders
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from command import blob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples
from paths import SEGMENTS
from random_records import UNUSUAL, records_of

import kafkarec
from kafkarec.cli import cat_writers

CODECS = SEGMENTS / "all-codecs-0"
HEADER_LINE = "topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers"


def csv_rows(out):
    """Rows as pyarrow reads them, which distinguishes null (an empty cell) from empty text (quotes)."""
    options = arrow_csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        column_types=dict.fromkeys(out.decode().partition("\n")[0].split(","), pa.string()),
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    return arrow_csv.read_csv(io.BytesIO(out), convert_options=options, parse_options=parse).to_pylist()


def plain_rows(out):
    """Rows as Python's csv module reads them."""
    return list(csv.DictReader(io.StringIO(out.decode(), newline=""), strict=True))


RECORDS = records_of(UNUSUAL, most=8)


def written_log(records, path):
    raw = builders.batch([builders.record(offset_delta=i, **one) for i, one in enumerate(records)], base_offset=7)
    path.write_bytes(raw)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(records=RECORDS)
def test_any_records_come_back_from_their_csv(run, tmp_path, records):
    ran = run("cat", written_log(records, tmp_path / "any.log"), "--format", "csv", "--topic", "t")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.partition(b"\n")[0].decode() == HEADER_LINE
    rows = csv_rows(ran.out)
    assert len(rows) == len(records)
    for number, (row, one) in enumerate(zip(rows, records, strict=True)):
        assert (row["topic"], row["partition"], row["offset"]) == ("t", None, str(7 + number))
        assert row["timestamp"] == str(builders.NOW + one["timestamp_delta"])
        assert (blob(row, "key"), blob(row, "value")) == (one["key"], one["value"])
        cells = json.loads(row["headers"] or "")
        assert [(cell["key"].encode(), blob(cell, "value")) for cell in cells] == one["headers"]
    text = ran.text
    assert not any(char in text for char in "\0\x1b\x7f\x85\u2028\u2029")
    plain = plain_rows(ran.out)
    assert [{name: value or "" for name, value in row.items()} for row in rows] == plain


def test_times_as_iso_8601_in_json_lines_and_csv(run, tmp_path):
    path = written_log([{"timestamp_delta": 7}], tmp_path / "one.log")
    options = ("--columns", "offset,timestamp", "--time-format", "iso")
    assert run("cat", path, *options).out == b'{"offset":7,"timestamp":"2023-11-14T22:13:20.007Z"}\n'
    assert run("cat", path, *options, "--format", "csv").out == b'offset,timestamp\n7,"2023-11-14T22:13:20.007Z"\n'


def test_a_file_name_does_not_break_a_csv(run, tmp_path):
    path = written_log([{}, {}], tmp_path / 'a\x1b\n,".log')
    out = run("cat", path, "--format", "csv", "--columns", "file").out
    assert b"\x1b" not in out
    assert [Path(row["file"] or "").name for row in csv_rows(out)] == ['a\ufffd\n,".log'] * 2


def test_duckdb_and_pandas_read_the_csv(run, tmp_path):
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    values = [b'{"a": 1,\n "b": "x,y"}', b"line\r\nline", b'say "hi"', b"\xff\x00", None]
    path = written_log([{"value": value} for value in values], tmp_path / "x.log")
    out = tmp_path / "x.csv"
    assert run("cat", path, "--format", "csv", "-o", out).status == 0
    texts = [value.decode() for value in values[:3] if value] + [None, None]
    assert [row[0] for row in duckdb.sql(f"select value from '{out}' order by \"offset\"").fetchall()] == texts
    frame = pandas.read_csv(out, lineterminator=None)
    assert [None if pandas.isna(value) else value for value in frame["value"]] == texts
    assert frame["value_base64"][3] == "/wA="


FORMS = pytest.mark.parametrize("form", ["arrow", "parquet"])


def table_of(out, form):
    file = io.BytesIO(out)
    table = pq.read_table(file) if form == "parquet" else pa.ipc.open_stream(file).read_all()
    table.validate(full=True)
    return table


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(records=RECORDS, form=st.sampled_from(["arrow", "parquet"]))
def test_any_records_come_back_from_their_table(run, tmp_path, records, form):
    path = written_log(records, tmp_path / "any.log")
    ran = run("cat", path, "--format", form)
    assert (ran.status, ran.err) == (0, "")
    assert table_of(ran.out, form).equals(pa.table(kafkarec.decode(path.read_bytes())))


@FORMS
def test_an_empty_input_has_a_schema(run, tmp_path, form):
    (tmp_path / "empty.log").write_bytes(b"")
    table = table_of(run("cat", tmp_path / "empty.log", "--format", form).out, form)
    assert table.equals(pa.table(kafkarec.decode(b"")))


def test_row_groups_are_written_as_they_fill(run, monkeypatch, tmp_path):
    monkeypatch.setattr(cat_writers.ParquetWriter, "group_rows", 100)
    path = tmp_path / "x.log"
    path.write_bytes(sorted(CODECS.glob("*.log"))[0].read_bytes() * 3)
    file = pq.ParquetFile(io.BytesIO(run("cat", path, path, "--format", "parquet").out))
    groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert len(groups) > 1 and sum(groups) == 6 * 865
    whole = kafkarec.decode(path.read_bytes())
    assert file.read(["offset"])["offset"].to_pylist() == whole.column("offset") * 2
