"""`kafkarec cat` on a real broker's segments: the rows that a real consumer got, and every option."""

import shutil

import builders
import golden
import pytest
from command import as_consumer_row, own_process
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_run import examples
from paths import SEGMENTS
from plain_logs import batch
from random_records import UNUSUAL, records_of
from reading import DEFAULT_COLUMNS

from kafkarec.cli.record_pieces import log_reading

TXN, CODECS = SEGMENTS / "txn-0", SEGMENTS / "all-codecs-0"


@pytest.mark.parametrize("folder, isolation", golden.consumer_reads())
def test_rows_are_those_of_a_real_consumer(run, folder, isolation):
    ran = run("cat", SEGMENTS / folder, "--isolation", isolation)
    assert (ran.status, ran.err) == (0, "")
    expected = [tuple(row[name] for name in DEFAULT_COLUMNS) for row in golden.consumed(folder, isolation)]
    assert [as_consumer_row(row) for row in ran.rows] == expected
    topic, _, partition = folder.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in ran.rows} == {(topic, int(partition))}


def test_a_copied_folder_of_any_name_is_one_log(run, tmp_path):
    for file in TXN.glob("*.log"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    arguments = ("--isolation", "read_committed", "--topic", "t", "--partition", 4)
    expected = run("cat", TXN, *arguments).out
    assert (
        run("cat", tmp_path, *arguments).out == run("cat", *sorted(tmp_path.glob("*.log")), *arguments).out == expected
    )


def test_read_committed_from_a_pipe_reads_it_once(run):
    arguments = ("--isolation", "read_committed", "--columns", "offset")
    piped = own_process("cat", "-", *arguments, stdin=golden.partition_bytes("txn-0"))
    assert (piped.status, piped.out) == (0, run("cat", TXN, *arguments).out)


RECORDS = records_of(UNUSUAL, most=6)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(RECORDS, max_size=4), codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_any_records_come_back_from_their_json(run, tmp_path, runs, codec):
    raw, expected, at = b"", [], 0
    for fields in runs:
        parts = [builders.record(offset_delta=i, **one) for i, one in enumerate(fields)]
        raw += builders.batch(parts, base_offset=at, codec=codec)
        for i, one in enumerate(fields):
            headers = tuple((key.decode(), value) for key, value in one["headers"])
            timestamp = builders.NOW + one["timestamp_delta"]
            expected.append((at + i, timestamp, 0, one["key"], one["value"], headers))
        at += max(len(fields), 1)
    path = tmp_path / "any.log"
    path.write_bytes(raw)
    ran = run("cat", path)
    assert (ran.status, ran.err) == (0, "")
    assert [as_consumer_row(row) for row in ran.rows] == expected
    assert not any(char in ran.text for char in "\0\x1b\x7f\x85\u2028\u2029")


def offsets(rows):
    return [row["offset"] for row in rows]


KINDS = st.tuples(st.integers(0, 4), st.sampled_from(["v2", "abort", "v1", "broken"]))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(st.lists(KINDS, max_size=6), max_size=3),
    count=st.integers(0, 12),
    arguments=st.sampled_from(
        [[], ["--key", "b"], ["--isolation", "read_committed"], ["--control"], ["--from-offset", "4"]]
    ),
    errors=st.sampled_from(["raise", "skip"]),
)
def test_last_prints_the_last_of_all_rows(run, tmp_path, runs, count, arguments, errors):
    """`--last N` of several segments with batches of every kind prints the last N of all rows."""
    folder = tmp_path / "t-0"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    at = 0
    for kinds in [[(1, "v2")], *runs]:
        raw, name = b"", f"{at:020}.log"
        for size, kind in kinds:
            records = [builders.record(offset_delta=i, key=b"ab"[i % 2 :][:1]) for i in range(size)]
            if kind == "v1":
                raw += b"".join(builders.message(offset=at + i, key=b"b") for i in range(size))
            elif kind == "abort":
                raw += builders.batch(records, base_offset=at, producer_id=5, attributes=builders.TRANSACTIONAL)
                at += max(size, 1)
                raw += builders.end_marker(at, 5, commit=False)
                at += 1
                continue
            else:
                one = builders.batch(records, base_offset=at)
                if kind == "broken" and errors == "skip":
                    one = builders.flipped(one)
                raw += one
            at += max(size, 1)
        (folder / name).write_bytes(raw)
    everything = run("cat", folder, "--errors", errors, *arguments)
    ran = run("cat", folder, "--errors", errors, *arguments, "--last", count)
    assert ran.rows == everything.rows[max(len(everything.rows) - count, 0) :]
    assert ran.status <= everything.status


def test_n_and_last_decode_few_batches(run, tmp_path, monkeypatch):
    """For `-n` and `--last`, few of the 256 batches (4 MB) are decompressed."""
    one = batch(0, 4, value=b"x" * 4000)
    path = tmp_path / "x.log"
    path.write_bytes(b"".join((4 * i).to_bytes(8, "big") + one[8:] for i in range(256)))
    decoded = []
    pieces = log_reading.pieces

    def counted(*how):
        for segment, records in pieces(*how):
            decoded.append(len(records))
            yield segment, records

    monkeypatch.setattr(log_reading, "pieces", counted)
    assert offsets(run("cat", path, "-n", 3).rows) == [0, 1, 2]
    assert sum(decoded) <= 300
    decoded.clear()
    assert offsets(run("cat", path, "--last", 3).rows) == [1021, 1022, 1023]
    assert sum(decoded) <= 8


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_columns_of_the_command_line_alone(run, errors):
    ran = run("cat", CODECS, "--columns", "topic,partition", "--errors", errors)
    assert ran.rows == [{"topic": "all-codecs", "partition": 0}] * 865


@pytest.mark.parametrize("form, key", [("hex", b"user-3".hex()), ("base64", "dXNlci0z")])
def test_a_key_is_written_as_key_as_says(run, form, key):
    plain = run("cat", CODECS, "--key", "user-3").rows
    assert plain and offsets(run("cat", CODECS, "--key", key, "--key-as", form).rows) == offsets(plain)


def test_the_column_control_is_named_like_any_other(run):
    """Naming it prints the control records; --control alone puts it last."""
    everything = run("cat", TXN, "--control").rows
    named = run("cat", TXN, "--columns", "control,offset")
    assert (named.status, named.err) == (0, "")
    assert [list(row) for row in named.rows] == [["control", "offset"]] * len(everything)
    assert named.rows == [{"control": row["control"], "offset": row["offset"]} for row in everything]
    assert run("cat", TXN, "--control", "--columns", "control,offset").rows == named.rows
    assert list(run("cat", TXN, "--control", "--columns", "offset").rows[0]) == ["offset", "control"]
    assert "sequence, control (with the records of --control)" in " ".join(run("cat", "--help").text.split())


def test_an_unreadable_control_record_is_shown_as_such(run):
    (row,) = run("cat", golden.invalid_case("control-key-3-bytes").bin_path, "--control").rows
    assert "key is too short" in row["control"]["unreadable"]
