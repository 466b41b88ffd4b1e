"""`kafkarec cat` on a real broker's segments: the rows that a real consumer got, and every option."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import builders
import golden
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Here, as_consumer_row, blob, consumer_row, own_process
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import SEGMENTS
from random_records import BLOBS, records_of
from transaction_logs import ABORT, COMMIT, DATA, Event

import kafkarec
from kafkarec.cli.record_pieces import log_reading

TXN, CODECS, COMPACTED = (SEGMENTS / name for name in ("txn-0", "all-codecs-0", "compacted-0"))


@pytest.mark.parametrize(("folder", "isolation"), golden.consumer_reads())
def test_rows_are_those_of_a_real_consumer(run: Here, folder: str, isolation: str) -> None:
    ran = run("cat", SEGMENTS / folder, "--isolation", isolation)
    assert (ran.status, ran.err) == (0, "")
    expected = golden.consumer_rows(folder, isolation)
    assert [as_consumer_row(row) for row in ran.rows] == [consumer_row(record) for record in expected]
    topic, _, partition = folder.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in ran.rows} == {(topic, int(partition))}


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


def test_a_copied_folder_of_any_name_is_one_log(run: Here, tmp_path: Path) -> None:
    for file in TXN.glob("*.log"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    arguments = ("--isolation", "read_committed", "--topic", "t", "--partition", 4)
    expected = run("cat", TXN, *arguments).out
    assert (
        run("cat", tmp_path, *arguments).out == run("cat", *sorted(tmp_path.glob("*.log")), *arguments).out == expected
    )


def test_read_committed_from_a_pipe_reads_it_once(run: Here) -> None:
    arguments = ("--isolation", "read_committed", "--columns", "offset")
    piped = own_process("cat", "-", *arguments, stdin=golden.partition_bytes("txn-0"))
    assert (piped.status, piped.out) == (0, run("cat", TXN, *arguments).out)


RECORDS = records_of(BLOBS, most=6)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(RECORDS, max_size=4), codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_any_records_come_back_from_their_json(
    run: Here, tmp_path: Path, runs: list[list[dict[str, Any]]], codec: str
) -> None:
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
def test_options_select_rows(run: Here, options: list[object], keep: Any) -> None:
    everything = run("cat", CODECS).rows
    ran = run("cat", CODECS, *options)
    assert ran.status == 0
    assert ran.rows == [row for row in everything if keep(row)]


def test_a_relative_time_counts_back_from_now(run: Here) -> None:
    ran = run("cat", CODECS, "--to-time", "-1s")
    assert ran.status == 0
    assert len(ran.rows) == 865


@pytest.mark.parametrize("count", [0, 1, 7, 292, 293, 1000])
def test_n_and_last_limit_the_rows(run: Here, count: int) -> None:
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
    arguments=st.sampled_from(
        [[], ["--key", "b"], ["--isolation", "read_committed"], ["--control"], ["--from-offset", "4"]]
    ),
    errors=st.sampled_from(["raise", "skip"]),
)
def test_last_prints_the_last_of_all_rows(
    run: Here, tmp_path: Path, runs: list[list[tuple[int, str]]], count: int, arguments: list[str], errors: str
) -> None:
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
    everything = run("cat", folder, "--errors", errors, *arguments)
    ran = run("cat", folder, "--errors", errors, *arguments, "--last", count)
    assert ran.rows == everything.rows[max(len(everything.rows) - count, 0) :]
    assert ran.status <= everything.status


def test_n_and_last_decode_few_batches(run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For `-n` and `--last`, few of the 256 batches (4 MB) are decompressed."""
    one = builders.batch(builders.records(4, value=b"x" * 4000))
    path = tmp_path / "x.log"
    path.write_bytes(b"".join((4 * i).to_bytes(8, "big") + one[8:] for i in range(256)))
    decoded = []
    pieces = log_reading.pieces

    def counted(*how: Any) -> Any:
        for segment, records in pieces(*how):
            decoded.append(len(records))
            yield segment, records

    monkeypatch.setattr(log_reading, "pieces", counted)
    assert offsets(run("cat", path, "-n", 3).rows) == [0, 1, 2]
    assert sum(decoded) <= 300
    decoded.clear()
    assert offsets(run("cat", path, "--last", 3).rows) == [1021, 1022, 1023]
    assert sum(decoded) <= 8


def test_damage_before_the_last_rows_is_not_reported(run: Here, tmp_path: Path) -> None:
    data = bytearray(sorted(CODECS.glob("*.log"))[0].read_bytes())
    data[100] ^= 1
    path = tmp_path / "x.log"
    path.write_bytes(data)
    assert run("cat", path).status == 1
    ran = run("cat", path, "--last", 5)
    assert (ran.status, ran.err, offsets(ran.rows)) == (0, "", offsets(run("cat", CODECS, "--last", 5).rows))


