"""`cat --format csv` and `--format parquet`: other tools read back what the log holds."""

from __future__ import annotations

import base64
import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import builders
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from command import COMMAND, ENVIRONMENT, Here, as_consumer_row
from command import blob as blob_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import SEGMENTS
from random_records import BLOBS, records_of

import kafkarec
from kafkarec.cli import cat_arrow

TXN, CODECS, COMPACTED, OFFSETS = (
    SEGMENTS / name for name in ("txn-0", "all-codecs-0", "compacted-0", "__consumer_offsets-0")
)
HEADER_LINE = "topic,partition,offset,timestamp,timestamp_type,key,key_base64,value,value_base64,headers"


def csv_rows(out: bytes) -> list[dict[str, str | None]]:
    """Rows as pyarrow reads them, which distinguishes null (an empty cell) from empty text (quotes)."""
    options = arrow_csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
        column_types=dict.fromkeys(out.decode().partition("\n")[0].split(","), pa.string()),
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    return arrow_csv.read_csv(io.BytesIO(out), convert_options=options, parse_options=parse).to_pylist()


def plain_rows(out: bytes) -> list[dict[str, str]]:
    """Rows as Python's csv module reads them."""
    return list(csv.DictReader(io.StringIO(out.decode(), newline=""), strict=True))


def blob(row: dict[str, Any], name: str) -> bytes | None:
    if row[f"{name}_base64"] is not None:
        assert row[name] is None
        return base64.b64decode(row[f"{name}_base64"], validate=True)
    return None if row[name] is None else row[name].encode()


UNUSUAL = [
    b"",
    b"\n",
    b"\r\n",
    b"\r",
    b"a,b",
    b'"',
    b'""',
    b"\0",
    b"\xff",
    b"\x1b[2J",
    b"=1+1",
    b" x ",
    b"\\",
    b"\\N",
    b"null",
    b"\xef\xbb\xbf",
    "\u2028\x85".encode(),
    b"#",
    b"'",
    b"\t",
    "é".encode(),
]
RECORDS = records_of(st.sampled_from(UNUSUAL) | BLOBS, most=8)


def written_log(records: list[dict[str, Any]], path: Path) -> Path:
    raw = builders.batch([builders.record(offset_delta=i, **one) for i, one in enumerate(records)], base_offset=7)
    path.write_bytes(raw)
    return path


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(records=RECORDS)
def test_any_records_come_back_from_their_csv(run: Here, tmp_path: Path, records: list[dict[str, Any]]) -> None:
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
        assert [(cell["key"].encode(), blob_of(cell, "value")) for cell in cells] == one["headers"]
    text = ran.out.decode()
    assert not any(char in text for char in "\0\x1b\x7f\x85\u2028\u2029")
    plain = plain_rows(ran.out)
    assert [{name: value or "" for name, value in row.items()} for row in rows] == plain


def test_csv_has_the_rows_of_json(run: Here) -> None:
    lines, rows = run("cat", CODECS).rows, csv_rows(run("cat", CODECS, "--format", "csv").out)
    assert len(rows) == len(lines) == 865
    for row, line in zip(rows, lines, strict=True):
        assert (row["topic"], row["partition"]) == ("all-codecs", "0")
        numbers = (int(row[name] or "") for name in ("offset", "timestamp", "timestamp_type"))
        assert (*numbers, blob(row, "key"), blob(row, "value")) == as_consumer_row(line)[:5]


def test_csv_of_selected_columns_rows_and_forms(run: Here) -> None:
    arguments = [
        "--format",
        "csv",
        "--key",
        "user-3",
        "--columns",
        "offset,value,is_transactional,producer_id,compression",
    ]
    rows = csv_rows(run("cat", CODECS, *arguments).out)
    assert list(rows[0]) == ["offset", "value", "value_base64", "is_transactional", "producer_id", "compression"]
    assert [int(row["offset"] or "") for row in rows] == [
        row["offset"] for row in run("cat", CODECS, *arguments[2:]).rows
    ]
    assert {row["compression"] for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row["is_transactional"] for row in rows} == {"false"}
    assert all((row["producer_id"] or "").isdigit() for row in rows)
    forms = ["--columns", "key,value", "--key-as", "hex", "--value-as", "json"]
    shown = run("cat", CODECS, "-n", 1, "--format", "csv", *forms)
    assert shown.out.decode().splitlines() == [
        "key_hex,value,value_base64",
        '"757365722d30","{""codec"": ""none"", ""round"": 0, ""n"": 0}",',
    ]


def test_csv_of_numbers_as_keys(run: Here, tmp_path: Path) -> None:
    keys = [(-5).to_bytes(4, "big", signed=True), b"odd", None]
    path = written_log([{"key": key} for key in keys], tmp_path / "x.log")
    ran = run("cat", path, "--format", "csv", "--columns", "key", "--key-as", "int32")
    assert ran.out == b'key,key_base64\n-5,\n,"b2Rk"\n,\n'


def test_csv_of_control_records_and_of_internal_topics(run: Here) -> None:
    rows = csv_rows(run("cat", TXN, "--control", "--format", "csv").out)
    lines = run("cat", TXN, "--control").rows
    assert [row["control"] and json.loads(row["control"]) for row in rows] == [line["control"] for line in lines]
    rows, lines = csv_rows(run("cat", OFFSETS, "--format", "csv").out), run("cat", OFFSETS).rows
    for name in ("key", "value"):
        assert [row[name] and json.loads(row[name] or "") for row in rows] == [line[name] for line in lines]


