"""kafkarec dump: Kafka's words for it, its exit status, and what is said beside the text."""

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


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capfdbinary)


def text_of(name: str, folder: Path = SEGMENTS) -> bytes:
    """What Kafka printed in the segments' folder, with the paths of this one."""
    return (SEGMENTS / name).read_bytes().replace(b"Dumping ", f"Dumping {folder}/".encode(), 1)


def log(folder: Path, *parts: bytes, name: str = f"{STEM}.log") -> Path:
    path = folder / name
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize("given", [(LOG,), ("--files", LOG), ("--files", f"{LOG},,")])
def test_files_by_either_way(given: tuple[object, ...], run: Here) -> None:
    done = run("dump", "--print-data-log", *given)
    assert (done.status, done.err) == (0, "")
    assert done.out == text_of(f"all-codecs-0/{STEM}.log.dump.txt")


def test_a_decoder_implies_print_data_log(run: Here) -> None:
    done = run("dump", "--offsets-decoder", SEGMENTS / "__consumer_offsets-0" / f"{STEM}.log")
    assert (done.status, done.err) == (0, "")
    assert done.out == text_of(f"__consumer_offsets-0/{STEM}.log.decoded.txt")


def test_several_files_and_what_does_not_fit_together(run: Here) -> None:
    folder = SEGMENTS / "txn-0"
    second = folder / "00000000000000000030.log"
    done = run("dump", "--deep-iteration", "--files", f"{folder / STEM}.log,{second}")
    assert done.status == 0
    assert done.out.count(b"Dumping ") == 2
    assert done.err == f"Non-consecutive offsets in {second}\n  -1 is followed by 30\n"


def test_a_folder_is_its_logs_in_order(run: Here) -> None:
    done = run("dump", SEGMENTS / "txn-0")
    assert done.out.splitlines()[0] == f"Dumping {SEGMENTS}/txn-0/{STEM}.log".encode()
    assert [line for line in done.out.splitlines() if line.startswith(b"Dumping")][1].endswith(b"30.log")


def test_standard_input() -> None:
    done = own_process("dump", "--print-data-log", "-", stdin=LOG.read_bytes())
    assert (done.status, done.err) == (0, "")
    wanted = text_of(f"all-codecs-0/{STEM}.log.dump.txt").splitlines(keepends=True)
    assert done.out == b"Dumping -\n" + b"".join(wanted[2:])


def test_a_packed_segment(run: Here, tmp_path: Path) -> None:
    packed = tmp_path / f"{STEM}.log.gz"
    packed.write_bytes(builders.compress("gzip", LOG.read_bytes()))
    done = run("dump", packed)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[1:] == run("dump", LOG).out.splitlines()[1:]


def test_skip_record_metadata_and_max_bytes(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.good_batch(2), builders.good_batch(1, base_offset=2))
    done = run("dump", path, "--print-data-log", "--skip-record-metadata", "--max-bytes", len(builders.good_batch(2)))
    assert done.out.decode().splitlines()[3:] == ["| key: k payload: value 0", "| key: k payload: value 1"]


@pytest.mark.parametrize("words", [(), ("--verify-index-only",), ("--index-sanity-check",)])
def test_indexes(words: tuple[str, ...], run: Here, tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(LOG.with_suffix(suffix), tmp_path)
    index = tmp_path / f"{STEM}.index"
    data = bytearray(index.read_bytes())
    data[3] += 1  # the first entry's offset
    index.write_bytes(data)
    done = run("dump", index, *words)
    assert done.status == 0
    if "--index-sanity-check" in words:
        assert done.out.decode() == f"Dumping {index}\n{index} passed sanity check.\n"
        assert done.err == ""
    else:
        assert done.err == f"Mismatches in :{index}\n  Index offset: 86, log offset: 85\n"
        assert (done.out.count(b"\n") == 1) == bool(words)


def test_what_cannot_be_printed_ends_the_run_in_one_line(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.good_batch(1), bytes(40))
    done = run("dump", path, LOG)
    assert done.status == 1
    assert done.out.count(b"baseOffset") == 1
    assert done.complaint.startswith("kafkarec: the size field is below the smallest record overhead")
    assert done.complaint.endswith(f"To read on: kafkarec scan --errors skip {path}")


def test_a_bad_index_points_at_verify(run: Here, tmp_path: Path) -> None:
    log(tmp_path, builders.good_batch(1))
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes(4) + b"\0\0\x10\0")
    done = run("dump", index)
    assert done.status == 1
    assert "points at byte 4096, and the log has" in done.complaint
    assert done.complaint.endswith(f"kafkarec verify {tmp_path}")


