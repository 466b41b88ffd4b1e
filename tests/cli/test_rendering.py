"""Values as JSON and cells of tables: each in its form, and none can forge another row (P17)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_logs import batch

import kafkarec
from kafkarec.cli import json_lines
from kafkarec.support import text_table


def parsed(lines):
    """The rows; asserts that each way to split lines returns the same lines."""
    text = lines.decode()
    assert text.splitlines() == text.split("\n")[:-1]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text.replace("\n", ""))
    return [json.loads(line) for line in text.splitlines()]


def one_value(blob, form):
    table = kafkarec.decode(batch(0, 1, value=blob), columns=["value"])
    return json_lines.render(table, ["value"], forms={"value": form}).decode().rstrip("\n")


@pytest.mark.parametrize(
    "form, blob, shown",
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
        ("json", b" null\n", '{"value_base64":"IG51bGwK"}'),
        ("json", b"{'a'}", '{"value_base64":"eydhJ30="}'),
        ("json", b"\xef\xbb\xbf1", '{"value_base64":"77u/MQ=="}'),
        ("json", b'"\xc2\x9b"', '{"value":"\\u009b"}'),
        *((form, None, '{"value":null}') for form in json_lines.FORMS),
    ],
)
def test_values_in_each_form(form, blob, shown):
    assert one_value(blob, form) == shown
    json.loads(shown)


def test_too_deeply_nested_json_is_shown_as_bytes():
    nested = b"[" * 200_000
    assert one_value(nested, "json") == one_value(nested, "base64")


@given(
    blob=st.binary(max_size=20) | st.text(max_size=20).map(str.encode),
    form=st.sampled_from(list(json_lines.FORMS)),
)
def test_any_bytes_in_any_form_are_one_json_object_on_one_line(blob, form):
    (cell,) = parsed(one_value(blob, form).encode() + b"\n")
    assert len(cell) == 1


def test_a_table_aligns_columns_and_replaces_control_characters():
    text = text_table.render([("n", ["1", "22", "-"]), ("name", ["a\x1b[2J", "b", "c\nd"])])
    assert text == " n  name\n 1  a\ufffd[2J\n22  b\n -  c\ufffdd\n"


@pytest.mark.parametrize(
    "ms, shown",
    [
        (None, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1700000000123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_times_are_shown_in_utc(ms, shown):
    assert text_table.timestamp_text(ms) == shown