def test_columns_are_printed_in_the_requested_order(run: Here) -> None:
    ran = run("cat", TXN, "-n", 1, "--columns", "producer_id,offset,file,compression,is_transactional,base_offset")
    file = str(sorted(TXN.glob("*.log"))[0])
    assert [list(row.items()) for row in ran.rows] == [
        [
            ("producer_id", ran.rows[0]["producer_id"]),
            ("offset", 0),
            ("file", file),
            ("compression", "none"),
            ("is_transactional", True),
            ("base_offset", 0),
        ]
    ]


@pytest.mark.parametrize("errors", ["raise", "skip"])
def test_columns_of_the_command_line_alone(run: Here, errors: str) -> None:
    ran = run("cat", CODECS, "--columns", "topic,partition", "--errors", errors)
    assert ran.rows == [{"topic": "all-codecs", "partition": 0}] * 865


def test_values_are_printed_in_other_forms(run: Here) -> None:
    (row,) = run("cat", CODECS, "-n", 1, "--key-as", "hex", "--value-as", "json").rows
    assert bytes.fromhex(row["key_hex"]) == b"user-0"
    assert row["value"] == {"codec": "none", "round": 0, "n": 0}
    (row,) = run("cat", CODECS, "-n", 1, "--value-as", "base64").rows
    assert json.loads(blob(row, "value") or b"")["codec"] == "none"


@pytest.mark.parametrize(("form", "key"), [("hex", b"user-3".hex()), ("base64", "dXNlci0z")])
def test_a_key_is_written_as_key_as_says(run: Here, form: str, key: str) -> None:
    plain = run("cat", CODECS, "--key", "user-3").rows
    assert plain and offsets(run("cat", CODECS, "--key", key, "--key-as", form).rows) == offsets(plain)


def test_control_records_need_an_option(run: Here) -> None:
    metadata = SEGMENTS / "__cluster_metadata-0"
    assert all("control" not in row for row in run("cat", metadata).rows)
    rows = run("cat", metadata, "--control").rows
    controls = {row["control"]["type"]: row["control"] for row in rows if row["control"]}
    assert set(controls) == {"LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"}
    assert controls["LEADER_CHANGE"]["voters"] == [{"voterId": 1}]
    assert controls["KRAFT_VOTERS"]["voters"][0]["endpoints"][0]["port"] == 29093
    markers = [row for row in run("cat", TXN, "--control").rows if row["control"]]
    batches = [batch for file in sorted(TXN.glob("*.log.json")) for batch in json.loads(file.read_text())["batches"]]
    expected = [batch["records"][0] for batch in batches if batch["isControl"]]
    assert [(row["offset"], row["control"]["type"], row["control"]["coordinatorEpoch"]) for row in markers] == [
        (record["offset"], record["control"]["type"], record["control"]["coordinatorEpoch"]) for record in expected
    ]


def test_the_column_control_is_named_like_any_other(run: Here) -> None:
    """Naming it prints the control records; --control alone puts it last."""
    everything = run("cat", TXN, "--control").rows
    named = run("cat", TXN, "--columns", "control,offset")
    assert (named.status, named.err) == (0, "")
    assert [list(row) for row in named.rows] == [["control", "offset"]] * len(everything)
    assert named.rows == [{"control": row["control"], "offset": row["offset"]} for row in everything]
    assert run("cat", TXN, "--control", "--columns", "control,offset").rows == named.rows
    assert list(run("cat", TXN, "--control", "--columns", "offset").rows[0]) == ["offset", "control"]
    assert "sequence, control (with the records of --control)" in " ".join(run("cat", "--help").out.decode().split())
    refused = run("cat", TXN, "--columns", "control", "--latest-per-key")
    assert refused.status == 2 and "leaves out control records" in refused.complaint


def test_an_unreadable_control_record_is_shown_as_such(run: Here) -> None:
    (row,) = run("cat", golden.invalid_case("control-key-3-bytes").bin_path, "--control").rows
    assert "key is too short" in row["control"]["unreadable"]


def test_topic_and_partition_come_only_from_names_that_kafka_uses(run: Here, tmp_path: Path) -> None:
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


def test_standard_input_may_be_a_file_or_a_pipe() -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    expected = own_process("cat", segment, "--columns", "offset,value").out
    piped = own_process("cat", "-", "--columns", "offset,value", stdin=segment.read_bytes())
    assert (piped.status, piped.out) == (0, expected)
    with segment.open("rb") as file:
        redirected = own_process("cat", "-", "--columns", "offset,value", file=file)
    assert (redirected.status, redirected.out) == (0, expected)


