"""`cat`: formats by suffix, several keys, the latest record of each key, ISO times, why nothing is printed, damage
before and behind the last row that is asked for."""

import os

import builders
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from failing_calls import before
from paths import SEGMENTS
from plain_logs import batch

CODECS, TXN, COMPACTED = SEGMENTS / "all-codecs-0", SEGMENTS / "txn-0", SEGMENTS / "compacted-0"
OFFSETS = SEGMENTS / "__consumer_offsets-0"
EXTENT = "there are offsets 0 to 864, times 2023-11-14T22:13:20.000Z to 2023-11-14T22:13:23.039Z"


@pytest.fixture
def rows(run):
    return run("cat", CODECS).rows


class TestFormat:
    """The format follows the suffix of -o."""

    @pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "ndjson", "JSON"])
    def test_text(self, run, tmp_path, suffix):
        target = tmp_path / f"out.{suffix}"
        assert run("cat", TXN, "-o", target) == run("cat", TXN, "-n", 0)
        form = "csv" if suffix == "csv" else "json"
        assert target.read_bytes() == run("cat", TXN, "--format", form).out

    def test_binary(self, run, tmp_path):
        paths = {suffix: tmp_path / f"out.{suffix}" for suffix in ("parquet", "pq", "arrow", "arrows", "feather")}
        for path in paths.values():
            assert run("cat", CODECS, "-o", path).status == 0
        with pa.ipc.open_stream(paths["arrow"]) as stream:
            table = stream.read_all()
        assert table.num_rows == 865 and table.schema.names[:3] == ["topic", "partition", "offset"]
        assert paths["arrows"].read_bytes() == paths["arrow"].read_bytes()
        assert all(pq.read_table(paths[suffix]).equals(table) for suffix in ("parquet", "pq"))
        assert feather.read_table(paths["feather"]).equals(table)


class TestLatestPerKey:
    """--latest-per-key"""

    @staticmethod
    def expected(rows):
        last = {row.get("key", row.get("key_base64")): row for row in rows}
        last.pop(None, None)
        return sorted(last.values(), key=lambda row: row["offset"])

    @pytest.mark.parametrize("folder", [CODECS, COMPACTED, TXN, OFFSETS], ids=lambda folder: folder.name)
    @pytest.mark.parametrize("options", [(), ("--to-offset", 200), ("--isolation", "read_committed")], ids=str)
    def test_the_last_record_of_each_key(self, run, folder, options):
        rows = run("cat", folder, "--raw", *options).rows
        ran = run("cat", folder, "--raw", *options, "--latest-per-key")
        assert ran.rows == self.expected(rows) and 0 < len(ran.rows) <= len(rows)

    def test_with_a_count_keys_and_few_columns(self, run, rows):
        kept = [row["offset"] for row in self.expected(rows)]
        for option, part in (("-n", kept[:2]), ("--last", kept[-2:])):
            ran = run("cat", CODECS, "--latest-per-key", option, 2, "--columns", "offset")
            assert ran.rows == [{"offset": offset} for offset in part]
        (row,) = run("cat", CODECS, "--latest-per-key", "--key", "user-3").rows
        assert row == [row for row in rows if row.get("key") == "user-3"][-1]

    def test_each_partition_has_its_own_keys(self, run):
        alone = [run("cat", folder, "--latest-per-key").rows for folder in (CODECS, COMPACTED)]
        assert run("cat", CODECS, COMPACTED, "--latest-per-key").rows == alone[0] + alone[1]

    def test_damage_is_reported_once(self, run, damaged):
        for options in ((), ("--errors", "skip")):
            ran = run("cat", damaged, "--latest-per-key", *options)
            assert (ran.status, ran.rows) == (1, self.expected(run("cat", damaged, *options).rows))
            assert ran.complaint.count("crc mismatch") == 1

    def test_damage_at_the_end_is_reported(self, run, tmp_path):
        path = tmp_path / "a.log"
        data = b"".join(batch(base, 2) for base in (0, 2))
        path.write_bytes(data[:-1] + b"x")
        ran = run("cat", path, "--latest-per-key")
        assert ran.status == 1 and [row["offset"] for row in ran.rows] == [1] and "crc mismatch" in ran.complaint

    @pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
    def test_a_log_that_grows_has_each_key_once(self, run, tmp_path, monkeypatch, isolation):
        path = tmp_path / "a.log"

        def grown(*_):
            nonlocal written
            with path.open("ab") as file:
                file.write(batch(written, 2))
            written += 2

        path.touch()
        written = 0
        before(monkeypatch, os, "open", grown)
        ran = run("cat", path, "--latest-per-key", "--isolation", isolation)
        assert len(ran.rows) == 1 and ran.rows[0]["offset"] < written - 1


