"""`kafkarec cat` on a real broker's segments: rows as a real consumer got them, and every option."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import builders
import golden
import pyarrow as pa
import pytest
from command import Here, as_consumer_row, blob, consumer_row, own_process
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import SEGMENTS

import kafkarec

TXN, CODECS, COMPACTED = (SEGMENTS / name for name in ("txn-0", "all-codecs-0", "compacted-0"))


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.mark.parametrize(("folder", "isolation"), golden.consumer_reads())
def test_rows_are_those_of_a_real_consumer(run: Here, folder: str, isolation: str) -> None:
    done = run("cat", SEGMENTS / folder, "--isolation", isolation)
    assert (done.status, done.err) == (0, "")
    wanted = golden.consumer_rows(folder, isolation)
    assert [as_consumer_row(row) for row in done.rows] == [consumer_row(record) for record in wanted]
    topic, _, partition = folder.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in done.rows} == {(topic, int(partition))}


def test_a_row_has_the_keys_of_the_contract_in_their_order(run: Here) -> None:
    (row,) = run("cat", CODECS, "-n", 1).rows
    assert list(row) == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    ]
    assert row["headers"] == [{"key": "codec", "value": "none"}]
    assert json.loads(row["value"]) == {"codec": "none", "round": 0, "n": 0}


def test_an_aborted_transaction_that_spans_segments_is_dropped_in_both(run: Here) -> None:
    committed = {row["offset"] for row in run("cat", TXN, "--isolation", "read_committed").rows}
    everything = {row["offset"] for row in run("cat", TXN).rows}
    first_segment = {offset for offset in everything if offset < 30}
    assert committed < everything
    assert first_segment - committed and first_segment & committed


def test_segments_of_one_folder_named_one_by_one_are_one_log(run: Here) -> None:
    files = sorted(TXN.glob("*.log"))
    assert len(files) == 2
    whole = run("cat", TXN, "--isolation", "read_committed")
    assert run("cat", *files, "--isolation", "read_committed").out == whole.out


def test_a_copied_folder_of_any_name_is_one_log_too(run: Here, tmp_path: Path) -> None:
    for file in TXN.glob("*.log"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    words = ("--isolation", "read_committed", "--topic", "t", "--partition", 4)
    wanted = run("cat", TXN, *words).out
    assert run("cat", tmp_path, *words).out == run("cat", *sorted(tmp_path.glob("*.log")), *words).out == wanted


def test_read_committed_from_a_pipe_reads_it_once(run: Here) -> None:
    words = ("--isolation", "read_committed", "--columns", "offset")
    piped = own_process("cat", "-", *words, stdin=golden.partition_bytes("txn-0"))
    assert (piped.status, piped.out) == (0, run("cat", TXN, *words).out)


BLOBS = st.none() | st.binary(max_size=10) | st.text(max_size=10).map(str.encode)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": BLOBS,
            "value": BLOBS,
            "headers": st.lists(st.tuples(st.text(max_size=5).map(str.encode), BLOBS), max_size=3),
            "timestamp_delta": st.integers(-5, 5),
        }
    ),
    max_size=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(RECORDS, max_size=4), codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_any_records_come_back_from_their_json(
    run: Here, tmp_path: Path, runs: list[list[dict[str, Any]]], codec: str
) -> None:
    raw, wanted, at = b"", [], 0
    for fields in runs:
        parts = [builders.record(offset_delta=i, **one) for i, one in enumerate(fields)]
        raw += builders.batch(parts, base_offset=at, codec=codec)
        for i, one in enumerate(fields):
            headers = tuple((key.decode(), value) for key, value in one["headers"])
            timestamp = builders.NOW + one["timestamp_delta"]
            wanted.append((at + i, timestamp, 0, one["key"], one["value"], headers))
        at += max(len(fields), 1)
    path = tmp_path / "any.log"
    path.write_bytes(raw)
    done = run("cat", path)
    assert (done.status, done.err) == (0, "")
    assert [as_consumer_row(row) for row in done.rows] == wanted


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        (["--from-offset", 100], lambda row: row["offset"] >= 100),
        (["--to-offset", 100], lambda row: row["offset"] < 100),
        (["--from-offset", 100, "--to-offset", 110], lambda row: 100 <= row["offset"] < 110),
        (["--from-offset", 10**12], lambda row: False),
        (["--from-time", 1700000000300], lambda row: row["timestamp"] >= 1700000000300),
        (["--to-time", "2023-11-14T22:13:20.300"], lambda row: row["timestamp"] < 1700000000300),
        (["--to-time", "2023-11-14T23:13:20.300+01:00"], lambda row: row["timestamp"] < 1700000000300),
        (["--from-time", "-1h"], lambda row: False),
        (["--key", "user-3"], lambda row: row["key"] == "user-3"),
        (
            ["--key", "user-3", "--from-offset", 50],
            lambda row: row["key"] == "user-3" and row["offset"] >= 50,
        ),
        (["--key", "no such key"], lambda row: False),
        (["-n", 0], lambda row: False),
    ],
)
def test_selection(run: Here, options: list[object], keep: Any) -> None:
    everything = run("cat", CODECS).rows
    done = run("cat", CODECS, *options)
    assert done.status == 0
    assert done.rows == [row for row in everything if keep(row)]


def test_a_relative_time_reads_a_log_up_to_now(run: Here) -> None:
    done = run("cat", CODECS, "--to-time", "-1s")
    assert done.status == 0
    assert len(done.rows) == 865


@pytest.mark.parametrize("count", [0, 1, 7, 292, 293, 1000])
def test_first_and_last(run: Here, count: int) -> None:
    everything = offsets(run("cat", TXN, COMPACTED).rows)
    assert offsets(run("cat", TXN, COMPACTED, "-n", count).rows) == everything[:count]
    assert offsets(run("cat", TXN, COMPACTED, "--last", count).rows) == everything[max(len(everything) - count, 0) :]


KINDS = st.tuples(st.integers(1, 4), st.sampled_from(["v2", "abort", "v1", "broken"]))


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["v2", "abort", "v1", "broken"])), max_size=6), max_size=3
    ),
    count=st.integers(0, 12),
    words=st.sampled_from(
        [[], ["--key", "b"], ["--isolation", "read_committed"], ["--control"], ["--from-offset", "4"]]
    ),
    errors=st.sampled_from(["raise", "skip"]),
)
def test_the_last_rows_are_found_without_reading_what_precedes(
    run: Here, tmp_path: Path, runs: list[list[tuple[int, str]]], count: int, words: list[str], errors: str
) -> None:
    """Several segments of batches of every kind: --last N prints what the tail of all rows is."""
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
                raw += builders.end_marker(commit=False, producer_id=5, base_offset=at)
                at += 1
                continue
            else:
                one = builders.batch(records, base_offset=at)
                if kind == "broken" and errors == "skip":
                    one = one[:-1] + bytes([one[-1] ^ 1])
                raw += one
            at += max(size, 1)
        (folder / name).write_bytes(raw)
    everything = run("cat", folder, "--errors", errors, *words)
    done = run("cat", folder, "--errors", errors, *words, "--last", count)
    assert done.rows == everything.rows[max(len(everything.rows) - count, 0) :]
    assert done.status <= everything.status


def test_early_ends_read_no_more_than_they_need(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4 MB in 256 batches the payloads of a few are decoded for -n and --last."""
    one = builders.batch(builders.records(4, value=b"x" * 4000))
    path = tmp_path / "x.log"
    path.write_bytes(b"".join((4 * i).to_bytes(8, "big") + one[8:] for i in range(256)))
    decoded = []
    pieces = kafkarec.Log.pieces

    def counted(self: kafkarec.Log, **options: Any) -> Any:
        for segment, records in pieces(self, **options):
            decoded.append(len(records))
            yield segment, records

    monkeypatch.setattr(kafkarec.Log, "pieces", counted)
    assert offsets(run("cat", path, "-n", 3).rows) == [0, 1, 2]
    assert sum(decoded) <= 300
    decoded.clear()
    assert offsets(run("cat", path, "--last", 3).rows) == [1021, 1022, 1023]
    assert sum(decoded) <= 8


