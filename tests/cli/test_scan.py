"""`kafkarec scan`: each batch as Kafka reads its header; `kafkarec doctor`: versions, codecs and the checksum path."""

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


@pytest.mark.parametrize("case", [*golden.segment_files(), *golden.vectors()], ids=str)
def test_rows_are_what_kafka_reads(run: Here, case: golden.Case) -> None:
    ran = run("scan", case.bin_path, "--format", "json")
    assert ran.status == 0
    if case.json["validBytes"] < case.json["sizeInBytes"]:
        assert "cut off" in ran.complaint
    else:
        assert ran.err == ""
    expected = [golden.expected_batch(batch) for batch in case.json["batches"]]
    assert len(ran.rows) == len(expected)
    for row, batch in zip(ran.rows, expected, strict=True):
        assert row["file"] == str(case.bin_path)
        assert {name: row[name] for name in batch} == batch


def test_scan_prints_a_text_table(run: Here) -> None:
    folder = SEGMENTS / "txn-0"
    text = run("scan", folder).out.decode()
    assert str(sorted(folder.glob("*.log"))[0]) in text
    assert "transactional, control" in text
    batches = run("scan", folder, "--format", "json").rows
    records = sum(row["record_count"] for row in batches)
    size = sum(row["size_in_bytes"] for row in batches)
    assert text.splitlines()[-1] == f"{len(batches)} batches, {records} records, {size} bytes"


def test_legacy_messages_are_counted(run: Here) -> None:
    case = next(case for case in golden.vectors() if case.json["batches"][0]["magic"] == 1)
    last = run("scan", case.bin_path).out.decode().splitlines()[-1]
    assert "1 batch, 0 records (not counting those inside 1 message of magic 0 or 1)" in last


@pytest.mark.parametrize("file_format", ["text", "json"])
def test_columns_can_be_selected(run: Here, file_format: str) -> None:
    log = SEGMENTS / "all-codecs-0"
    ran = run("scan", log, "-n", 2, "--columns", "compression,base_offset", "--format", file_format)
    if file_format == "json":
        assert [list(row) for row in ran.rows] == [["compression", "base_offset"]] * 2
    else:
        assert ran.out.decode().splitlines()[0].split() == ["compression", "base_offset"]


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
def test_options_select_batches(run: Here, options: list[object], keep) -> None:  # type: ignore[no-untyped-def]
    log = SEGMENTS / "all-codecs-0"
    everything = run("scan", log, "--format", "json").rows
    assert run("scan", log, "--format", "json", *options).rows == [row for row in everything if keep(row)]
    assert run("scan", log, "--format", "json", "--last", 3).rows == everything[-3:]
    assert run("scan", log, "--format", "json", "-n", 3).rows == everything[:3]


class TestDoctor:
    """`kafkarec doctor`"""

    def test_json_has_versions_codecs_and_the_crc_path(self, run: Here) -> None:
        ran = run("doctor", "--format", "json")
        assert (ran.status, ran.err) == (0, "")
        versions = json.loads(ran.out)
        assert versions["kafkarec"] == kafkarec.__version__
        assert {"gzip", "snappy", "lz4", "zstd"} <= set(versions["codecs"])
        assert all(versions["codecs"][name]["version"] for name in ("gzip", "snappy", "lz4", "zstd"))
        assert versions["problems"] == []
        assert "crc32c" in versions["engine"] and "crc32" in versions["engine"] and "abi" in versions["engine"]

    def test_text_has_the_same(self, run: Here) -> None:
        text = run("doctor").out.decode()
        for word in ("gzip", "snappy", "lz4", "zstd", "crc32c", "abi", kafkarec.__version__, "extras"):
            assert word in text

    def test_a_missing_extra_is_reported_with_its_pip_command(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        installed = doctor.version_of
        monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "pyarrow" else installed(name))
        ran = run("doctor")
        assert ran.status == 0
        assert "pip install 'kafkarec[arrow]'" in ran.out.decode()

    def test_a_missing_codec_is_a_problem(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        build = kafkarec.build_info()
        build["codecs"]["zstd"]["version"] = None
        monkeypatch.setattr(kafkarec, "build_info", lambda: build)
        ran = run("doctor")
        assert ran.status == 3
        assert "zstd payloads cannot be read: pip install zstandard" in ran.out.decode()

    @pytest.mark.parametrize(
        ("setting", "small", "large", "crc32"),
        [
            ("", "crc32c ", ("crc32c ", "isal "), "isal "),
            ("isal", "isal ", "isal ", "isal "),
            ("crc32c", "crc32c ", "crc32c ", "kafkarec's table"),
            ("table", "kafkarec's table", "kafkarec's table", "kafkarec's table"),
        ],
    )
    def test_every_checksum_routine_is_reported_and_correct(
        self, setting: str, small: str, large: str | tuple[str, str], crc32: str
    ) -> None:
        environment = ENVIRONMENT | {"KAFKAREC_CRC32C": setting}
        ran = subprocess.run(
            [*COMMAND, "doctor", "--format", "json"], capture_output=True, env=environment, check=False
        )
        assert ran.returncode == 0
        engine = json.loads(ran.stdout)["engine"]
        assert engine["crc32c"]["small"].startswith(small) and engine["crc32c"]["large"].startswith(large)
        assert engine["crc32"].startswith(crc32)

    def test_a_wrong_checksum_is_a_problem(self, run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
        for routine in ("crc32c", "crc32"):
            monkeypatch.setattr(doctor, routine, lambda data: 0)
        ran = run("doctor", "--format", "json")
        assert ran.status == 3
        problems = json.loads(ran.out)["problems"]
        assert len(problems) == 2
        assert "should be 0xe3069283" in problems[0]

    def test_output_goes_to_a_file(self, run: Here, tmp_path: Path) -> None:
        assert run("doctor", "-o", tmp_path / "doctor.txt").status == 0
        assert "kafkarec" in (tmp_path / "doctor.txt").read_text()
