"""`kafkarec dump`: messages on standard error, decoder classes, what goes to a terminal. The fence has the rest."""

import errno
import os
import pty
import shlex

import builders
import pytest
from command import own_process
from paths import SEGMENTS
from plain_logs import batch
from unreadable_files import refuse_listing

STEM = "00000000000000000000"
LOG = SEGMENTS / "all-codecs-0" / f"{STEM}.log"


def log(folder, *parts, name=f"{STEM}.log"):
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


def test_what_cannot_be_listed_or_written_ends_with_the_status_of_kafkas_tool(run, tmp_path, monkeypatch):
    ran = run("dump", LOG, "-o", tmp_path / "missing" / "out.txt")
    assert ran.status == 1 and "missing" in ran.complaint and not ran.out
    (tmp_path / "orders-0").mkdir()
    log(tmp_path / "orders-0", LOG.read_bytes())
    refuse_listing(monkeypatch, "orders-0", errno.EACCES)
    ran = run("dump", tmp_path / "orders-0")
    assert ran.status == 1 and ran.err.endswith("orders-0: permission denied\n")


def test_a_file_that_cannot_be_read_leaves_what_was_printed_before(run, tmp_path):
    out = tmp_path / "out.txt"
    ran = run("dump", LOG, tmp_path / "missing.log", "-o", out)
    assert ran.status == 1 and ran.err.endswith("missing.log: no such file or directory\n")
    assert out.read_bytes().startswith(run("dump", LOG).out)


def test_a_compressed_segment_file_is_dumped(run, tmp_path):
    packed = tmp_path / f"{STEM}.log.gz"
    packed.write_bytes(builders.compress("gzip", LOG.read_bytes()))
    ran = run("dump", packed)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == run("dump", LOG).out.splitlines()[1:]


def test_compressed_segments_of_a_folder_are_dumped_once(run, tmp_path):
    """Each other verb reads them, and leaves out the copies that `gzip -k` and `zstd` leave."""
    plain, packed = tmp_path / "plain-0", tmp_path / "packed-0"
    for folder in (plain, packed):
        folder.mkdir()
        for base in (0, 5):
            log(folder, batch(base, 5), name=f"{base:020}.log")
    segment = packed / f"{0:020}.log"
    log(packed, builders.compress("gzip", segment.read_bytes()), name=f"{segment.name}.gz")
    segment.rename(packed / f"{5:020}.log.zst")  # not read: a copy of 5.log
    ran, expected = run("dump", packed), run("dump", plain)
    assert (ran.status, ran.err) == (0, "")
    assert ran.text.count("Dumping ") == 2
    assert ran.text.replace("packed-0", "plain-0").replace(".log.gz", ".log") == expected.text


def test_the_list_of_files_may_end_with_commas(run):
    """As for Kafka's tool, whose String.split drops empty strings at the end."""
    ran = run("dump", "--files", f"{LOG},,")
    assert (ran.status, ran.err, ran.out) == (0, "", run("dump", LOG).out)
    ran = run("dump", "--files", f",{LOG}")
    assert (ran.status, ran.err) == (0, "Ignoring unknown file \n") and ran.out.startswith(b"Dumping \nDumping ")


def test_a_bad_index_suggests_verify(run, tmp_path):
    log(tmp_path, batch(0, 1))
    ran = run("dump", log(tmp_path, bytes(4) + b"\0\0\x10\0", name=f"{STEM}.index"))
    assert ran.status == 1 and "points at byte 4096, but the log has" in ran.complaint
    assert ran.complaint.endswith(f"kafkarec verify {tmp_path}")


def test_an_error_of_a_control_record_names_its_file(run, tmp_path):
    path = log(tmp_path, batch(0, 1, attributes=builders.CONTROL, key=b"\0"))
    ran = run("dump", path, "--deep-iteration")
    assert ran.status == 1 and ran.out.endswith(b"isvalid: true\n")  # the lines before the record, whole
    assert ran.complaint.startswith(f"kafkarec: {path}: control record cannot be read")


def test_an_exceeded_limit_names_the_command_with_a_higher_one(run, tmp_path):
    path = log(tmp_path, batch(0, 1, codec="zstd", value=bytes(1 << 20)))
    ran = run("dump", path, "--deep-iteration", "--max-decompressed-bytes", "64k")
    assert ran.status == 3 and "Kafka's tool" not in ran.complaint
    words = shlex.split(ran.complaint.partition(" With a higher limit: ")[2])
    assert words[:4] == ["kafkarec", "dump", "--max-decompressed-bytes", "1024m"]
    ran = run(*words[1:])
    assert ran.status == 0 and b" valueSize: 1048576 " in ran.out


@pytest.mark.parametrize("names", ["tools.api.{}Decoder", "common.serialization.{}Deserializer"])
def test_decoder_classes_are_accepted(run, tmp_path, names):
    number, long = (f"org.apache.kafka.{names.format(kind)}" for kind in ("Integer", "Long"))
    record = builders.record(key=(-7).to_bytes(4, "big", signed=True), value=(9).to_bytes(8, "big") + b"more")
    path = log(tmp_path, builders.batch([record, builders.record(offset_delta=1, key=None, value=None)]))
    words = ("--key-decoder-class", number, "--value-decoder-class", long)
    *_, first, second = run("dump", path, *words).text.splitlines()
    assert first.endswith(" headerKeys: [] key: -7 payload: 9") and second.endswith(" headerKeys: []")
    assert b" payload: " in run("dump", path, "--value-decoder-class").out
    assert run("dump", path, "--value-decoder-class", number).status == 0
    short = log(tmp_path, batch(0, 1, value=b"abc"))
    ran = run("dump", short, "--value-decoder-class", long)
    assert (ran.status, "3 bytes are too few for the type long" in ran.complaint) == (1, True)
    # the flag of an internal topic has priority over a class
    path = SEGMENTS / "__consumer_offsets-0" / f"{STEM}.log"
    by_flag = run("dump", path, "--offsets-decoder").out
    assert run("dump", path, "--offsets-decoder", "--value-decoder-class", "com.example.Mine").out == by_flag != b""


def test_records_send_no_control_characters_to_a_terminal(tmp_path):
    path = log(tmp_path, batch(0, 1, value="\x1b[31mred\x07 \u20ac".encode()))
    arguments = ("dump", "--print-data-log", path)
    assert b"\x1b[31mred" in own_process(*arguments).out
    controller, terminal = pty.openpty()
    assert own_process(*arguments, stdout=terminal).status == 0
    os.close(terminal)
    shown = os.read(controller, 1 << 16)
    os.close(controller)
    assert b"\x1b" not in shown and b"\x07" not in shown
    assert "payload: \ufffd[31mred\ufffd \u20ac".encode() in shown