def test_the_codec_is_named_once_where_a_payload_is_wrong(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    data = bytearray(builders.batch(builders.records(3), codec="gzip"))
    data[-8] ^= 1
    path.write_bytes(builders.with_crc(bytes(data)))
    ran = run("cat", path)
    assert ran.status == 1 and ran.complaint.count("gzip") == 1 and ": gzip: crc in the trailer" in ran.complaint


def test_empty_inputs_print_nothing(run: Here, tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    assert run("cat", empty) == run("cat", empty, "--errors", "skip")
    ran = run("cat", empty)
    assert (ran.status, ran.out, ran.err) == (0, b"", "")


def test_preallocated_zeros_are_no_damage(run: Here, tmp_path: Path) -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    live = tmp_path / "live.log"
    live.write_bytes(segment.read_bytes() + bytes(5000))
    ran = run("cat", live)
    assert (ran.status, ran.err, len(ran.rows)) == (0, "", 865)


def test_a_cut_tail_is_noted_and_is_no_damage(run: Here, tmp_path: Path) -> None:
    segment = sorted(CODECS.glob("*.log"))[0]
    cut = tmp_path / "cut.log"
    cut.write_bytes(segment.read_bytes()[:-5])
    ran = run("cat", cut)
    assert ran.status == 0
    assert 0 < len(ran.rows) < 865
    assert f"note: {cut} ends at byte {cut.stat().st_size} inside the batch at byte" in ran.complaint


class TestArrow:
    """`--format arrow`"""

    def table(self, out: bytes) -> pa.Table:
        table = pa.ipc.open_stream(io.BytesIO(out)).read_all()
        table.validate(full=True)
        return table

    @pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
    def test_holds_the_columns_of_decode(self, run: Here, isolation: str) -> None:
        table = self.table(run("cat", TXN, "--format", "arrow", "--isolation", isolation).out)
        whole = kafkarec.decode(golden.partition_bytes("txn-0"), isolation=isolation)
        assert table.drop_columns(["topic", "partition"]).equals(pa.table(whole))
        assert set(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)) == {("txn", 0)}

    def test_several_partitions_have_partition_columns(self, run: Here) -> None:
        table = self.table(run("cat", TXN, COMPACTED, "--format", "arrow").out)
        assert table.schema.names[:3] == ["topic", "partition", "offset"]
        assert set(table["topic"].to_pylist()) == {"txn", "compacted"}

    def test_rows_and_columns_can_be_selected(self, run: Here) -> None:
        options = ["--columns", "value,offset,topic", "--key", "user-3", "--from-offset", 40]
        table = self.table(run("cat", CODECS, "--format", "arrow", *options).out)
        rows = run("cat", CODECS, *options).rows
        assert table.schema.names == ["value", "offset", "topic"]
        assert table["offset"].to_pylist() == offsets(rows)
        assert table["value"].to_pylist() == [blob(row, "value") for row in rows]

    @pytest.mark.parametrize("form", ["arrow", "parquet"])
    def test_control_records_are_json_text(self, run: Here, tmp_path: Path, form: str) -> None:
        out = tmp_path / f"x.{form}"
        assert run("cat", TXN, "--control", "-o", out).status == 0
        table = pq.read_table(out) if form == "parquet" else self.table(out.read_bytes())
        assert table.schema.names[-1] == "control" and table.schema.field("control").type == pa.string()
        rows = [None if text is None else json.loads(text) for text in table["control"].to_pylist()]
        assert rows == [row["control"] for row in run("cat", TXN, "--control").rows]
        assert run("build", out, "-o", tmp_path / "built.log").status == 0
        assert [row["control"] for row in run("cat", tmp_path / "built.log", "--control").rows] == rows

    def test_an_empty_input_has_a_schema(self, run: Here, tmp_path: Path) -> None:
        empty = tmp_path / "empty.log"
        empty.write_bytes(b"")
        table = self.table(run("cat", empty, "--format", "arrow").out)
        assert table.num_rows == 0
        assert table.schema == pa.table(kafkarec.decode(b"")).schema


def test_an_undecided_transaction_is_left_out_and_named(run: Here, tmp_path: Path) -> None:
    """Its marker is lost in damage. Both readings of the log print the rest."""
    events = [Event(DATA, 7, 0, 3), Event(ABORT, 7, 3, 1), Event(DATA, 7, 4, 2), Event(COMMIT, 7, 6, 1)]
    data = b"".join(bytes(len(event.batch)) if event.kind == ABORT else event.batch for event in events)
    folder = tmp_path / "a-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(data)
    ran = run("cat", folder, "--isolation", "read_committed", "--errors", "skip")
    assert (ran.status, offsets(ran.rows)) == (1, [4, 5])
    assert ran.err.splitlines()[0] == (
        f"kafkarec: {folder}: the transaction of producer 7, offsets 0 to 2, is left out: its marker may be in the "
        "damage (offset 3): no file shows whether it ended in the damage, or how"
    )
    ran = run("cat", folder, "--isolation", "read_committed")
    assert (ran.status, ran.out) == (1, b"") and "is left out" in ran.err.splitlines()[0]
    assert "is left out" not in run("cat", folder, "--errors", "skip").err
    assert (
        run("cat", folder, "--isolation", "read_committed", "--errors", "skip", "--last", 9).err.count("left out") == 1
    )
