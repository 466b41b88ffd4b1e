"""Arrow columns as JSON Lines and tables: every cell parses back, and no cell can forge another row (P17)."""

from __future__ import annotations

import base64
import json
from typing import Any

import builders
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkarec
from kafkarec.cli import json_lines, table_windows
from kafkarec.support import text_table
from kafkarec.tables.table import Table

SHOWN = ["offset", "timestamp", "timestamp_type", "key", "value", "headers", "is_control", "compression", "producer_id"]

UNUSUAL = st.sampled_from(
    [
        b"",
        b"\n",
        b"\r\n",
        b"\0",
        b'"',
        b"\\",
        b"}\n{",
        b"\xff",
        b"\x1b[2J",
        "\u2028\u2029\x85".encode(),
        b"%s%d",
    ]
)
BLOBS = st.none() | UNUSUAL | st.binary(max_size=12) | st.text(max_size=12).map(str.encode)
RECORD = st.fixed_dictionaries(
    {
        "timestamp": st.integers(-5, 2**40),
        "key": BLOBS,
        "value": BLOBS,
        "headers": st.lists(st.tuples(st.text(max_size=6).map(str.encode), BLOBS), max_size=3),
    }
)
BATCH = st.fixed_dictionaries(
    {
        "rows": st.lists(RECORD, max_size=9),
        "base_offset": st.integers(-(2**62), 2**62),
        "codec": st.sampled_from(["none", "zstd"]),
        "producer_id": st.sampled_from([-1, 7]),
    }
)
BATCHES = st.lists(BATCH, max_size=4)


def decoded(batches: list[dict[str, Any]], names: list[str] = SHOWN) -> kafkarec.RecordColumns:
    """The columns that `decode` returns for such batches."""
    raw = b""
    for one in batches:
        records = [
            builders.record(
                offset_delta=i,
                timestamp_delta=row["timestamp"],
                key=row["key"],
                value=row["value"],
                headers=row["headers"],
            )
            for i, row in enumerate(one["rows"])
        ]
        fields = {name: one[name] for name in ("base_offset", "codec", "producer_id")}
        raw += builders.batch(records, base_timestamp=0, **fields)
    return kafkarec.decode(raw, columns=names, timestamp_unit="int64")


