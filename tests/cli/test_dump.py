"""`kafkarec dump`: the options and the exit status of kafka-dump-log, and what is printed on standard error."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import builders
import pytest
from command import COMMAND, ENVIRONMENT, Here, own_process
from paths import SEGMENTS

STEM = "00000000000000000000"
LOG = SEGMENTS / "all-codecs-0" / f"{STEM}.log"


def text_of(name: str, folder: Path = SEGMENTS) -> bytes:
    """The text that Kafka printed in the segments' folder, with the paths of the given folder."""
    return (SEGMENTS / name).read_bytes().replace(b"Dumping ", f"Dumping {folder}/".encode(), 1)


def log(folder: Path, *parts: bytes, name: str = f"{STEM}.log") -> Path:
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize("given", [(LOG,), ("--files", LOG), ("--files", f"{LOG},,")])
def test_files_are_named_by_position_or_by_option(given: tuple[object, ...], run: Here) -> None:
    ran = run("dump", "--print-data-log", *given)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == text_of(f"all-codecs-0/{STEM}.log.dump.txt")


def test_a_decoder_implies_print_data_log(run: Here) -> None:
    ran = run("dump", "--offsets-decoder", SEGMENTS / "__consumer_offsets-0" / f"{STEM}.log")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == text_of(f"__consumer_offsets-0/{STEM}.log.decoded.txt")


def test_several_files_and_offsets_that_do_not_follow_each_other(run: Here) -> None:
    folder = SEGMENTS / "txn-0"
    second = folder / "00000000000000000030.log"
    ran = run("dump", "--deep-iteration", "--files", f"{folder / STEM}.log,{second}")
    assert ran.status == 0
    assert ran.out.count(b"Dumping ") == 2
    assert ran.err == f"Non-consecutive offsets in {second}\n  -1 is followed by 30\n"


def test_a_folder_prints_its_logs_in_order(run: Here) -> None:
    ran = run("dump", SEGMENTS / "txn-0")
    assert ran.out.splitlines()[0] == f"Dumping {SEGMENTS}/txn-0/{STEM}.log".encode()
    assert [line for line in ran.out.splitlines() if line.startswith(b"Dumping")][1].endswith(b"30.log")


def test_standard_input_is_dumped() -> None:
    ran = own_process("dump", "--print-data-log", "-", stdin=LOG.read_bytes())
    assert (ran.status, ran.err) == (0, "")
    expected = text_of(f"all-codecs-0/{STEM}.log.dump.txt").splitlines(keepends=True)
    assert ran.out == b"Dumping -\n" + b"".join(expected[2:])


def test_a_compressed_segment_file_is_dumped(run: Here, tmp_path: Path) -> None:
    packed = tmp_path / f"{STEM}.log.gz"
    packed.write_bytes(builders.compress("gzip", LOG.read_bytes()))
    ran = run("dump", packed)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == run("dump", LOG).out.splitlines()[1:]


def test_skip_record_metadata_and_max_bytes(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.good_batch(2), builders.good_batch(1, base_offset=2))
    ran = run("dump", path, "--print-data-log", "--skip-record-metadata", "--max-bytes", len(builders.good_batch(2)))
    assert ran.out.decode().splitlines()[3:] == ["| key: k payload: value 0", "| key: k payload: value 1"]


@pytest.mark.parametrize("arguments", [(), ("--verify-index-only",), ("--index-sanity-check",)])
def test_indexes_are_checked(arguments: tuple[str, ...], run: Here, tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(LOG.with_suffix(suffix), tmp_path)
    index = tmp_path / f"{STEM}.index"
    data = bytearray(index.read_bytes())
    data[3] += 1  # the first entry's offset
    index.write_bytes(data)
    ran = run("dump", index, *arguments)
    assert ran.status == 0
    if "--index-sanity-check" in arguments:
        assert ran.out.decode() == f"Dumping {index}\n{index} passed sanity check.\n"
        assert ran.err == ""
    else:
        assert ran.err == f"Mismatches in :{index}\n  Index offset: 86, log offset: 85\n"
        assert (ran.out.count(b"\n") == 1) == bool(arguments)


def test_an_unreadable_batch_ends_the_run_with_one_line(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.good_batch(1), bytes(40))
    ran = run("dump", path, LOG)
    assert ran.status == 1
    assert ran.out.count(b"baseOffset") == 1
    assert ran.complaint.startswith("kafkarec: the size field is below the smallest record overhead")
    assert ran.complaint.endswith(f"To read the rest: kafkarec scan {path} --errors skip")


def test_a_bad_index_suggests_verify(run: Here, tmp_path: Path) -> None:
    log(tmp_path, builders.good_batch(1))
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes(4) + b"\0\0\x10\0")
    ran = run("dump", index)
    assert ran.status == 1
    assert "points at byte 4096, but the log has" in ran.complaint
    assert ran.complaint.endswith(f"kafkarec verify {tmp_path}")


