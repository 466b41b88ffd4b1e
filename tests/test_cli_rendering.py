"""From Arrow columns to JSON Lines and tables: every cell parses back, none can forge another row (P17)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkarec.cli import arrow_c, jsonlines, table

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
RECORDS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("timestamp_type", pa.int8()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
        pa.field("is_control", pa.bool_()),
        pa.field("compression", pa.string()),
    ]
)
SHOWN = ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]

NASTY = st.sampled_from(
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
BLOBS = st.none() | NASTY | st.binary(max_size=12) | st.text(max_size=12).map(str.encode)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "offset": st.integers(-(2**63), 2**63 - 1),
            "timestamp": st.none() | st.integers(-(2**63), 2**63 - 1),
            "timestamp_type": st.sampled_from([None, 0, 1]),
            "key": BLOBS,
            "value": BLOBS,
            "headers": st.lists(st.fixed_dictionaries({"key": st.text(max_size=6), "value": BLOBS}), max_size=3),
            "is_control": st.booleans() | st.none(),
            "compression": st.sampled_from([None, "none", "zstd"]),
        }
    ),
    max_size=20,
)


def blob_of(cell: dict[str, Any], name: str) -> bytes | None:
    """The bytes behind NAME or NAME_base64."""
    if f"{name}_base64" in cell:
        return base64.b64decode(cell[f"{name}_base64"], validate=True)
    return None if cell[name] is None else cell[name].encode()


def parsed(lines: bytes) -> list[dict[str, Any]]:
    """The rows; every way of splitting lines must find the same ones."""
    text = lines.decode()
    assert text.splitlines() == text.split("\n")[:-1]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text.replace("\n", ""))
    return [json.loads(line) for line in text.splitlines()]


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, start=st.integers(0, 9), topic=st.text(max_size=5))
def test_every_row_parses_back(rows: list[dict[str, Any]], start: int, topic: str) -> None:
    whole = pa.Table.from_pylist(rows, schema=RECORDS).slice(start)  # a slice: offsets that do not begin at 0
    wanted = rows[start:]
    out = b"".join(
        jsonlines.render(chunk, ["topic", *SHOWN, "is_control", "compression"], constants={"topic": topic})
        for chunk in arrow_c.chunks(whole)
    )
    found = parsed(out)
    assert len(found) == len(wanted)
    for cell, row in zip(found, wanted, strict=True):
        for name in ("offset", "timestamp", "timestamp_type", "is_control", "compression"):
            assert cell[name] == row[name]
        assert cell["topic"] == topic
        assert blob_of(cell, "key") == row["key"]
        assert blob_of(cell, "value") == row["value"]
        assert [(h["key"], blob_of(h, "value")) for h in cell["headers"]] == [
            (h["key"], h["value"]) for h in row["headers"]
        ]


@settings(max_examples=100, deadline=None)
@given(rows=ROWS)
def test_columns_read_without_pyarrow_equal_pyarrow(rows: list[dict[str, Any]]) -> None:
    whole = pa.Table.from_pylist(rows, schema=RECORDS)
    for batch, chunk in zip(whole.to_batches(), arrow_c.chunks(whole), strict=True):
        assert list(chunk.columns) == RECORDS.names
        for name in ("offset", "timestamp", "timestamp_type", "is_control", "compression"):
            assert list(chunk.columns[name].objects()) == batch.column(name).to_pylist()
        for name in ("key", "value"):
            assert chunk.columns[name].blobs() == batch.column(name).to_pylist()


def test_timestamps_are_their_numbers_and_large_binaries_are_binaries() -> None:
    whole = pa.table(
        {
            "t": pa.array([1, None], pa.timestamp("ms", "UTC")),
            "z": pa.array([b"a", None], pa.large_binary()),
            "n": pa.array([1, 4294967295], pa.uint32()),
            "s": pa.array([-1, 2], pa.int16()),
        }
    )
    (chunk,) = arrow_c.chunks(whole)
    assert chunk.columns["t"].numbers() == [1, None]
    assert chunk.columns["z"].blobs() == [b"a", None]
    assert chunk.columns["n"].numbers() == (1, 4294967295)
    assert chunk.columns["s"].numbers() == (-1, 2)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, width=st.integers(1, 7), size=st.sampled_from([1, 200, 1 << 20]))
def test_windows_are_the_table_cut_in_rows(rows: list[dict[str, Any]], width: int, size: int) -> None:
    whole = pa.Table.from_pylist(rows, schema=RECORDS)
    whole = pa.Table.from_batches(whole.to_batches(max_chunksize=11), RECORDS)
    (entire,) = [*arrow_c.chunks(whole.combine_chunks())] or [arrow_c.Chunk(0, {})]
    windows = list(arrow_c.chunks(whole, rows=width, size=size))
    assert all(window.length <= width for window in windows)
    assert [window.batch * 11 + window.start for window in windows] == [
        sum(window.length for window in windows[:i]) for i in range(len(windows))
    ]
    assert b"".join(jsonlines.render(window, SHOWN) for window in windows) == (
        jsonlines.render(entire, SHOWN) if rows else b""
    )


def test_a_type_that_is_not_ours_is_named() -> None:
    with pytest.raises(TypeError, match="column d has the Arrow type 'g'"):
        list(arrow_c.chunks(pa.table({"d": pa.array([1.5])})))


def one_value(blob: bytes | None, form: str) -> str:
    (chunk,) = arrow_c.chunks(pa.table({"value": pa.array([blob], pa.binary())}))
    return jsonlines.render(chunk, ["value"], forms={"value": form}).decode().rstrip("\n")


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
        *((form, None, '{"value":null}') for form in jsonlines.FORMS),
    ],
)
def test_forms(form: str, blob: bytes | None, shown: str) -> None:
    assert one_value(blob, form) == shown
    json.loads(shown)


def test_json_that_is_nested_beyond_sense_is_shown_as_bytes() -> None:
    assert "value_base64" in one_value(b"[" * 200_000, "json")


@settings(max_examples=200, deadline=None)
@given(
    blob=st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    form=st.sampled_from(list(jsonlines.FORMS)),
)
def test_any_bytes_in_any_form_are_one_json_object_on_one_line(blob: bytes, form: str) -> None:
    (cell,) = parsed(one_value(blob, form).encode() + b"\n")
    assert len(cell) == 1


def test_chosen_rows_and_constant_columns() -> None:
    (chunk,) = arrow_c.chunks(pa.table({"offset": pa.array([5, 6, 7], pa.int64())}))
    assert jsonlines.render(chunk, ["offset"], rows=[0, 2]) == b'{"offset":5}\n{"offset":7}\n'
    assert jsonlines.render(chunk, ["topic"], constants={"topic": "50%"}, rows=[1]) == b'{"topic":"50%"}\n'


def test_a_table_lines_up_and_hides_control_characters() -> None:
    text = table.render([("n", ["1", "22", "-"]), ("name", ["a\x1b[2J", "b", "c\nd"])])
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
def test_moments(ms: int | None, shown: str) -> None:
    assert table.moment(ms) == shown
