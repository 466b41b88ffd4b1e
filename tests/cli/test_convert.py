"""`kafkarec convert` names another codec, writes all or nothing, keeps the start of a log. The fence has the rest."""

import builders
import plain_logs
import pytest
from paths import SEGMENTS
from plain_logs import log

import kafkarec

TXN = SEGMENTS / "txn-0"


def test_a_codec_that_the_magic_lacks_is_named_with_the_command_for_another(run, tmp_path):
    ran = run("convert", TXN, "--magic", 1, "-o", tmp_path / "new.log")
    assert ran.status == 1 and "magic 1 does not support zstd; choose another compression" in ran.complaint
    command = f"kafkarec convert --compression lz4 {TXN} --magic 1 -o {tmp_path / 'new.log'}"
    assert ran.complaint.endswith(f"; nothing is written. With a codec that it supports: {command}")
    ran = run(*command.split()[1:])
    assert ran.status == 0 and "  lost: control records: 26\n" in ran.err


def test_restored_headers_are_named(run, tmp_path):
    batches = plain_logs.batches(4)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(builders.patched(b"".join(batches), len(batches[0]) + 8, bytes(4)))
    ran = run("convert", old, "-o", new, "--errors", "skip")
    assert ran.status == 1 and new.read_bytes() == b"".join(batches)
    assert f"batch at byte {len(batches[0])}: batch length is 94, not 0: proven by the checksum" in ran.err


def test_a_log_that_begins_with_a_gap_keeps_its_start(run, tmp_path):
    """Without its start offset, consumers with a position in the gap would be out of range."""
    old = log(tmp_path / "orders-3", (5, plain_logs.batch(90, 3)))
    assert run("convert", old, "-o", tmp_path / "new", "--compression", "lz4").status == 0
    assert (tmp_path / "new" / "orders-3" / f"{5:020d}.log").exists()


@pytest.mark.parametrize("verb", ["convert", "compact"])
def test_a_log_that_ends_with_an_empty_segment_keeps_its_end(run, tmp_path, verb):
    """As `salvage --keep-end` writes it, so that no offset is given twice."""
    old = log(tmp_path / "orders-0", [plain_logs.batch()], (10, b""))
    new = tmp_path / "new" / "orders-0"
    assert run(verb, old, "-o", new).status == 0
    assert {path.stem for path in new.glob("*.log")} == {path.stem for path in new.glob("*.index")}
    assert (new / f"{10:020}.log").read_bytes() == b"" and (new / f"{10:020}.snapshot").exists()
    with kafkarec.SegmentWriter(new) as writer:
        assert writer.next_offset == 10 and writer.append(plain_logs.batch(10, 2)) == range(10, 12)
