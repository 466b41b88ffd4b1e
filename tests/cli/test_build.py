"""`cat | build | cat` returns every row in each format; with the batch columns it returns every batch too."""

import json

import golden
import pyarrow as pa
import pytest
from command import ROW, WIDE, own_process
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples
from paths import SEGMENTS
from random_records import UNUSUAL, records_of

import kafkarec
from kafkarec import encode

FOLDERS = ("all-codecs-0", "compacted-0", "logappend-0", "txn-0", "__consumer_offsets-0", "__cluster_metadata-0")
FORMATS = ("json", "csv", "arrow", "parquet")


def round_trip(run, source, form, out, *arguments):
    """The JSON Lines of a log, and those of the log that `build` makes from its rows in the given format: the bytes of
    internal topics, and the objects that they are decoded to."""
    rows = out.parent / f"rows.{form}"
    assert run("cat", source, "--raw", "--format", form, "-o", rows, *arguments).status == 0
    built = run("build", rows, "-o", out)
    assert (built.status, built.out) == (0, b""), built.err
    return tuple([run("cat", log, *how, *arguments).out for how in (["--raw"], [])] for log in (source, out))


@pytest.mark.parametrize(
    "arguments", [(), ("--control",), ("--control", "--columns", WIDE)], ids=["rows", "control", "batches"]
)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_rows_and_batches_of_a_broker_come_back(run, tmp_path, folder, form, arguments):
    before, after = round_trip(run, SEGMENTS / folder, form, tmp_path / folder, *arguments)
    assert all(before) and after == before


@pytest.mark.parametrize("form", FORMATS)
def test_uncompressed_batches_come_back_byte_for_byte(run, tmp_path, form):
    """A log as the builder writes one: shortest varints, no offsets beyond the last record, no empty batches."""
    first = tmp_path / "first.log"
    run("cat", SEGMENTS / "txn-0", "--control", "--columns", WIDE, "-o", tmp_path / "rows.jsonl")
    assert run("build", tmp_path / "rows.jsonl", "--compression", "none", "-o", first).status == 0
    rows, second = tmp_path / f"rows.{form}", tmp_path / "second.log"
    run("cat", first, "--control", "--columns", WIDE, "--format", form, "-o", rows)
    assert run("build", rows, "-o", second).status == 0
    assert second.read_bytes() == first.read_bytes() and len(kafkarec.scan(first.read_bytes())) == 149


# Inner messages of another magic than their wrapper's: no writer produces the records that readers return (KIP-32).
MIXED = {"v0-inner-magic-other", "v1-wrapper-with-v0-inner"}


@pytest.mark.parametrize("columns", [ROW, WIDE], ids=["rows", "batches"])
def test_every_vector_that_kafka_reads_comes_back(run, tmp_path, columns):
    """But those with offsets that repeat or descend, or negative timestamps, which are refused and named."""
    rows, new, differing, refused = tmp_path / "rows.jsonl", tmp_path / "new.log", set(), 0
    cases = [*golden.vectors(), *(case for case in golden.invalid() if case.json["exception"] is None)]
    for case in cases:
        arguments = ("--control", "--columns", columns)
        shown = run("cat", case.bin_path, *arguments)
        if shown.status:
            continue  # accepted in memory and not in a file
        rows.write_bytes(shown.out)
        built = run("build", rows, "-o", new, "--force")
        if built.status:
            refused += 1
            assert "; offsets must increase" in built.err or "found a negative number" in built.err, case.name
        elif run("cat", new, *arguments).out != shown.out:
            differing.add(case.name)
    assert differing <= MIXED and len(cases) - refused > 180, refused


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("folder", ["__consumer_offsets-0", "__cluster_metadata-0"])
def test_records_of_internal_topics_are_not_built_from_objects(run, tmp_path, folder, form):
    rows = tmp_path / f"rows.{form}"
    run("cat", SEGMENTS / folder, "--format", form, "-o", rows)
    refused = run("build", rows, "-o", tmp_path / "not-made-0")
    topic = folder.removesuffix("-0")
    assert refused.status == 1 and not (tmp_path / "not-made-0").exists()
    assert f"an object of {topic} is not its bytes, which kafkarec cat --raw prints" in refused.complaint