def test_an_error_of_a_control_record_names_its_file(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(key=b"\0")], attributes=builders.CONTROL))
    done = run("dump", path, "--deep-iteration")
    assert done.status == 1
    assert done.out.endswith(b"headerKeys: []")
    assert done.complaint.startswith(f"kafkarec: {path}: control record cannot be read")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which files?"),
        (("--no-such-word", "x"), "unrecognized arguments: --no-such-word"),
        (("--max-bytes", "-1", "x"), "is no number of bytes from 0 to 2147483647"),
        (("--max-bytes", "4294967296", "x"), "is no number of bytes from 0 to 2147483647"),
        (("--value-decoder-class", "com.example.Mine", "x"), "com.example.Mine is a Java class"),
        ((Path("nowhere") / f"{STEM}.log",), f"nowhere/{STEM}.log: no such file or directory"),
    ],
)
def test_exit_status_1_for_all_that_kafkas_tool_exits_with_1_for(
    words: tuple[object, ...], said: str, run: Here
) -> None:
    done = run("dump", *words)
    assert done.status == 1
    assert said in done.complaint


def test_an_index_alone(run: Here, tmp_path: Path) -> None:
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes(8))
    done = run("dump", index)
    assert (done.status, done.out.decode()) == (1, f"Dumping {index}\n")
    assert done.complaint.startswith(f"kafkarec: {tmp_path}/{STEM}.log: no such file or directory; an index is")


def test_unknown_files_are_passed_over(run: Here, tmp_path: Path) -> None:
    odd = tmp_path / "leader-epoch-checkpoint"
    done = run("dump", odd)
    assert (done.status, done.err) == (0, f"Ignoring unknown file {odd}\n")


def test_decoder_classes(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(key=bytes(4), value=bytes(7) + b"\x05")]))
    prefix = "org.apache.kafka.common.serialization."
    words = ["--key-decoder-class", f"{prefix}IntegerDeserializer"]
    words += ["--value-decoder-class", f"{prefix}LongDeserializer"]
    assert run("dump", path, *words).out.endswith(b" key: 0 payload: 5\n")
    assert b" payload: " in run("dump", path, "--value-decoder-class").out
    assert run("dump", path, "--value-decoder-class", f"{prefix}IntegerDeserializer").status == 0
    short = log(tmp_path, builders.batch([builders.record(value=b"abc")]))
    done = run("dump", short, "--value-decoder-class", f"{prefix}LongDeserializer")
    assert (done.status, "3 bytes are no long" in done.complaint) == (1, True)


def test_a_limit_names_its_option(run: Here, tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch(builders.records(1, value=bytes(1 << 20)), codec="zstd"))
    done = run("dump", path, "--deep-iteration", "--max-decompressed-bytes", "64k")
    assert (done.status, "max_decompressed_bytes" in done.complaint) == (3, True)
    assert "Kafka's tool" not in done.complaint  # which has no such limit


def test_an_encoded_object_of_tiered_storage_is_refused_in_one_sentence(run: Here, tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}-l6HxJp0_TBmXt3aU2bq5Yg.log"
    path.write_bytes(bytes.fromhex("28b52ffd2000010000") + bytes(range(256)))
    done = run("dump", path)
    assert (done.status, done.out.decode()) == (3, f"Dumping {path}\n")
    assert "a tiered-storage object" in done.complaint
    assert "scan" not in done.complaint and "Kafka's tool" not in done.complaint


def test_into_a_file(run: Here, tmp_path: Path) -> None:
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


def test_a_terminal_is_not_steered_by_records(tmp_path: Path) -> None:
    path = log(tmp_path, builders.batch([builders.record(value="\x1b[31mred\x07 \u20ac".encode())]))
    words = [*COMMAND, "dump", "--print-data-log", path]
    assert b"\x1b[31mred" in subprocess.run(words, capture_output=True, env=ENVIRONMENT, check=True).stdout
    here, there = pty.openpty()
    subprocess.run(words, stdout=there, env=ENVIRONMENT, check=True)
    os.close(there)
    shown = os.read(here, 1 << 16)
    os.close(here)
    assert b"\x1b" not in shown and b"\x07" not in shown
    assert "payload: \ufffd[31mred\ufffd \u20ac".encode() in shown
