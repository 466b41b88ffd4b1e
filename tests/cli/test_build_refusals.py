"""`build` refuses bad input: it names the row and the column, shows no content, and leaves nothing under the output's
name."""

import io
import json
import os
import struct
from subprocess import PIPE

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import subprocesses
from command import PYTHON, interruptible, own_process

import kafkarec
from kafkarec import encode

SECRET = "s3cr3t"


BAD_LINES = {
    "no JSON": (
        f'{{"key": "{SECRET}", }}',
        "invalid JSON at column 19 (expecting property name enclosed in double quotes)",
    ),
    "cut": (f'{{"key": "{SECRET}"', "invalid JSON at column 17 (expecting ',' delimiter)"),
    "array": (f'["{SECRET}"]', "an object on each line is expected, found a list"),
    "number": ("17", "an object on each line is expected, found a number"),
    "several lines": ("{", "jq -c"),
    "too deep": ("[" * 100_000, "found objects nested too deeply"),
    "key a number": ('{"key": 17}', "key: text or null is expected, found a number (--key-as json accepts"),
    "value an object": (f'{{"value": {{"{SECRET}": 1}}}}', "found an object (--value-as json accepts it, "),
    "surrogate": ('{"value": "\\ud800"}', "value: text or null is expected, found other text"),
    "base64": (f'{{"key_base64": "{SECRET}!"}}', "key_base64: base64 text is expected, found other text"),
    "hex": (f'{{"key_hex": "{SECRET}"}}', "key_hex: hex text is expected, found other text"),
    "twice": (f'{{"key": "{SECRET}", "key_base64": "QQ=="}}', "key: is given twice"),
    "offset text": (f'{{"offset": "{SECRET}"}}', "offset: a whole number is expected, found text"),
    "offset fraction": ('{"offset": 1.5}', "offset: a whole number is expected, found a fraction"),
    "offset large": (f'{{"offset": {2**63}}}', "offset: a number of 64 bits is expected, found a larger one"),
    "offset digits": (f'{{"offset": {"9" * 5000}}}', "a number with too many digits"),
    "offset at the end": (f'{{"offset": {2**63 - 1}}}', "offset: 2^63-2 is the largest"),
    "offset below 0": ('{"offset": -1}', "offset: 0 or more is expected"),
    "offset again": ('{"offset": 0}', "offset: 0 follows 0; offsets must increase within a log"),
    "timestamp below -1": ('{"timestamp": -2}', "timestamp: 0 or more is expected (-1: none), found a negative number"),
    "timestamp": (f'{{"timestamp": "{SECRET}"}}', "timestamp: milliseconds or ISO 8601 text such as"),
    "flag": ('{"is_control": 1}', "is_control: true or false is expected, found a number"),
    "headers": (f'{{"headers": "{SECRET}"}}', "as the value, is expected, found text"),
    "header": (f'{{"headers": [{{"key": "a"}}, {{"k": "{SECRET}"}}]}}', "found another list"),
    "header key": ('{"headers": [{"key": null}]}', "headers: a list of {"),
    "object of an internal topic": (
        f'{{"topic": "__consumer_offsets", "key": {{"a": "{SECRET}"}}}}',
        "key: an object of __consumer_offsets is not its bytes, which kafkarec cat --raw prints",
    ),
    "header value": ('{"headers": [{"key": "a", "value": 1}]}', "headers: a list of {"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_and_not_shown(run, tmp_path, name):
    line, message = BAD_LINES[name]
    rows, out = tmp_path / "in.jsonl", tmp_path / "out.log"
    rows.write_text('{"offset": 0}\n\n' + line + '\n{"value": "last"}\n')
    ran = run("build", rows, "-o", out)
    assert ran.status == 1 and not out.exists()
    assert f"{rows}, line 3" in ran.complaint and message in ran.complaint and SECRET not in ran.err
    left = run("build", rows, "-o", out, "--errors", "skip")
    assert left.status == 1 and f"{rows}, line 3" in left.err and "left out" in left.err and SECRET not in left.err
    columns = kafkarec.decode(out.read_bytes())
    assert columns.column("value") == [None, b"last"] and columns.column("offset") == [0, 1]


UNSTORABLE = {
    "codec": ({"compression": "brotli"}, "compression: one of none, gzip"),
    "magic": ({"magic": 3}, "magic: one of 0, 1, 2 is expected"),
    "legacy headers": ({"magic": 1, "headers": {"a": "b"}}, "magic 1 cannot store headers; magic 2 can"),
    "legacy codec": ({"magic": 0, "compression": "zstd"}, "magic 0 cannot store compression zstd"),
    "legacy transaction": ({"magic": 1, "is_transactional": True}, "magic 1 cannot store transactions"),
    "below its batch": ({"offset": 3, "base_offset": 4}, "offset 3 is below its base_offset 4"),
    "above its batch": (
        {"offset": 2**31, "base_offset": 0},
        f"offset {2**31} is more than 2^31-1 away from its base_offset 0",
    ),
}


@pytest.mark.parametrize("name", UNSTORABLE)
@pytest.mark.parametrize("more", [0, 20_000], ids=["alone", "among many"])
def test_a_row_that_no_batch_can_store_is_named_and_can_be_skipped(run, tmp_path, name, more):
    row, message = UNSTORABLE[name]
    rows, out = tmp_path / "in.jsonl", tmp_path / "out.log"
    good = [{"offset": 0, "base_offset": 0}, {"offset": 2**31 + 1}, *({"offset": 2**32 + at} for at in range(more))]
    rows.write_text("".join(json.dumps(one) + "\n" for one in [good[0], {"offset": 2, **row}, *good[1:]]))
    ran = run("build", rows, "-o", out)
    assert ran.status == 1 and not out.exists()
    assert f"{rows}, line 2: {message}" in ran.complaint
    ran = run("build", rows, "-o", out, "--errors", "skip")
    assert (ran.status, ran.err.count("left out")) == (1, 1) and f"{rows}, line 2: {message}" in ran.err
    assert kafkarec.decode(out.read_bytes()).column("offset") == [one["offset"] for one in good]


def test_where_no_row_can_be_stored_the_log_is_empty(run, tmp_path):
    rows, out = tmp_path / "in.jsonl", tmp_path / "out.log"
    rows.write_text('{"magic": 3}\n' * 3)
    ran = run("build", rows, "-o", out, "--errors", "skip")
    assert (ran.status, ran.err.count("left out")) == (1, 3) and out.read_bytes() == b""


@pytest.mark.parametrize(
    "text, message",
    [
        ("offset,key\n1,a,b\n", "line 2: 2 cells are expected, as in the first line, found 3"),
        ("offset,key\nx,a\n", "line 2: offset: a whole number is expected, found other text"),
        ('offset,key\n1,"a\nb"\n2,"c"\n,,\n', "line 5: 2 cells are expected"),
        ("key,is_control\na,maybe\n", "line 2: is_control: true or false is expected"),
        ("key,headers\na,{\n", "line 2: headers: JSON is expected"),
    ],
)
def test_a_bad_row_of_csv_is_named(run, tmp_path, text, message):
    (tmp_path / "in.csv").write_text(text, newline="")
    ran = run("build", tmp_path / "in.csv", "-o", tmp_path / "out.log")
    assert ran.status == 1 and message in ran.complaint and not (tmp_path / "out.log").exists()


def test_a_bad_row_of_arrow_is_named(run, tmp_path):
    table = pa.table({"key": ["aa", "!", "c"], "value": pa.array([b"1", b"2", b"3"], pa.large_binary())})
    pq.write_table(table, tmp_path / "in.parquet")
    ran = run("build", tmp_path / "in.parquet", "--key-as", "hex", "-o", tmp_path / "out.log", "--errors", "skip")
    assert ran.status == 1 and ran.err.count("left out") == 2 and "row 2: key: hex text is expected" in ran.err
    assert kafkarec.decode((tmp_path / "out.log").read_bytes()).column("value") == [b"1"]


NO_JSON = {
    "NaN": ("in.jsonl", b'{"value": 1, "score": NaN}\n{"value": {"a": NaN}}\n', "line 2: invalid JSON at column 11"),
    "Infinity in CSV": ("in.csv", b"value\n1\n[-Infinity]\n", "line 3: value: JSON is expected"),
    "NaN in Arrow": (
        "in.parquet",
        pa.array([{"a": 1.0}, {"a": float("nan")}]),
        "row 2: value: JSON, without bytes in it",
    ),
    "bytes in Arrow": (
        "in.parquet",
        pa.array([{"a": None}, {"a": b"x"}]),
        "numbers that are not finite, is expected, found an object",
    ),
    "bytes": (
        "in.parquet",
        pa.array([b"1", b"\xff"]),
        "is expected, found bytes",
    ),
    "text": ("in.parquet", pa.array(["1", "{"]), "is expected, found other text"),
    "text in bytes": ("in.parquet", pa.array([b"1", b"NaN"]), "is expected, found bytes"),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_json_cannot_represent_is_named(run, tmp_path, name):
    """Python's json module reads and writes NaN and the infinities, which other readers refuse."""
    file, rows, message = NO_JSON[name]
    if isinstance(rows, bytes):
        (tmp_path / file).write_bytes(rows)
    else:
        pq.write_table(pa.table({"value": rows}), tmp_path / file)
    arguments = ("build", tmp_path / file, "--columns", "value", "--value-as", "json", "-o", tmp_path / "out.log")
    ran = run(*arguments)
    assert ran.status == 1 and message in ran.complaint and not (tmp_path / "out.log").exists()
    assert run(*arguments, "--errors", "skip").status == 1
    assert len(kafkarec.decode((tmp_path / "out.log").read_bytes())) == 1


BAD_QUOTE = "a quote inside a cell, or one that is not closed: not valid CSV"
WRONG_USE = {
    "unknown column": (b'{"kex": 1}', [], "line 1: no such column: kex; there are topic, partition, offset"),
    "unknown column of CSV": (b"kex,value\na,b\n", ["--from", "csv"], "line 1: no such column: kex"),
    "unknown column twice": (b"kex,kex\na,b\n", ["--from", "csv"], "line 1: no such column: kex"),
    "a column and its other name": (
        b'{"timestampType": 1}\n{"timestamp_type": 0}',
        [],
        "line 2: column named twice: timestamp_type",
    ),
    "column twice in CSV": (b"key,value,key\na,b,c\n", ["--from", "csv"], "line 1: column named twice: key"),
    "level": (b"{}", ["--level", "3"], "--level needs --compression"),
    "level range": (b"{}", ["--compression", "lz4", "--level", "99"], "--level: "),
    "no CSV": (b'key\n"a\n', ["--from", "csv"], f"line 2: {BAD_QUOTE}"),
    "quote inside": (b'key,value\na"b"c,d\n', ["--from", "csv"], f"line 2: {BAD_QUOTE}"),
    "quotes of two cells": (b'key,value\na,b\n"c,1\n"d,2\n', ["--from", "csv"], f"line 3: {BAD_QUOTE}"),
    "text that is not UTF-8": (
        b'key\n"a\nb\xff"\n',
        ["--from", "csv"],
        "line 3: UTF-8 is expected, byte 2 of the line",
    ),
    "no format": (b"hello world\n", [], "is not recognised"),
    "gzip": (b"\x1f\x8b\x08\0", [], "looks like a gzip file: zcat FILE | kafkarec build -"),
    "a log": (encode([(0, 0, b"k", b"v", [])]), [], "looks like a Kafka log"),
    "no parquet": (b"{}", ["--from", "parquet"], "is not parquet; pass its format with --from"),
    "no arrow": (b'{"key": 1}', ["--from", "arrow"], "is not arrow; pass its format with --from"),
    "legacy zstd": (b"{}", ["--magic", "0", "--compression", "zstd"], "magic 0 cannot store compression zstd"),
    "another partition, no topic": (b'{"partition":0}\n{"partition":1}', [], "line 2: a second partition"),
    "another topic, no partition": (b'{"topic":"a"}\n{"topic":"b"}', [], "line 2: a second partition"),
    "another partition": (
        b'{"topic":"a","partition":0}\n{"topic":"a","partition":1}',
        [],
        "line 2: a second partition",
    ),
}


def test_a_column_and_its_other_name_are_refused_in_lines_that_are_far_apart(run, tmp_path):
    lines = b'{"timestampType": 1}\n{"value": "%b"}\n{}\n{"timestamp_type": 0}' % (b"x" * (2 << 20))
    (tmp_path / "in.jsonl").write_bytes(lines)
    ran = run("build", tmp_path / "in.jsonl", "-o", tmp_path / "out.log")
    assert ran.status == 2 and "in.jsonl, line 4: column named twice: timestamp_type" in ran.complaint
    assert not (tmp_path / "out.log").exists()


def test_two_columns_of_one_name_in_parquet_are_refused(run, tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([b"a"])] * 2, names=["key", "key"]), tmp_path / "in.parquet")
    ran = run("build", tmp_path / "in.parquet", "-o", tmp_path / "out.log")
    assert ran.status == 2 and "in.parquet, the schema: column named twice: key" in ran.complaint
    assert not (tmp_path / "out.log").exists()


@pytest.mark.parametrize("line", ['{"magic": 3}', '{"topic": "b"}', '{"offset": 0}', '{"timestamp": -2}'])
def test_of_several_files_the_one_with_the_row_is_named(run, tmp_path, line):
    first, second, out = tmp_path / "first.jsonl", tmp_path / "second.jsonl", tmp_path / "out.log"
    first.write_text('{"topic": "a"}\n{"topic": "a"}\n')
    second.write_text('\n{"topic": "a"}\n' + line + "\n")
    ran = run("build", first, second, "-o", out)
    assert ran.status in (1, 2) and ran.complaint.count(f"{second}, line 3: ") == 1 and not out.exists()


def test_a_row_that_is_encoded_after_the_next_file_was_opened_is_named_by_its_own_file(run, tmp_path):
    """Rows wait until a batch is full."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text('{"magic": 3}\n')
    second.write_text("{}\n")
    ran = run("build", first, second, "-o", tmp_path / "out.log")
    assert ran.status == 1 and f"{first}, line 1: magic: one of" in ran.complaint and str(second) not in ran.complaint


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use_is_one_line(name):
    data, arguments, message = WRONG_USE[name]
    ran = own_process("build", *arguments, stdin=data)
    assert (ran.status, ran.out) == (2, b"") and message in ran.complaint


@pytest.mark.parametrize("place", ['"a", "partition": -1', '"a/b", "partition": 0', '"..", "partition": 0', '"a"'])
def test_a_folder_that_would_be_another_partition_is_not_made(run, tmp_path, place):
    """The folder a--1 is that of partition 1 of the topic a-."""
    rows, out = tmp_path / "in.jsonl", tmp_path / "logs"
    rows.write_text(f'{{"topic": {place}}}\n')
    ran = run("build", rows, "-o", f"{out}/")
    assert ran.status == 2 and f"{rows}, line 1: " in ran.complaint and not out.exists()


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "force"])
def test_a_folder_is_never_replaced(run, tmp_path, force):
    rows, folder = tmp_path / "in.jsonl", tmp_path / "orders-0"
    rows.write_text("{}\n")
    folder.mkdir()
    assert run("build", rows, "-o", folder, *force).status == 0
    ran = run("build", rows, "-o", folder, "--base-offset", 7, *force)
    assert ran.status == 2 and "exists and is not an empty folder; name a new one" in ran.complaint
    assert f"{0:020}.log" in os.listdir(folder) and f"{7:020}.log" not in os.listdir(folder)
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "orders-0"]


def test_memory_stays_flat(tmp_path):
    """Peak memory for 60 MB of rows exceeds that for 6 MB of rows by less than 60 MB."""
    line = json.dumps({"key": "k" * 10, "value": "v" * 1000}).encode() + b"\n"

    def peak(lines):
        (tmp_path / "in.jsonl").write_bytes(line * lines)
        code = (
            "import resource, sys\nfrom kafkarec.cli import main\n"
            f"assert main(['build', {str(tmp_path / 'in.jsonl')!r}, '-o', {str(tmp_path / f'{lines}.log')!r}]) == 0\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        return int(own_process(code, program=PYTHON).out)

    assert peak(60_000) - peak(6_000) < 30 << 10


def test_what_is_no_csv_ends_before_the_rest_is_read():
    """The pipe stays open: only the first MiB is there."""
    with interruptible("build", "--format", "csv", stdin=PIPE) as process:
        process.stdin.write(b'key,value\na, "b"\n'.ljust(1 << 20, b"x"))
        process.stdin.flush()
        assert process.wait(60) == 2
        assert process.stderr.read().decode() == f"kafkarec: standard input, line 2: {BAD_QUOTE}\n"


def test_a_name_that_is_too_long_for_csv(run, tmp_path):
    (tmp_path / "in.csv").write_text(f"key,value,{'x' * 140_000}\n1,2,3\n")
    ran = run("build", tmp_path / "in.csv", "--columns", "key,value", "-o", tmp_path / "out")
    assert ran.status == 2 and ran.complaint.endswith("in.csv, line 1: a column's name is too long")


def test_the_row_of_an_invalid_arrow_offset_counts_from_the_start_of_the_file(run, tmp_path):
    out, path = io.BytesIO(), tmp_path / "rows.arrow"
    tables = [pa.table({"value": values}) for values in ([b"first"] * 10, [b"v" * 5, b"w" * 4, b"x" * 11])]
    with pa.ipc.new_stream(out, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    offsets, other = (struct.pack("<4i", 0, 5, end, 20) for end in (9, 3))
    assert out.getvalue().count(offsets) == 1
    path.write_bytes(out.getvalue().replace(offsets, other))
    ran = run("build", path, "-o", tmp_path / "out.log")
    assert ran.status == 1 and ran.complaint.startswith(f"kafkarec: {path}, column 'value', row 11 or later: ")
    assert not (tmp_path / "out.log").exists()


PROGRAM = """
import contextlib, io, pathlib, random, sys
from spoiled_arrow import random_table, spoiled, written
from kafkarec import cli
folder, statuses = pathlib.Path(FOLDER), set()
for seed in range(300):
    rng = random.Random(seed)
    form = rng.choice(["file", "stream", "parquet"])
    data = spoiled(written(random_table(rng), form), rng)
    path, out, stderr = folder / f"rows.{form}", folder / "out.log", io.StringIO()
    path.write_bytes(data)
    print(seed, file=sys.stderr, flush=True)
    kind = "parquet" if form == "parquet" else "arrow"
    with contextlib.redirect_stderr(stderr):
        status = cli.main(["build", "--from", kind, str(path), "-o", str(out)])
    assert status in (0, 1, 2, 3) and "internal error" not in stderr.getvalue(), stderr.getvalue()
    assert out.exists() == (status == 0)
    if out.exists():
        assert out.stat().st_size < len(data) + 4000, (out.stat().st_size, len(data))
        out.unlink()
    statuses.add(status)
assert statuses == {0, 1, 2, 3}, statuses
"""


def test_files_changed_at_random_are_read_or_refused(tmp_path):
    """In a child process, which prints each seed before it tries it, so that a crash by a signal names its seed."""
    subprocesses.run(PROGRAM.replace("FOLDER", repr(str(tmp_path))))


def test_a_bad_line_late_in_the_input_leaves_no_folder(run, tmp_path):
    rows = tmp_path / "in.jsonl"
    rows.write_bytes(b'{"value": "%s"}\n' % (b"v" * 1000) * 5000 + b"oh\n")
    ran = run("build", rows, "-o", tmp_path / "orders-0")
    assert ran.status == 1 and "line 5001" in ran.complaint and sorted(os.listdir(tmp_path)) == ["in.jsonl"]
