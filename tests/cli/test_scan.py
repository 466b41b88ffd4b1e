"""`kafkarec scan` and `doctor`: each batch as Kafka reads its header, and what the machine has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import golden
import pytest
from command import COMMAND, ENVIRONMENT, Here
from paths import SEGMENTS

import kafkarec
from kafkarec.cli import doctor


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.mark.parametrize("case", [*golden.segment_files(), *golden.vectors()], ids=str)
def test_rows_are_what_kafka_reads(run: Here, case: golden.Case) -> None:
    done = run("scan", case.bin_path, "--format", "json")
    assert done.status == 0
    if case.json["validBytes"] < case.json["sizeInBytes"]:
        assert "cut off" in done.complaint
    else:
        assert done.err == ""
    wanted = [golden.expected_batch(batch) for batch in case.json["batches"]]
    assert len(done.rows) == len(wanted)
    for row, batch in zip(done.rows, wanted, strict=True):
        assert row["file"] == str(case.bin_path)
        assert {name: row[name] for name in batch} == batch


def test_the_table_for_eyes(run: Here) -> None:
    folder = SEGMENTS / "txn-0"
    text = run("scan", folder).out.decode()
    assert str(sorted(folder.glob("*.log"))[0]) in text
    assert "transactional, control" in text
    batches = run("scan", folder, "--format", "json").rows
    records = sum(row["record_count"] for row in batches)
    size = sum(row["size_in_bytes"] for row in batches)
    assert text.splitlines()[-1] == f"{len(batches)} batches, {records} records, {size} bytes"


def test_legacy_messages_are_counted_as_such(run: Here) -> None:
    case = next(case for case in golden.vectors() if case.json["batches"][0]["magic"] == 1)
    last = run("scan", case.bin_path).out.decode().splitlines()[-1]
    assert "1 batch, 0 records (not counting those inside 1 message of magic 0 or 1)" in last


@pytest.mark.parametrize("file_format", ["text", "json"])
def test_chosen_columns(run: Here, file_format: str) -> None:
    log = SEGMENTS / "all-codecs-0"
    done = run("scan", log, "-n", 2, "--columns", "compression,base_offset", "--format", file_format)
    if file_format == "json":
        assert [list(row) for row in done.rows] == [["compression", "base_offset"]] * 2
    else:
        assert done.out.decode().splitlines()[0].split() == ["compression", "base_offset"]


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        (["--from-offset", 100], lambda row: row["last_offset"] >= 100),
        (["--to-offset", 100], lambda row: row["base_offset"] < 100),
        (["--from-time", 1700000000300], lambda row: row["max_timestamp"] >= 1700000000300),
        (["--to-time", 1700000000300], lambda row: row["base_timestamp"] < 1700000000300),
        (
            ["--from-offset", 100, "--to-offset", 200],
            lambda r: r["last_offset"] >= 100 and r["base_offset"] < 200,
        ),
    ],
)
def test_selection(run: Here, options: list[object], keep) -> None:  # type: ignore[no-untyped-def]
    log = SEGMENTS / "all-codecs-0"
    everything = run("scan", log, "--format", "json").rows
    assert run("scan", log, "--format", "json", *options).rows == [row for row in everything if keep(row)]
    assert run("scan", log, "--format", "json", "--last", 3).rows == everything[-3:]
    assert run("scan", log, "--format", "json", "-n", 3).rows == everything[:3]


class TestDoctor:
    """kafkarec doctor"""

    def test_json_tells_versions_codecs_and_the_crc_path(self, run: Here) -> None:
        done = run("doctor", "--format", "json")
        assert (done.status, done.err) == (0, "")
        found = json.loads(done.out)
        assert found["kafkarec"] == kafkarec.__version__
        assert {"gzip", "snappy", "lz4", "zstd"} <= set(found["codecs"])
        assert all(found["codecs"][name]["version"] for name in ("gzip", "snappy", "lz4", "zstd"))
        assert found["problems"] == []
        assert "crc32c" in found["engine"] and "abi" in found["engine"]

    def test_text_tells_the_same(self, run: Here) -> None:
        text = run("doctor").out.decode()
        for word in ("gzip", "snappy", "lz4", "zstd", "crc32c", "abi", kafkarec.__version__, "extras"):
            assert word in text

    def test_a_missing_extra_comes_with_its_command(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        installed = doctor.version_of
        monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "pyarrow" else installed(name))
        done = run("doctor")
        assert done.status == 0
        assert "pip install 'kafkarec[arrow]'" in done.out.decode()

    def test_a_missing_codec_is_a_problem(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        build = kafkarec.build_info()
        build["codecs"]["zstd"]["version"] = None
        monkeypatch.setattr(kafkarec, "build_info", lambda: build)
        done = run("doctor")
        assert done.status == 3
        assert "zstd payloads cannot be read: pip install zstandard" in done.out.decode()

    @pytest.mark.parametrize(("wish", "said"), [("library", ""), ("own", "own"), ("table", "no hardware")])
    def test_every_way_to_the_checksum_is_told_and_right(self, wish: str, said: str) -> None:
        environment = ENVIRONMENT | {"KAFKAREC_CRC32C": wish}
        done = subprocess.run(
            [*COMMAND, "doctor", "--format", "json"], capture_output=True, env=environment, check=False
        )
        assert done.returncode == 0
        assert said in json.loads(done.stdout)["engine"]["crc32c"]["way"]

    def test_a_wrong_checksum_is_a_problem(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "_CHECKED", b"12345678")
        done = run("doctor", "--format", "json")
        assert done.status == 3
        problems = json.loads(done.out)["problems"]
        assert len(problems) == 3
        assert "should be 0xe3069283" in problems[0]

    def test_into_a_file(self, run: Here, tmp_path: Path) -> None:
        assert run("doctor", "-o", tmp_path / "doctor.txt").status == 0
        assert "kafkarec" in (tmp_path / "doctor.txt").read_text()