TIMES = st.none() | st.integers(0, 2**63 - 1)
RECORDS = records_of(UNUSUAL | st.just(b"\xed\xa0\x80"), most=9, timestamp=TIMES).filter(len)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, gaps=st.randoms(use_true_random=False), form=st.sampled_from(FORMATS))
def test_any_records_come_back(run, tmp_path, records, gaps, form):
    offset, rows = gaps.choice([0, 2**40]), []
    for one in records:
        headers = [(key.decode(), value) for key, value in one["headers"]]
        rows.append((offset, one["timestamp"], one["key"], one["value"], headers))
        offset += gaps.choice([1, 1, 7])
    log, out = tmp_path / "any.log", tmp_path / "new.log"
    log.write_bytes(encode(rows, compression=gaps.choice(["none", "zstd"])))
    for path in (out, *tmp_path.glob("rows.*")):
        path.unlink(missing_ok=True)
    big = any(one["timestamp"] is not None and one["timestamp"] > 2**62 // 1000 for one in records)
    if form in ("arrow", "parquet") and big:
        form = "json"  # pyarrow's limits on timestamps are not kafkarec's
    before, after = round_trip(run, log, form, out)
    assert after == before


@pytest.mark.parametrize("form", ["utf8", "json", "base64", "hex", "int32", "int64"])
def test_keys_and_values_come_back_in_every_form(run, tmp_path, form):
    log = tmp_path / "forms.log"
    values = [
        b"text",
        b'{"a": 1.50, "a": [1e400]}',
        b"\0\0\0\5",
        b"\xff" * 8,
        b"",
        None,
        b"\xff",
        b"0",
        b'"s"',
        b"null",
    ]
    log.write_bytes(encode([(n, n, value, value, []) for n, value in enumerate(values)]))
    for shown in ("json", "csv"):
        arguments = ("--key-as", form, "--value-as", form)
        rows, out = tmp_path / f"rows.{shown}", tmp_path / f"{shown}.log"
        assert run("cat", log, "--format", shown, *arguments, "-o", rows).status == 0
        built = run("build", rows, *arguments, "-o", out)
        assert built.status == 0, built.err
        assert out.read_bytes() == log.read_bytes()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_json_comes_back_without_the_space_around_it(run, tmp_path, form):
    """The value is the same: white space is none of it. Line breaks become spaces, which a line can have."""
    stored = [b' {"a": [1,\t2]}\n', b"[\r\n1]", b"\n null ", b"1" * 5000, b"\xc2\xa01"]
    null = b"null" if form == "csv" else b"\n null "  # in base64, as null is a tombstone in JSON Lines
    kept = [b'{"a": [1,\t2]}', b"[  1]", null, b"1" * 5000, b"\xc2\xa01"]
    log, rows, out = tmp_path / "a.log", tmp_path / f"rows.{form}", tmp_path / "b.log"
    log.write_bytes(encode([(n, n, None, value, []) for n, value in enumerate(stored)]))
    assert run("cat", log, "--value-as", "json", "-o", rows).status == 0
    assert run("build", rows, "--value-as", "json", "-o", out).status == 0
    assert kafkarec.decode(out.read_bytes()).column("value") == kept
    assert run("cat", out, "--value-as", "json", "--format", form).out == rows.read_bytes()


def test_batches_of_rows_fit_the_segments(run, tmp_path):
    (tmp_path / "in.jsonl").write_text("{}\n" * 100)
    out = tmp_path / "orders-0"
    assert run("build", tmp_path / "in.jsonl", "--segment-bytes", "200", "-o", out).status == 0
    assert len(list(out.glob("*.log"))) > 5 and len(kafkarec.open(out).read()) == 100
    (tmp_path / "in.jsonl").write_text(json.dumps({"value": "v" * 300}))
    ran = run("build", tmp_path / "in.jsonl", "--segment-bytes", "200", "-o", tmp_path / "new-0")
    assert ran.status == 2 and "the batch of base offset 0 needs --segment-bytes 3" in ran.complaint
    assert not (tmp_path / "new-0").exists()


CSV = {
    "line ends": (b'key,value\r\na,"b\r\nc"\rd,e', [(b"a", b"b\r\nc"), (b"d", b"e")]),
    "null and empty text": (b'key,value\n"",\n,""\n', [(b"", None), (None, b"")]),
    "words": (b"key,value\nNULL,nan\n", [(b"NULL", b"nan")]),
    "empty lines": (b"key,value\n\na,b\n\r\n", [(b"a", b"b")]),
    "empty lines of one column": (b"key\n\na\n", [(None, None), (b"a", None)]),
    "byte order marks": (b"\xef\xbb\xbfkey,value\n\xef\xbb\xbfa,b\n", [("\ufeffa".encode(), b"b")]),
    "NUL and quotes": (b'"key","value"\n"\0""",""""""\n', [(b'\0"', b'""')]),
    "the first line only": (b"key,value", []),
    "a cell of several blocks": (b'key\n"' + b'""\n' * (1 << 20) + b'"\n', [(b'"\n' * (1 << 20), None)]),
}


@pytest.mark.parametrize("name", CSV)
def test_csv_of_other_programs(run, tmp_path, name):
    text, records = CSV[name]
    rows, out = tmp_path / "rows.csv", tmp_path / "out.log"
    rows.write_bytes(text)
    assert run("build", rows, "-o", out).status == 0
    assert [(record.key, record.value) for record in kafkarec.decode(out.read_bytes())] == records


def test_rows_in_looser_forms_than_cat_writes_are_accepted():
    rows = [
        {"timestamp": "2026-01-31T12:00:00.250Z", "headers": {"a": "1", "b": None}},
        {"timestamp": "2026-01-31", "headers": [["a", "1"], ["a", None]]},
        {"timestampType": 0, "key_hex": "00ff", "value_base64": "AP8="},
    ]
    ran = own_process("build", "-", stdin="\ufeff".encode() + b"\r\n".join(json.dumps(row).encode() for row in rows))
    columns = kafkarec.decode(ran.out, timestamp_unit="int64")
    assert columns.column("timestamp") == [1769860800250, 1769817600000, None]
    assert columns.column("headers")[:2] == [(("a", b"1"), ("b", None)), (("a", b"1"), ("a", None))]
    assert columns.column("key")[2] == columns.column("value")[2] == b"\x00\xff"


def test_rows_without_a_column_that_earlier_rows_have_get_its_default(run, tmp_path):
    """Also where both are of one batch: a row is of magic 0 only where its timestamp type is null."""
    (tmp_path / "a.jsonl").write_text('{"key":"a","timestamp_type":0,"partition_leader_epoch":0}\n')
    (tmp_path / "b.jsonl").write_text('{"key":"b"}\n')
    assert run("build", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-o", tmp_path / "orders-0").status == 0
    (batch,) = kafkarec.open(tmp_path / "orders-0").batches()
    assert (batch.magic, batch.record_count, batch.partition_leader_epoch) == (2, 2, 0)
    assert run("build", tmp_path / "b.jsonl", "-o", tmp_path / "b.log").status == 0
    assert [batch.partition_leader_epoch for batch in kafkarec.open(tmp_path / "b.log").batches()] == [None]
    lines = ['{"key":"a","timestampType":1,"timestamp":7,"partition_leader_epoch":3}', '{"key":"b"}']
    lines.append('{"key":"c","partition_leader_epoch":null}')
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    assert run("build", tmp_path / "c.jsonl", "-o", tmp_path / "mixed-0").status == 0
    fields = ("magic", "timestamp_type", "partition_leader_epoch")
    found = [tuple(map(batch.__getitem__, fields)) for batch in kafkarec.open(tmp_path / "mixed-0").scan()]
    assert found == [(2, 1, 3), (2, 0, 3), (2, 0, None)]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ARROW = {
    "wide text": {"key": pa.array(["k"], pa.large_string()), "value": pa.array(["v"], pa.string_view())},
    "fixed bytes": {"key": pa.array([b"k"], pa.binary(1)), "value": pa.array([b"v"], pa.binary_view())},
    "dictionary": {"key": pa.array(["k"]).dictionary_encode(), "value": pa.array([b"v"]).dictionary_encode()},
    "timestamps": {"timestamp": pa.array([7_000_000], pa.timestamp("us", "Europe/Berlin"))},
    "bare timestamps": {"timestamp": pa.array([7_000_999_999], pa.timestamp("ns"))},
    "milliseconds": {"timestamp": pa.array([7000], pa.uint16())},
    "small offsets": {"offset": pa.array([9], pa.uint8())},
    "map": {"headers": pa.array([[("h", "1")]], pa.map_(pa.string(), pa.string()))},
    "text headers": {"headers": pa.array([[{"key": "h", "value": "1"}]])},
    "long lists": {"headers": pa.array([[{"key": "h", "value": b"1"}]], pa.large_list(HEADERS.value_type))},
    "nothing": {"headers": pa.array([None], HEADERS), "timestamp": pa.nulls(1), "key": pa.nulls(1)},
    "of Spark": {"timestampType": pa.array([0], pa.int32()), "key": [b"k"], "topic": ["t"], "partition": [3]},
}


@pytest.mark.parametrize("name", ARROW)
def test_arrow_types_of_other_programs_are_accepted(run, tmp_path, name):
    whole = {"value": pa.array([b"v"]), **ARROW[name]}
    with pa.OSFile(str(tmp_path / "in"), "wb") as file, pa.ipc.new_file(file, pa.table(whole).schema) as out:
        out.write_table(pa.table(whole))
    assert run("build", tmp_path / "in", "-o", tmp_path / "a.log").status == 0
    (record,) = kafkarec.decode((tmp_path / "a.log").read_bytes())
    assert record.value == b"v" and record.key == (b"k" if "key" in whole and name != "nothing" else None)
    assert record.timestamp == (7000 if "timestamp" in whole and name != "nothing" else None)
    assert list(record.headers) == ([("h", b"1")] if "headers" in whole and name != "nothing" else [])
    assert record.offset == (9 if "offset" in whole else 0)


def test_each_partition_gets_its_own_folder(run, tmp_path):
    """Also where the rows of the partitions alternate."""
    rows = [{"topic": "ab"[n % 2], "partition": n % 3, "value": str(n)} for n in range(60)]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ran = run("build", tmp_path / "in.jsonl", "-o", f"{tmp_path}/new/")
    assert ran.status == 0 and "60 records in 6 batches" in ran.err and "6 folders in" in ran.err
    for topic, partition in {(row["topic"], row["partition"]) for row in rows}:
        log = kafkarec.open(tmp_path / "new" / f"{topic}-{partition}").read()
        expected = [row for row in rows if (row["topic"], row["partition"]) == (topic, partition)]
        assert log.column("value") == [row["value"].encode() for row in expected]
        assert log.column("offset") == list(range(len(expected)))


def test_options_and_columns_set_fields_of_all_rows(run, tmp_path):
    rows = tmp_path / "in.jsonl"
    fields = '"producer_id":9,"producer_epoch":2,"is_transactional":true,"partition_leader_epoch":4,'
    fields += '"timestamp":1700000000000,"timestamp_type":1'
    lines = (
        f'{{"offset":{n * 2},"value":"{"v" * 100}","sequence":{(2147483640 + n) % 2**31},{fields}}}' for n in range(20)
    )
    rows.write_text("\n".join(lines))
    arguments = "--base-offset 100 --batch-size 500 --compression zstd --level 7"
    assert run("build", rows, "-o", tmp_path / "a.log", *arguments.split()).status == 0
    columns = kafkarec.decode((tmp_path / "a.log").read_bytes(), columns=["offset", "sequence", "timestamp_type"])
    assert columns.column("offset") == list(range(100, 120)) and set(columns.column("timestamp_type")) == {1}
    assert columns.column("sequence") == [(2147483640 + n) % 2**31 for n in range(20)]
    names = ("producer_id", "producer_epoch", "is_transactional", "partition_leader_epoch", "compression")
    found = {tuple(batch[name] for name in names) for batch in columns.batches}
    assert found == {(9, 2, True, 4, "zstd")} and len(columns.batches) > 2


def test_batches_are_those_of_encode(run, tmp_path):
    """Also where a block of the input ends in the middle of a batch. tests/jvm/test_encode.py compares with Kafka's."""
    lines = ({"key": f"k{n}", "value": "v" * (n % 300), "timestamp": 10**12 + n * 31} for n in range(30_000))
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = [(n, 10**12 + n * 31, b"k%d" % n, b"v" * (n % 300), []) for n in range(30_000)]
    for options, expected in (((), encode(rows)), (("--compression", "lz4"), encode(rows, compression="lz4"))):
        assert run("build", tmp_path / "in.jsonl", "-o", tmp_path / "out.log", "--force", *options).status == 0
        is_equal = (tmp_path / "out.log").read_bytes() == expected
        assert is_equal, options  # pytest explains the difference of megabytes for minutes