def test_damage_before_the_last_rows_is_not_looked_at(run: Here, tmp_path: Path) -> None:
    data = bytearray(sorted(CODECS.glob("*.log"))[0].read_bytes())
    data[100] ^= 1
    path = tmp_path / "x.log"
    path.write_bytes(data)
    assert run("cat", path).status == 1
    done = run("cat", path, "--last", 5)
    assert (done.status, done.err, offsets(done.rows)) == (0, "", offsets(run("cat", CODECS, "--last", 5).rows))


def test_columns_in_the_order_asked_for(run: Here) -> None:
    done = run("cat", TXN, "-n", 1, "--columns", "producer_id,offset,file,compression,is_transactional,base_offset")
    file = str(sorted(TXN.glob("*.log"))[0])
    assert [list(row.items()) for row in done.rows] == [
        [
            ("producer_id", done.rows[0]["producer_id"]),
            ("offset", 0),
            ("file", file),
            ("compression", "none"),
            ("is_transactional", True),
            ("base_offset", 0),
        ]
    ]


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_columns_that_only_the_command_line_knows(run: Here, errors: str) -> None:
    done = run("cat", CODECS, "--columns", "topic,partition", "--errors", errors)
    assert done.rows == [{"topic": "all-codecs", "partition": 0}] * 865


