"""Rows as JSON Lines and CSV, compared with the same made row by row and character by character: what the compiled
formatter is compared with. There rows are dicts: name -> int, bool, str, bytes, list of (header key, value) or None; a
Ready is JSON text that is printed as it is."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import builders
import pytest
from plain_logs import batch

import kafkarec
from kafkarec._verbs import lines
from kafkarec.cli import cat_writers, json_lines
from kafkarec.cli.cat_writers import CsvWriter
from kafkarec.cli.record_pieces import rows_at, slices

pytestmark = pytest.mark.core

FORMS = tuple(json_lines.FORMS)
COLUMNS = (
    "topic", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "partition", "batch_position", "magic",
    "compression", "is_transactional", "control_type", "producer_id", "producer_epoch", "sequence", "file",
    "partition_leader_epoch",
)  # fmt: skip
UNUSUAL = (
    b"", b"\n", b"\r\n", b"\t", b"\0", b'"', b'""', b"\\", b"}\n{", b"\xff", b"\x1b[2J", b"\x7f", b"=1", b"+", b"-1",
    b"@", b"\xc2\x80", b"\xc2\x9f", b"\xc2\xa0", b"\xe2\x80\xa7", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xe2\x80\xaa",
    b"\xed\xa0\x80", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xc3",
    b"\xe2\x80", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80", b"\xef\xbc\x9d", b"\xef\xbc\x8b1", b"\xef\xbc\x8d",
    b"\xef\xbb\xbf", b"\xef\xbc\xa0", b"\xef\xbc\x9e", b"\xf8", b"\x80", b"\xfb\xf0\x00", b"%s%d",
    "caf\u00e9 \u65e5\u672c".encode(),
)  # fmt: skip
JSON = (
    b'{"a": 1.50,\r\n "a": 12345678901234567890}', b"NaN", b"-Infinity", b"Infinity", b"-", b"-0", b"01", b"0.", b".5",
    b"1e5", b"1E+05", b"1e", b"1.0e-1 ", b"\t[ ]", b"[,]", b"[1,]", b"[1 2]", b"{}", b'{"a"}', b'{"a":}', b'{"a":1,}',
    b'{1:2}', b'{"a":1 "b":2}', b'"a', b'"\\u00e9\\n\\/"', b'"\\x"', b'"\\u12g4"', b'"\\u12"', b'"\\ud800"', b'"\t"',
    b'"\xc2\x9b"', b'"\x7f"', b"\xc2\xa01", b"true", b"tru", b"null ", b"nulls", b"false,", b"", b" ", b"[[1],[{}]]",
    b"]", b"[}", b'{"a":[1,{"b":null}],"c":"\xe2\x80\xa8"}', b"1\n2", b"\n1", b"\r-1", b"--1", b"+1", b"1_0", b"[1]]",
    b'["\xff"]', b"\xff", b'{"a":"\\"","b":"\\\\"}', b'"\\', b"[" * 500 + b"]" * 500, b"[" * 600 + b"]" * 600,
    b'[{"a":' * 250 + b"1" + b"}]" * 250, b"0x1", b"1.5.", b"1e1.5", b"-01", b"\x0c1", b"'a'", b"[1;2]", b'"a"b',
    b"{,}", b"{1", b"[", b'{"', b'{"a"', b'{"a":[', b'"\\u', b'"\\ud800\\u12"',
    b'[tRue]', b'"12345678\x1f"', b'"1234567\\z"', b'{"1234567":"12345678"}',
)  # fmt: skip
TIMES = (
    -1, 0, 1, -2, 951_782_400_000, 951_868_799_999, 1_700_000_000_123, 253_402_300_799_999, 253_402_300_800_000,
    -62_135_596_800_000, -62_135_596_800_001, -2_208_988_800_000, 4_107_542_400_000, 2**62, -(2**62), 10, 99, 100,
    -86_400_001,
)  # fmt: skip


# ---- the slow formatter

Row = Mapping[str, Any]


class Ready(str):
    """JSON text."""


class NoText(Exception):
    """The bytes cannot be printed in this form."""


def has_no_shape(char: str) -> bool:
    """DEL, the C1 controls, and the separators of lines and paragraphs, which JSON allows in a string."""
    return "\x7f" <= char <= "\x9f" or char in "\u2028\u2029"


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if has_no_shape(char) else char for char in text)


def json_string(text: str) -> str:
    return escaped(json.dumps(text, ensure_ascii=False))


def decoded(blob: bytes) -> str:
    try:
        return blob.decode("utf-8")
    except UnicodeDecodeError:
        raise NoText from None


def _no_constant(name: str):
    raise ValueError(name)


def stored_json(blob: bytes) -> str:
    text = decoded(blob)
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NoText from None
    return text.strip().replace("\n", " ").replace("\r", " ")


def whole_number(blob: bytes, size: int) -> str:
    if len(blob) != size:
        raise NoText
    return str(int.from_bytes(blob, "big", signed=True))


def base64_text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")


# --key-as, --value-as: the suffix of the name; the cell in JSON without its quotes' escapes; whether it has quotes.
SHOWN: dict[str, tuple[str, Callable[[bytes], str], bool]] = {
    "utf8": ("", decoded, True),
    "json": ("", stored_json, False),
    "base64": ("_base64", base64_text, True),
    "hex": ("_hex", bytes.hex, True),
    "int32": ("", lambda blob: whole_number(blob, 4), False),
    "int64": ("", lambda blob: whole_number(blob, 8), False),
}


def time_text(ms: int) -> str | None:
    """ISO 8601; None outside of the years that it can write."""
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return time.strftime("%m-%dT%H:%M:%S").join((f"{time.year:04}-", f".{time.microsecond // 1000:03}Z"))


def json_cell(name: str, value, form: str, iso_times: bool) -> str:
    """`"name":value`."""
    if value is None:
        return f'"{name}":null'
    if isinstance(value, Ready):
        return f'"{name}":{escaped(value)}'
    if isinstance(value, bytes):
        suffix, show, quotes = SHOWN[form]
        try:
            text = show(value)
            if form == "json" and text == "null":  # which is a record without a value
                raise NoText
        except NoText:
            return f'"{name}_base64":"{base64_text(value)}"'
        return f'"{name}{suffix}":{json_string(text) if quotes else escaped(text)}'
    if isinstance(value, str):
        return f'"{name}":{json_string(value)}'
    if isinstance(value, bool):
        return f'"{name}":{"true" if value else "false"}'
    if isinstance(value, int):
        text = time_text(value) if name == "timestamp" and iso_times else None
        return f'"{name}":{value}' if text is None else f'"{name}":"{text}"'
    return f'"{name}":{json_headers(value)}'


def json_headers(pairs: Sequence[tuple[str, bytes | None]]) -> str:
    shown = (f'{{"key":{json_string(key)},{json_cell("value", value, "utf8", False)}}}' for key, value in pairs)
    return f"[{','.join(shown)}]"


def slow_json(rows: Sequence[Row], names: Sequence[str], forms: Mapping[str, str], iso_times: bool) -> bytes:
    lines = (",".join(json_cell(name, row[name], forms.get(name, "utf8"), iso_times) for name in names) for row in rows)
    return "".join(f"{{{line}}}\n" for line in lines).encode()


def csv_cells(name: str, value, form: str | None, iso_times: bool) -> Iterator[str]:
    """One cell, or for a key or value (`form`) that and the one of its base64."""
    both = form not in (None, "base64", "hex")
    quoted, text = True, ""
    if value is None:
        quoted = False
    elif isinstance(value, Ready):
        text = escaped(value)
    elif isinstance(value, bytes):
        _, show, quotes = SHOWN[form or "utf8"]
        try:
            text = escaped(show(value)) if form == "json" else show(value)
            if any(has_no_shape(char) or (char < " " and char not in "\t\r\n") for char in text):
                raise NoText
            quoted = quotes or form == "json"
        except NoText:
            yield ""
            text, both = base64_text(value), False
    elif isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        quoted, text = False, "true" if value else "false"
    elif isinstance(value, int):
        iso = time_text(value) if name == "timestamp" and iso_times else None
        quoted, text = name == "timestamp" and iso_times, iso or str(value)
    else:
        text = json_headers(value)
    yield '"' + text.replace('"', '""') + '"' if quoted else text
    if both:
        yield ""


def slow_csv(rows: Sequence[Row], names: Sequence[str], forms: Mapping[str, str], iso_times: bool = False) -> bytes:
    """The rows without the line of names. `forms` of key and value, and of no other column."""
    lines = (
        ",".join(cell for name in names for cell in csv_cells(name, row[name], forms.get(name), iso_times))
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines).encode()


# ---- random rows


def some_blob(chance):
    how = chance.randrange(8)
    if how == 0:
        return None
    if how == 1:
        return chance.randbytes(chance.choice([1, 4, 8, 9, 30]))
    if how == 2:
        return chance.choice(JSON)
    if how == 3:
        return b"".join(chance.choices(UNUSUAL, k=chance.randrange(9)))
    if how == 4:
        return chance.choice(UNUSUAL)
    if how == 5:
        return bytes(chance.choices(range(32, 127), k=chance.randrange(70)))
    if how == 6:  # something unusual at any place of ordinary text
        text = bytes(chance.choices(b"abc xyz", k=chance.randrange(40)))
        at = chance.randrange(len(text) + 1)
        return text[:at] + chance.choice(UNUSUAL) + text[at:]
    return b'{"id":%d,"name":"%d"}' % (chance.randrange(10**9), chance.randrange(10))


def some_batches(chance):
    raw, offset = b"", chance.choice([0, 9, 2**40, 2**63 - 40])
    for number in range(chance.randrange(1, 4)):
        records = [
            builders.record(
                offset_delta=row,
                timestamp_delta=chance.choice(TIMES),
                key=some_blob(chance),
                value=some_blob(chance),
                headers=[
                    (chance.choice([b"k", b"", b'"\\', b"\xc2\x85", b"\n", b"caf\xc3\xa9"]), some_blob(chance))
                    for _ in range(chance.choice([0, 0, 1, 3]))
                ],
            )
            for row in range(chance.randrange(1, 7))
        ]
        raw += builders.batch(
            records,
            base_offset=offset + 9 * number,
            base_timestamp=0,
            codec=chance.choice(["none", "lz4"]),
            producer_id=chance.choice([-1, 2**40]),
            producer_epoch=chance.choice([-1, 0, 32767]),
            base_sequence=chance.choice([-1, 7]),
            attributes=chance.choice([0, 8, 16]),
        )
    return raw


def some_case(seed):
    """A table, perhaps of some rows of another one, the names of some columns, the constants, the rows as dicts."""
    chance = random.Random(seed)
    stored = [name for name in COLUMNS if name not in ("topic", "partition", "file")]
    table = kafkarec.decode(some_batches(chance), columns=stored, timestamp_unit="int64")
    low, high = sorted(chance.choices(range(len(table) + 1), k=2))
    table = table[low:high] if chance.randrange(2) else table
    names = chance.sample(COLUMNS, chance.randrange(1, len(COLUMNS))) if chance.randrange(4) else list(COLUMNS[:8])
    known = {
        "topic": chance.choice([None, "orders", '="a"', "50%"]),
        "partition": chance.choice([None, 7]),
        "file": "f\n",
    }
    columns = {name: table.column(name) for name in stored}
    places = list(range(len(table)))
    if chance.randrange(2):
        places = (
            places[2:7] if chance.randrange(4) == 0 else sorted(chance.sample(places, chance.randrange(len(table) + 1)))
        )
    rows = [known | {name: columns[name][row] for name in stored} for row in places]
    return chance, rows_at(table, places), names, known, rows


def csv_of(table, names, forms, iso_times, decoded, known):
    """What CsvWriter writes after the line of names."""
    sink = io.BytesIO()
    left = {name: iter(texts) for name, texts in decoded.items()}

    def texts_of(names, decoded, source, window):
        return {name: list(islice(texts, len(window))) for name, texts in left.items()}

    source = SimpleNamespace(**known, path="f")
    writer = CsvWriter(sink, names, list(left), forms, iso_times)
    with patch.object(cat_writers, "json_texts", texts_of):
        for window in slices(table):  # as cat cuts it
            writer.write(source, window)
    return sink.getvalue().partition(b"\n")[2]


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_lines_of_both_formats_are_those_of_the_slow_formatter(start):
    for seed in range(start, start + 100):
        chance, table, names, known, rows = some_case(seed)
        forms = {"key": chance.choice(FORMS), "value": chance.choice(FORMS)}
        iso_times = chance.randrange(2) == 1
        texts = [chance.choice([None, '{"a":"\x85"}', "{}"]) for _ in rows]
        ready = [row if text is None else row | {"value": Ready(text)} for row, text in zip(rows, texts, strict=True)]
        shown, decoded = (ready, {"value": texts}) if chance.randrange(3) == 0 else (rows, {})
        found = json_lines.render(table, names, constants=known, forms=forms, decoded=decoded, iso_times=iso_times)
        assert found == slow_json(shown, names, forms, iso_times), seed
        if decoded:
            forms["value"] = "utf8"  # CSV has no other form of such texts
        names = [name for name in names if name != "file"] or ["offset"]
        written = csv_of(table, names, forms, iso_times, decoded, known | {"file": None})
        assert written == slow_csv(shown, names, forms, iso_times), seed


@pytest.fixture(scope="module")
def chunk():
    records = [builders.record(offset_delta=n, key=b"k", headers=[(b"h", b"v")]) for n in range(3)]
    ((chunk, _, _),) = kafkarec.decode(builders.batch(records), columns=["offset", "key", "headers"])._slices
    return chunk


@pytest.mark.parametrize(
    "how, index, format_, ready, message",
    [
        ("number", 1, "l", None, "column 1 is not written so"),
        ("bool", 2, "b", None, "column 2 is not"),
        ("utf8", 0, "z", None, "column 0 is not"),
        ("hex", 2, "z", None, "column 2 is not"),
        ("headers", 1, "+l", None, "column 1 is not"),
        ("utf8", 3, "z", None, "column 3 is not"),
        ("utf8", -1, "z", None, "column -1 is not"),
        ("ready", -1, "", [b"a", b"b", b"c"], "3 texts for 3 rows from 1 on"),
    ],
)
def test_columns_and_texts_that_are_not_there_are_refused(chunk, how, index, format_, ready, message):
    with pytest.raises(ValueError, match=message):
        lines([(how, b'{"n', index, format_, ready)], b"}\n", chunk, 0, 3, 1)


def test_texts_before_the_first_one_are_refused(chunk):
    with pytest.raises(ValueError, match="3 texts for 3 rows from -1 on"):
        lines([("ready", b'{"n', -1, "", [b"a", b"b", b"c"])], b"}\n", chunk, 0, 3, -1)


def test_headers_with_views():
    data = batch(0, 1, headers=[(b"h", b"v"), (b"i", b"v" * 13), (b"j", None)])
    ((chunk, _, _),) = kafkarec.decode(data, columns=["headers"], layout="view")._slices
    wanted = b'{"h":[{"key":"h","value":"v"},{"key":"i","value":"%s"},{"key":"j","value":null}]}\n' % (b"v" * 13)
    assert lines([("headers", b'{"h', 0, "+l", None)], b"}\n", chunk, 0, 1, 0) == wanted


@pytest.mark.parametrize("start, stop", [(2, 1), (-1, 1), (0, 4)])
def test_rows_that_are_not_there_are_refused(chunk, start, stop):
    with pytest.raises(ValueError, match=f"rows {start} to {stop} of 3"):
        lines([], b"\n", chunk, start, stop, 0)
    assert lines([], b"end\n", chunk, 1, 3, 0) == b"end\nend\n"