def rows_of(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the batches, one dict per row."""
    return [
        {
            "offset": one["base_offset"] + i,
            "timestamp": None if row["timestamp"] == -1 else row["timestamp"],
            "timestamp_type": 0,
            "key": row["key"],
            "value": row["value"],
            "headers": [(key.decode(), value) for key, value in row["headers"]],
            "is_control": False,
            "compression": one["codec"],
            "producer_id": None if one["producer_id"] == -1 else one["producer_id"],
        }
        for one in batches
        for i, row in enumerate(one["rows"])
    ]


def blob_of(cell: dict[str, Any], name: str) -> bytes | None:
    """The bytes of the cell NAME or NAME_base64."""
    if f"{name}_base64" in cell:
        return base64.b64decode(cell[f"{name}_base64"], validate=True)
    return None if cell[name] is None else cell[name].encode()


def parsed(lines: bytes) -> list[dict[str, Any]]:
    """The rows; asserts that each way to split lines returns the same lines."""
    text = lines.decode()
    assert text.splitlines() == text.split("\n")[:-1]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text.replace("\n", ""))
    return [json.loads(line) for line in text.splitlines()]


@settings(max_examples=200, deadline=None)
@given(batches=BATCHES, start=st.integers(0, 9), topic=st.text(max_size=5))
def test_every_row_parses_back(batches: list[dict[str, Any]], start: int, topic: str) -> None:
    cells = parsed(json_lines.render(decoded(batches)[start:], ["topic", *SHOWN], constants={"topic": topic}))
    rows = rows_of(batches)[start:]
    assert len(cells) == len(rows)
    for cell, row in zip(cells, rows, strict=True):
        assert cell["topic"] == topic
        assert {name: cell[name] for name in SHOWN if name not in ("key", "value", "headers")} == {
            name: row[name] for name in SHOWN if name not in ("key", "value", "headers")
        }
        assert (blob_of(cell, "key"), blob_of(cell, "value")) == (row["key"], row["value"])
        assert [(h["key"], blob_of(h, "value")) for h in cell["headers"]] == row["headers"]


@settings(max_examples=100, deadline=None)
@given(batches=BATCHES, start=st.integers(0, 9), stop=st.integers(0, 30))
def test_columns_read_without_pyarrow_equal_pyarrow(batches: list[dict[str, Any]], start: int, stop: int) -> None:
    whole = decoded(batches)[start:stop]
    arrow = pa.table(whole)
    for name in SHOWN:
        cells = [
            [(h["key"], h["value"]) for h in cell] if name == "headers" else cell for cell in arrow[name].to_pylist()
        ]
        assert [list(cell) if name == "headers" else cell for cell in whole.column(name)] == cells


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, width=st.integers(1, 7), size=st.sampled_from([1, 200, 1 << 20]))
def test_windows_are_slices_of_the_table(batches: list[dict[str, Any]], width: int, size: int) -> None:
    whole = decoded(batches)
    cut = list(table_windows.windows(whole, rows=width, size=size))
    assert all(0 < len(window) <= width for window in cut)
    assert size > 1 or all(len(window) == 1 for window in cut)
    assert b"".join(json_lines.render(window, SHOWN) for window in cut) == json_lines.render(whole, SHOWN)


def one_table(blob: bytes | None) -> Table:
    return kafkarec.decode(builders.batch([builders.record(value=blob)]), columns=["value"])


def one_value(blob: bytes | None, form: str) -> str:
    return json_lines.render(one_table(blob), ["value"], forms={"value": form}).decode().rstrip("\n")


@pytest.mark.parametrize(
    ("form", "blob", "shown"),
    [
        ("utf8", b"caf\xc3\xa9", '{"value":"café"}'),
        ("utf8", b"\xff", '{"value_base64":"/w=="}'),
        ("base64", b"abc", '{"value_base64":"YWJj"}'),
        ("hex", b"\x00\xff", '{"value_hex":"00ff"}'),
        ("int32", b"\xff\xff\xff\xff", '{"value":-1}'),
        ("int32", b"\xff", '{"value_base64":"/w=="}'),
        ("int64", b"\0\0\0\1\0\0\0\0", '{"value":4294967296}'),
        (
            "json",
            b'{"a": 1.50,\r\n "a": 12345678901234567890}',
            '{"value":{"a": 1.50,   "a": 12345678901234567890}}',
        ),
        ("json", b'"text"', '{"value":"text"}'),
        ("json", b"NaN", '{"value_base64":"TmFO"}'),
        ("json", b"{'a'}", '{"value_base64":"eydhJ30="}'),
        ("json", b"\xef\xbb\xbf1", '{"value_base64":"77u/MQ=="}'),
        ("json", b'"\xc2\x9b"', '{"value":"\\u009b"}'),
        *((form, None, '{"value":null}') for form in json_lines.FORMS),
    ],
)
def test_values_in_each_form(form: str, blob: bytes | None, shown: str) -> None:
    assert one_value(blob, form) == shown
    json.loads(shown)


def test_too_deeply_nested_json_is_shown_as_bytes() -> None:
    assert "value_base64" in one_value(b"[" * 200_000, "json")


@settings(max_examples=200, deadline=None)
@given(
    blob=st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    form=st.sampled_from(list(json_lines.FORMS)),
)
def test_any_bytes_in_any_form_are_one_json_object_on_one_line(blob: bytes, form: str) -> None:
    (cell,) = parsed(one_value(blob, form).encode() + b"\n")
    assert len(cell) == 1


def test_constant_columns() -> None:
    one = kafkarec.decode(builders.batch(builders.records(1), base_offset=6), columns=["offset"])
    assert json_lines.render(one, ["topic"], constants={"topic": "50%"}) == b'{"topic":"50%"}\n'
    assert json_lines.render(one, ["topic", "offset", "file"], constants={"topic": "t", "file": "f"}) == (
        b'{"topic":"t","offset":6,"file":"f"}\n'
    )


def test_columns_of_text_that_is_json_already() -> None:
    two = kafkarec.decode(builders.batch(builders.records(2)), columns=["value"])
    decoded = {"control": [None, "{}"], "value": ['{"a":1}', None]}
    assert json_lines.render(two, ["value", "control"], decoded=decoded) == (
        b'{"value":{"a":1},"control":null}\n{"value":"value 1","control":{}}\n'
    )


def test_a_table_aligns_columns_and_replaces_control_characters() -> None:
    text = text_table.render([("n", ["1", "22", "-"]), ("name", ["a\x1b[2J", "b", "c\nd"])])
    assert text == " n  name\n 1  a\ufffd[2J\n22  b\n -  c\ufffdd\n"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1700000000123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_times_are_shown_in_utc(ms: int | None, shown: str) -> None:
    assert text_table.timestamp_text(ms) == shown
