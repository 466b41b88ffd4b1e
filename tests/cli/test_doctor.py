"""`kafkarec doctor`: versions, codecs and the checksum path."""

import json

import pytest
from command import own_process

import kafkarec
from kafkarec.cli import doctor


def test_json_has_versions_codecs_and_the_crc_path(run):
    ran = run("doctor", "--format", "json")
    assert (ran.status, ran.err) == (0, "")
    versions = json.loads(ran.out)
    assert versions["kafkarec"] == kafkarec.__version__
    assert {"gzip", "snappy", "lz4", "zstd"} <= set(versions["codecs"])
    assert all(versions["codecs"][name]["version"] for name in ("gzip", "snappy", "lz4", "zstd"))
    assert versions["problems"] == []
    assert "crc32c" in versions["engine"] and "crc32" in versions["engine"] and "abi" in versions["engine"]


def test_text_has_the_same(run):
    text = run("doctor").text
    for word in ("gzip", "snappy", "lz4", "zstd", "crc32c", "abi", kafkarec.__version__, "extras"):
        assert word in text


def test_a_missing_extra_is_reported_with_its_pip_command(run, monkeypatch):
    installed = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "pyarrow" else installed(name))
    ran = run("doctor")
    assert ran.status == 0
    assert "pip install 'kafkarec[arrow]'" in ran.text


@pytest.mark.parametrize(
    "codec, lacking, status, said",
    [
        ("zstd", {"version": None, "how": None}, 3, "zstd payloads cannot be read: pip install zstandard"),
        ("gzip", {"version": None}, 0, "which is slower: pip install isal"),
    ],
)
def test_a_codec_without_its_library_is_a_problem_or_slower(run, monkeypatch, codec, lacking, status, said):
    build = kafkarec.build_info()
    build["codecs"][codec] |= lacking
    monkeypatch.setattr(kafkarec, "build_info", lambda: build)
    ran = run("doctor")
    assert ran.status == status and said in ran.text


@pytest.mark.parametrize(
    "setting, small, large, crc32",
    [
        ("", "crc32c ", ("crc32c ", "isal "), "isal "),
        ("isal", "isal ", "isal ", "isal "),
        ("crc32c", "crc32c ", "crc32c ", "kafkarec's table"),
        ("table", "kafkarec's table", "kafkarec's table", "kafkarec's table"),
    ],
)
def test_every_checksum_routine_is_reported_and_correct(setting, small, large, crc32):
    ran = own_process("doctor", "--format", "json", env={"KAFKAREC_CRC32C": setting})
    assert ran.status == 0
    engine = json.loads(ran.out)["engine"]
    assert engine["crc32c"]["small"].startswith(small) and engine["crc32c"]["large"].startswith(large)
    assert engine["crc32"].startswith(crc32)


def test_a_wrong_checksum_is_a_problem(run, monkeypatch):
    for routine in ("crc32c", "crc32"):
        monkeypatch.setattr(doctor, routine, lambda data: 0)
    ran = run("doctor", "--format", "json")
    assert ran.status == 3
    problems = json.loads(ran.out)["problems"]
    assert len(problems) == 2
    assert "should be 0xe3069283" in problems[0]