def test_csv_of_no_rows_is_the_header_line(run: Here, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    assert run("cat", tmp_path / "empty.log", "--format", "csv").out.decode() == HEADER_LINE + "\n"


def test_a_file_name_does_not_break_a_csv(run: Here, tmp_path: Path) -> None:
    path = written_log([{}, {}], tmp_path / 'a\x1b\n,".log')
    out = run("cat", path, "--format", "csv", "--columns", "file").out
    assert b"\x1b" not in out
    assert [Path(row["file"] or "").name for row in csv_rows(out)] == ['a\ufffd\n,".log'] * 2


def test_duckdb_and_pandas_read_the_csv(run: Here, tmp_path: Path) -> None:
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


class TestParquet:
    """`--format parquet`"""

    @pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
    def test_holds_the_columns_of_decode(self, run: Here, tmp_path: Path, isolation: str) -> None:
        out = tmp_path / "x.parquet"
        assert run("cat", TXN, "--format", "parquet", "--isolation", isolation, "-o", out).status == 0
        with kafkarec.open(TXN) as log:
            expected = pa.table(log.read(isolation=isolation))
        whole = pq.read_table(out)
        assert whole.schema.names[:2] == ["topic", "partition"] and whole.schema.types[:2] == [pa.string(), pa.int32()]
        assert set(whole["topic"].to_pylist()) == {"txn"} and set(whole["partition"].to_pylist()) == {0}
        table = whole.drop_columns(["topic", "partition"])
        assert table.schema.types == expected.schema.types  # headers: list<struct<key, value>>, timestamps: ms, UTC
        assert table.equals(expected)

    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(records=RECORDS)
    def test_any_records_come_back(self, run: Here, tmp_path: Path, records: list[dict[str, Any]]) -> None:
        path = written_log(records, tmp_path / "any.log")
        ran = run("cat", path, "--format", "parquet")
        assert (ran.status, ran.err) == (0, "")
        assert pq.read_table(io.BytesIO(ran.out)).equals(pa.table(kafkarec.decode(path.read_bytes())))

    def test_row_groups_are_written_as_they_fill(
        self, run: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(cat_arrow.ParquetWriter, "group_rows", 100)
        path = tmp_path / "x.log"
        path.write_bytes(sorted(CODECS.glob("*.log"))[0].read_bytes() * 3)
        file = pq.ParquetFile(io.BytesIO(run("cat", path, path, "--format", "parquet").out))
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        assert len(groups) > 1 and sum(groups) == 6 * 865
        whole = kafkarec.decode(path.read_bytes())
        assert file.read(["offset"])["offset"].to_pylist() == whole.column("offset") * 2

    def test_several_partitions_selected_rows_and_no_rows(self, run: Here, tmp_path: Path) -> None:
        arguments = ["--format", "parquet", "--key", "user-3", "--columns", "value,offset,topic,partition"]
        table = pq.read_table(io.BytesIO(run("cat", CODECS, *arguments).out))
        assert table.schema.names == ["value", "offset", "topic", "partition"]
        assert table["offset"].to_pylist() == [row["offset"] for row in run("cat", CODECS, "--key", "user-3").rows]
        assert set(table["topic"].to_pylist()) == {"all-codecs"}
        both = pq.read_table(io.BytesIO(run("cat", TXN, COMPACTED, "--format", "parquet").out))
        assert set(both["topic"].to_pylist()) == {"txn", "compacted"}
        (tmp_path / "empty.log").write_bytes(b"")
        nothing = pq.read_table(io.BytesIO(run("cat", tmp_path / "empty.log", "--format", "parquet").out))
        assert nothing.num_rows == 0 and nothing.schema == pa.table(kafkarec.decode(b"")).schema

    def test_through_a_pipe_and_from_a_damaged_log(self, tmp_path: Path) -> None:
        data = bytearray(sorted(CODECS.glob("*.log"))[0].read_bytes())
        data[-5] ^= 1
        path = tmp_path / "x.log"
        path.write_bytes(data)
        arguments = [*COMMAND, "cat", str(path), "--format", "parquet"]
        ran = subprocess.run(arguments, capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
        assert ran.returncode == 1
        rows = pq.read_table(io.BytesIO(ran.stdout)).num_rows
        assert 0 < rows < 865

    @pytest.mark.parametrize("form", ["parquet", "csv"])
    def test_without_pyarrow_the_error_names_the_pip_command(self, form: str) -> None:
        code = (
            "import sys; sys.modules['pyarrow'] = None; from kafkarec.cli import main;"
            f"sys.exit(main(['cat', {str(CODECS)!r}, '--format', sys.argv[1]]))"
        )
        ran = subprocess.run([sys.executable, "-c", code, form], capture_output=True, env=ENVIRONMENT, check=False)
        assert (ran.returncode, ran.stdout) == (3, b"")
        assert ran.stderr.decode() == f"kafkarec: --format {form} needs pyarrow: pip install 'kafkarec[arrow]'\n"
