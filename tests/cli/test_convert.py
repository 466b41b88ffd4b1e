"""`kafkarec convert` keeps the records, reports what the new format cannot hold, and overwrites nothing."""

from __future__ import annotations

import json
from pathlib import Path

import builders
import pytest
from command import Here, own_process
from paths import SEGMENTS

import kafkarec

TXN, CODECS = SEGMENTS / "txn-0", SEGMENTS / "all-codecs-0"
CODEC_LOG = CODECS / f"{0:020d}.log"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("folder", ["txn-0", "all-codecs-0", "compacted-0", "logappend-0"])
def test_another_codec_changes_no_record(run: Here, tmp_path: Path, folder: str, codec: str) -> None:
    new = tmp_path / folder
    ran = run("convert", SEGMENTS / folder, "-o", new, "--compression", codec, "--batch-size", "4k")
    assert (ran.status, ran.out) == (0, b"")
    for arguments in (["--control"], ["--isolation", "read_committed"]):
        assert run("cat", new, *arguments).out == run("cat", SEGMENTS / folder, *arguments).out
    data = {
        row["compression"]
        for log in sorted(new.glob("*.log"))
        for row in kafkarec.scan(log.read_bytes())
        if row["record_count"] and not row["is_control"]
    }
    assert data == {codec} and run("verify", new).status == 0


def test_what_an_older_magic_cannot_store_is_counted(run: Here, tmp_path: Path) -> None:
    new = tmp_path / "down.log"
    ran = run("convert", TXN, "--magic", 1, "--compression", "gzip", "--format", "json", "-o", new)
    report = json.loads(ran.err)
    assert report["lost"]["control_records"] == 26 and (report["records_in"], report["records_out"]) == (293, 267)
    assert {row["magic"] for row in kafkarec.scan(new.read_bytes())} == {1}
    text = run("convert", TXN, "--magic", 1, "--compression", "gzip", "-o", tmp_path / "text.log").err
    assert "  lost: control records: 26\n" in text


def test_a_log_that_needs_no_change_is_copied(run: Here, tmp_path: Path) -> None:
    assert run("convert", CODECS, "-o", tmp_path / "all-codecs-0").status == 0
    for name in (CODEC_LOG.name, "partition.metadata"):
        assert (tmp_path / "all-codecs-0" / name).read_bytes() == (CODECS / name).read_bytes()


def test_restored_headers_are_named(run: Here, tmp_path: Path) -> None:
    batches, old, new = (
        [builders.good_batch(3, base_offset=3 * n) for n in range(4)],
        tmp_path / "old",
        tmp_path / "new",
    )
    old.write_bytes(builders.patched(b"".join(batches), len(batches[0]) + 8, bytes(4)))
    ran = run("convert", old, "-o", new, "--errors", "skip")
    assert ran.status == 1 and new.read_bytes() == b"".join(batches)
    assert f"batch at byte {len(batches[0])}: batch length is 94, not 0: proven by the checksum" in ran.err


def test_segments_have_the_given_size(run: Here, tmp_path: Path) -> None:
    arguments = ("--segment-bytes", "8k", "--compression", "lz4", "--batch-size", "1k")
    assert run("convert", CODECS, "-o", tmp_path / "new-0", *arguments).status == 0
    logs = sorted((tmp_path / "new-0").glob("*.log"))
    assert len(logs) > 3 and all(path.stat().st_size <= 8192 for path in logs)
    assert run("cat", tmp_path / "new-0", "--topic", "all-codecs").out == run("cat", CODECS).out


def test_a_codec_that_the_magic_lacks_is_named_with_the_command_for_another(run: Here, tmp_path: Path) -> None:
    ran = run("convert", TXN, "--magic", 1, "-o", tmp_path / "new.log")
    assert ran.status == 1 and "magic 1 does not support zstd; choose another compression" in ran.complaint
    command = f"kafkarec convert --compression lz4 {TXN} --magic 1 -o {tmp_path / 'new.log'}"
    assert ran.complaint.endswith(f"; nothing is written. With a codec that it supports: {command}")
    assert run(*command.split()[1:]).status == 0


def test_on_loss_raise_writes_all_or_nothing_to_a_pipe() -> None:
    arguments = ("convert", "-", "--compression", "none", "--on-loss", "raise")
    ran = own_process(*arguments, stdin=CODEC_LOG.read_bytes())
    assert ran.status == 0 and kafkarec.scan(ran.out).column("compression") == ["none"] * 25
    hurt = CODEC_LOG.read_bytes()
    ran = own_process(*arguments, stdin=hurt[:-1] + bytes([hurt[-1] ^ 1]))
    assert ran.status == 1 and ran.out == b"" and "[crc_mismatch]; nothing is written." in ran.err


def test_convert_from_a_pipe_to_a_pipe() -> None:
    ran = own_process("convert", "-", "-o", "-", "--compression", "none", stdin=CODEC_LOG.read_bytes())
    assert ran.status == 0 and kafkarec.scan(ran.out).column("compression") == ["none"] * 25
    assert ran.err.startswith("standard input: 865 records in 25 batches")


def test_a_log_that_begins_with_a_gap_keeps_its_start(run: Here, tmp_path: Path) -> None:
    """Without its start offset, consumers with a position in the gap would be out of range."""
    old = tmp_path / "orders-3"
    old.mkdir()
    (old / f"{5:020d}.log").write_bytes(builders.good_batch(3, base_offset=90))
    assert run("convert", old, "-o", tmp_path / "new", "--compression", "lz4").status == 0
    assert (tmp_path / "new" / "orders-3" / f"{5:020d}.log").exists()