def test_values_in_other_forms(run: Here) -> None:
    (row,) = run("cat", CODECS, "-n", 1, "--key-as", "hex", "--value-as", "json").rows
    assert bytes.fromhex(row["key_hex"]) == b"user-0"
    assert row["value"] == {"codec": "none", "round": 0, "n": 0}
    (row,) = run("cat", CODECS, "-n", 1, "--value-as", "base64").rows
    assert json.loads(blob(row, "value") or b"")["codec"] == "none"


@pytest.mark.parametrize(("form", "key"), [("hex", b"user-3".hex()), ("base64", "dXNlci0z")])
def test_a_key_is_written_as_key_as_says(run: Here, form: str, key: str) -> None:
    plain = run("cat", CODECS, "--key", "user-3").rows
    assert plain and offsets(run("cat", CODECS, "--key", key, "--key-as", form).rows) == offsets(plain)


def test_control_records_are_left_out_unless_asked_for(run: Here) -> None:
    metadata = SEGMENTS / "__cluster_metadata-0"
    assert all("control" not in row for row in run("cat", metadata).rows)
    rows = run("cat", metadata, "--control").rows
    told = {row["control"]["type"]: row["control"] for row in rows if row["control"]}
    assert set(told) == {"LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"}
    assert told["LEADER_CHANGE"]["voters"] == [{"voterId": 1}]
    assert told["KRAFT_VOTERS"]["voters"][0]["endpoints"][0]["port"] == 29093
    markers = [row for row in run("cat", TXN, "--control").rows if row["control"]]
    batches = [batch for file in sorted(TXN.glob("*.log.json")) for batch in json.loads(file.read_text())["batches"]]
    wanted = [batch["records"][0] for batch in batches if batch["isControl"]]
    assert [(row["offset"], row["control"]["type"], row["control"]["coordinatorEpoch"]) for row in markers] == [
        (record["offset"], record["control"]["type"], record["control"]["coordinatorEpoch"]) for record in wanted
    ]


def test_an_unreadable_control_record_is_shown_as_such(run: Here) -> None:
    (row,) = run("cat", golden.invalid_case("control-key-3-bytes").bin_path, "--control").rows
    assert "key is too short" in row["control"]["unreadable"]


