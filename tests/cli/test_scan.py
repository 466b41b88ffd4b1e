"""`kafkarec scan`: each batch as Kafka reads its header; `kafkarec doctor`: versions, codecs and the checksum path."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ("--from-offset 100 --to-offset 200", lambda row: row["last_offset"] >= 100 and row["base_offset"] < 200),
        ("--from-time 1700000000300", lambda row: row["max_timestamp"] >= 1700000000300),
        ("--to-time 1700000000300", lambda row: row["base_timestamp"] < 1700000000300),
    ],
)
def test_options_select_batches(run: Here, options: str, keep: Any) -> None:
    how = ("scan", SEGMENTS / "all-codecs-0", "--format", "json")
    everything = run(*how).rows
    assert run(*how, *options.split()).rows == [row for row in everything if keep(row)]
    columns = run(*how, *options.split(), "--columns", "compression,base_offset", "--last", 2).rows
    assert [list(row) for row in columns] == [["compression", "base_offset"]] * 2


def test_headers_alone_are_read_and_no_checksum_is_checked(run: Here, tmp_path: Path) -> None:
    data = bytearray((SEGMENTS / "all-codecs-0" / f"{0:020}.log").read_bytes())
    data[9000] ^= 1
    (tmp_path / "x.log").write_bytes(data)
    ran = run("scan", tmp_path / "x.log", "--format", "json")
    assert (ran.status, len(ran.rows)) == (0, 25)


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