def test_an_error_of_a_control_record_names_its_file(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(key=b"\0")], attributes=builders.CONTROL))
    ran = run("dump", path, "--deep-iteration")
    assert ran.status == 1
    assert ran.out.endswith(b"isvalid: true\n")  # the lines before the record, whole
    assert ran.complaint.startswith(f"kafkarec: {path}: control record cannot be read")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no files given:"),
        (("--no-such-word", "x"), "unrecognized arguments: --no-such-word"),
        (("--max-bytes", "-1", "x"), "is not a number of bytes from 0 to 2147483647"),
        (("--max-bytes", "4294967296", "x"), "is not a number of bytes from 0 to 2147483647"),
        (("--value-decoder-class", "com.example.Mine", "x"), "com.example.Mine is a Java class"),
        ((Path("nowhere") / f"{STEM}.log",), f"nowhere/{STEM}.log: no such file or directory"),
    ],
)
def test_exit_status_is_1_where_that_of_kafkas_tool_is(arguments: tuple[object, ...], message: str, run: Here) -> None:
    ran = run("dump", *arguments)
    assert ran.status == 1
    assert message in ran.complaint


def test_an_index_without_its_log(run: Here, tmp_path: Path) -> None:
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes(8))
    ran = run("dump", index)
    assert (ran.status, ran.out.decode()) == (1, f"Dumping {index}\n")
    assert ran.complaint.startswith(f"kafkarec: {tmp_path}/{STEM}.log: no such file or directory; to print an index")


def test_unknown_files_are_ignored(run: Here, tmp_path: Path) -> None:
    odd = tmp_path / "leader-epoch-checkpoint"
    ran = run("dump", odd)
    assert (ran.status, ran.err) == (0, f"Ignoring unknown file {odd}\n")


def test_decoder_classes_are_accepted(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(key=bytes(4), value=bytes(7) + b"\x05")]))
    prefix = "org.apache.kafka.common.serialization."
    arguments = ["--key-decoder-class", f"{prefix}IntegerDeserializer"]
    arguments += ["--value-decoder-class", f"{prefix}LongDeserializer"]
    assert run("dump", path, *arguments).out.endswith(b" key: 0 payload: 5\n")
    assert b" payload: " in run("dump", path, "--value-decoder-class").out
    assert run("dump", path, "--value-decoder-class", f"{prefix}IntegerDeserializer").status == 0
    short = log(tmp_path, builders.batch([builders.record(value=b"abc")]))
    ran = run("dump", short, "--value-decoder-class", f"{prefix}LongDeserializer")
    assert (ran.status, "3 bytes are too few for the type long" in ran.complaint) == (1, True)


def test_an_exceeded_limit_names_its_option(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch(builders.records(1, value=bytes(1 << 20)), codec="zstd"))
    ran = run("dump", path, "--deep-iteration", "--max-decompressed-bytes", "64k")
    assert (ran.status, "max_decompressed_bytes" in ran.complaint) == (3, True)
    assert "Kafka's tool" not in ran.complaint  # Kafka's tool has no such limit


def test_an_encoded_object_of_tiered_storage_is_refused_in_one_sentence(run: Here, tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}-l6HxJp0_TBmXt3aU2bq5Yg.log"
    path.write_bytes(bytes.fromhex("28b52ffd2000010000") + bytes(range(256)))
    ran = run("dump", path)
    assert (ran.status, ran.out.decode()) == (3, f"Dumping {path}\n")
    assert "a tiered-storage object" in ran.complaint
    assert "scan" not in ran.complaint and "Kafka's tool" not in ran.complaint


def test_output_goes_to_a_file(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.good_batch(1), bytes(40))
    out = tmp_path / "text"
    assert run("dump", path, "-o", out).status == 1
    assert out.read_text().startswith(f"Dumping {path}\n")
    assert run("dump", path, "-o", tmp_path / "no" / "folder").status == 1


def test_a_closed_pipe_is_quiet() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "dump", LOG], stdout=pipe, stderr=pipe, env=ENVIRONMENT) as one:
        assert one.stdout is not None
        assert one.stderr is not None
        one.stdout.close()
        assert one.stderr.read() == b""
    assert one.returncode == 0


def test_records_send_no_control_characters_to_a_terminal(tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(value="\x1b[31mred\x07 \u20ac".encode())]))
    arguments = [*COMMAND, "dump", "--print-data-log", path]
    assert b"\x1b[31mred" in subprocess.run(arguments, capture_output=True, env=ENVIRONMENT, check=True).stdout
    controller, terminal = pty.openpty()
    subprocess.run(arguments, stdout=terminal, env=ENVIRONMENT, check=True)
    os.close(terminal)
    shown = os.read(controller, 1 << 16)
    os.close(controller)
    assert b"\x1b" not in shown and b"\x07" not in shown
    assert "payload: \ufffd[31mred\ufffd \u20ac".encode() in shown