def test_topic_and_partition_come_from_kafkas_own_names_only(run: Here, tmp_path: Path) -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    copy = tmp_path / "backup-2024" / "orders.log"
    copy.parent.mkdir()
    copy.write_bytes(segment.read_bytes())
    (row,) = run("cat", copy, "-n", 1).rows
    assert (row["topic"], row["partition"]) == (None, None)
    (row,) = run("cat", copy, "-n", 1, "--topic", "orders", "--partition", 3).rows
    assert (row["topic"], row["partition"]) == ("orders", 3)
    deleted = tmp_path / "my-topic-12.0123456789abcdef0123456789abcdef-delete" / segment.name
    deleted.parent.mkdir()
    deleted.write_bytes(segment.read_bytes())
    (row,) = run("cat", deleted.parent, "-n", 1).rows
    assert (row["topic"], row["partition"]) == ("my-topic", 12)


def test_standard_input_as_file_and_as_pipe() -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    wanted = own_process("cat", segment, "--columns", "offset,value").out
    piped = own_process("cat", "-", "--columns", "offset,value", stdin=segment.read_bytes())
    assert (piped.status, piped.out) == (0, wanted)
    with segment.open("rb") as file:
        redirected = own_process("cat", "-", "--columns", "offset,value", file=file)
    assert (redirected.status, redirected.out) == (0, wanted)


def test_empty_inputs(run: Here, tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    assert run("cat", empty) == run("cat", empty, "--errors", "skip")
    done = run("cat", empty)
    assert (done.status, done.out, done.err) == (0, b"", "")


def test_preallocated_zeros_are_no_damage(run: Here, tmp_path: Path) -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    live = tmp_path / "live.log"
    live.write_bytes(segment.read_bytes() + bytes(5000))
    done = run("cat", live)
    assert (done.status, done.err, len(done.rows)) == (0, "", 865)


def test_a_cut_tail_is_a_note_and_no_damage(run: Here, tmp_path: Path) -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    cut = tmp_path / "cut.log"
    cut.write_bytes(segment.read_bytes()[:-5])
    done = run("cat", cut)
    assert done.status == 0
    assert 0 < len(done.rows) < 865
    assert f"note: {cut} ends at byte {cut.stat().st_size} inside the batch at byte" in done.complaint


class TestArrow:
    """--format arrow"""

    def table(self, out: bytes) -> pa.Table:
        table = pa.ipc.open_stream(io.BytesIO(out)).read_all()
        table.validate(full=True)
        return table

    @pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
    def test_holds_the_columns_of_decode(self, run: Here, isolation: str) -> None:
        table = self.table(run("cat", TXN, "--format", "arrow", "--isolation", isolation).out)
        whole = kafkarec.decode(golden.partition_bytes("txn-0"), isolation=isolation)
        assert table.equals(pa.table(whole))

    def test_tells_the_partition_when_there_are_several(self, run: Here) -> None:
        table = self.table(run("cat", TXN, COMPACTED, "--format", "arrow").out)
        assert table.schema.names[:3] == ["topic", "partition", "offset"]
        assert set(table["topic"].to_pylist()) == {"txn", "compacted"}

    def test_chosen_rows_and_columns(self, run: Here) -> None:
        options = ["--columns", "value,offset,topic", "--key", "user-3", "--from-offset", 40]
        table = self.table(run("cat", CODECS, "--format", "arrow", *options).out)
        rows = run("cat", CODECS, *options).rows
        assert table.schema.names == ["value", "offset", "topic"]
        assert table["offset"].to_pylist() == offsets(rows)
        assert table["value"].to_pylist() == [blob(row, "value") for row in rows]

    def test_an_empty_input_has_a_schema(self, run: Here, tmp_path: Path) -> None:
        empty = tmp_path / "empty.log"
        empty.write_bytes(b"")
        table = self.table(run("cat", empty, "--format", "arrow").out)
        assert table.num_rows == 0
        assert table.schema == pa.table(kafkarec.decode(b"")).schema