class TestIsoTimes:
    """--time-format iso"""

    def test_build_reads_it_back(self, run, tmp_path):
        expected = run("cat", TXN).out
        for suffix in ("json", "csv"):
            target = tmp_path / f"x.{suffix}"
            assert run("cat", TXN, "--time-format", "iso", "-o", target).status == 0
            built = tmp_path / suffix / "txn-0"
            assert run("build", target, "-o", built).status == 0
            assert run("cat", built).out == expected

    def test_times_outside_of_the_calendar_and_none(self, run, tmp_path):
        (tmp_path / "x.json").write_text('{"timestamp":999999999999999}\n{"timestamp":null}\n')
        assert run("build", tmp_path / "x.json", "-o", tmp_path / "x.log").status == 0
        ran = run("cat", tmp_path / "x.log", "--time-format", "iso", "--columns", "timestamp")
        assert ran.out == (tmp_path / "x.json").read_bytes()


class TestNothingToPrint:
    """Why there is no record"""

    @pytest.mark.parametrize(
        "options",
        [
            ["--from-offset", 900],
            ["--from-offset", 50, "--to-offset", 50],
            ["--to-offset", 0],
            ["--from-time", "2024-01-01"],
            ["--to-time", "2023-01-01"],
            ["--key", "nobody", "--key", "x", "--to-offset", 9],
        ],
        ids=lambda value: " ".join(map(str, value)),
    )
    @pytest.mark.parametrize("last", [(), ("--last", 3)], ids=["all", "last"])
    def test_is_said_with_the_extent_of_the_log(self, run, options, last):
        ran = run("cat", CODECS, *options, *last)
        assert (ran.status, ran.out) == (0, b"")
        assert ran.complaint == f"kafkarec: note: no record is selected; {EXTENT}"

    def test_the_last_of_too_few_records_in_wrapper_messages(self, run, tmp_path):
        """Their headers do not say how many records they have, and the log does not begin at offset 0."""
        inner = [builders.message(magic=0, offset=n) for n in (7, 8)]
        (tmp_path / f"{8:020}.log").write_bytes(builders.wrapper(inner, magic=0, offset=8))
        rows = run("cat", tmp_path, "--topic", "t", "--from-offset", 8, "--last", 3).rows
        assert [row["offset"] for row in rows] == [8]
        assert "no record is selected" in run("cat", tmp_path, "--from-time", 1_700_000_000_010, "--last", 3).complaint

    def test_is_not_said_where_none_was_asked_for(self, run, tmp_path):
        (tmp_path / "empty.log").write_bytes(b"")
        empty = tmp_path / "empty.log"
        for words in ([CODECS, "-n", 0], [empty], [empty, "--key", "k"]):
            assert run("cat", *words).err == ""
        assert run("scan", CODECS, "-n", 0).err == ""


def test_damage_is_reported_when_the_rows_that_are_asked_for_are_behind_it(run, damaged):
    ran = run("cat", damaged, "--errors", "skip", "-n", 129)
    assert (ran.status, len(ran.rows), ran.err) == (0, 129, "")
    ran = run("cat", damaged, "--errors", "skip", "-n", 130)
    assert (ran.status, ran.rows[-1]["offset"]) == (1, 172)
    assert "offsets 129 to 171;" in ran.complaint
