"""How runs begin and end: statuses, pipes, interrupts, output files, wrong use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import COMMAND, ENVIRONMENT, Here, own_process
from paths import SEGMENTS

from kafkarec import storage
from kafkarec.cli import progress
from kafkarec.cli.app import VERBS

CODECS = sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 40 MB, so that a reader of the output can go away in the middle."""
    path = tmp_path_factory.mktemp("long") / "long.log"
    path.write_bytes(CODECS.read_bytes() * 800)
    return path


def test_the_verbs_of_the_contract_are_all_known() -> None:
    contract = "ls scan cat dump explain verify txn salvage reindex build convert compact study doctor"
    assert set(VERBS) == {*contract.split(), "diff"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "what shall be done?"),
        (["scann"], "did you mean scan?"),
        (["frobnicate"], "no such verb: frobnicate"),
        ([CODECS], "a verb comes first: kafkarec cat"),
        (["cat"], "the following arguments are required: PATH"),
        (["cat", CODECS, "--colums", "offset"], "unrecognized arguments: --colums"),
        (["cat", CODECS, "--columns", "offset,colour"], "no such column: colour; there are topic, partition"),
        (["cat", CODECS, "--columns", "offset,offset"], "column named twice: offset"),
        (["cat", CODECS, "--columns", ""], "no column named"),
        (["cat", CODECS, "--from-time", "yesterday"], "'yesterday' is no time"),
        (["cat", CODECS, "-n", "-3"], "-n"),
        (["cat", CODECS, "-n", "3", "--last", "3"], "not allowed with"),
        (["cat", CODECS, "--format", "xml"], "invalid choice: 'xml'"),
        (["cat", CODECS, "--key", "xyz", "--key-as", "hex"], "--key 'xyz' is no hex"),
        (["cat", CODECS, "--key", "3000000000", "--key-as", "int32"], "is no int32"),
        (["cat", CODECS, "--max-decompressed-bytes", "lots"], "'lots' is no size"),
        (["cat", "-", "-"], "standard input (-) can be read once only"),
        (["scan", CODECS, "--isolation", "read_committed"], "unrecognized arguments"),
    ],
)
def test_wrong_use(run: Here, words: list[object], said: str) -> None:
    done = run(*words)
    assert (done.status, done.out) == (2, b"")
    assert said in done.complaint


@pytest.mark.parametrize("words", [["--help"], ["-h"], *([verb, "--help"] for verb in VERBS), ["--version"]])
def test_help_is_no_error(run: Here, words: list[str]) -> None:
    done = run(*words)
    assert (done.status, done.err) == (0, "")
    assert b"kafkarec" in done.out


def test_help_lists_every_verb_with_what_it_does(run: Here) -> None:
    text = run("--help").out.decode()
    assert all(verb in text and does in text for verb, does in VERBS.items())


@pytest.mark.parametrize("verb", ["cat", "scan"])
def test_a_missing_file(run: Here, tmp_path: Path, verb: str) -> None:
    done = run(verb, tmp_path / "no.log")
    assert (done.status, done.out) == (3, b"")
    assert done.complaint == f"kafkarec: {tmp_path}/no.log: no such file or directory"


def test_a_folder_without_segments_hints_at_what_was_given_up(run: Here, tmp_path: Path) -> None:
    assert "a folder without .log files" in run("cat", tmp_path).complaint
    gone = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    gone.mkdir()
    shutil.copy(CODECS, gone)
    done = run("cat", tmp_path)
    assert done.status == 3
    assert f"{gone.name} is a partition that was deleted" in done.complaint
    assert len(run("cat", gone).rows) == 865


def test_a_data_folder_is_all_its_partitions(run: Here) -> None:
    rows = run("cat", SEGMENTS, "--columns", "topic,partition,offset").rows
    assert {row["topic"] for row in rows} >= {"all-codecs", "txn", "compacted", "logappend"}


@pytest.mark.parametrize(("code", "said"), [(13, "permission denied"), (5, "input/output error")])
def test_a_file_that_cannot_be_read(run: Here, monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    """The system's refusal is played: root, who runs many a test, may read everything."""

    def refused(path: str, **options: object) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(storage, "open", refused)
    done = run("cat", "some.log")
    assert (done.status, done.out) == (3, b"")
    assert done.complaint == f"kafkarec: some.log: {said}"


@pytest.mark.parametrize("name", ["0.index", "0.timeindex", "0.txnindex", "0.snapshot"])
def test_files_beside_a_log_are_no_logs(run: Here, name: str) -> None:
    done = run("cat", name)
    assert done.status == 2
    assert "holds no records; name the .log beside it" in done.complaint


def test_an_output_that_may_not_be_written(run: Here) -> None:
    done = run("cat", CODECS, "-o", "/proc/kafkarec-test")
    assert (done.status, done.out) == (3, b"")
    assert "/proc/kafkarec-test: " in done.complaint


def test_a_full_disk(run: Here) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = run("cat", CODECS, "-o", "/dev/full")
    assert done.status == 3
    assert done.complaint == "kafkarec: /dev/full: no space left on device"


def test_the_output_file_appears_when_it_is_complete(run: Here, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    done = run("cat", CODECS, "-o", out, "--force")
    assert (done.status, done.out, done.err) == (0, b"", "")
    assert out.read_bytes() == run("cat", CODECS).out
    out.write_text("old")
    assert run("cat", CODECS, tmp_path / "missing.log", "-o", out, "--force").status == 3
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_the_output_file_has_the_modes_of_any_new_file(run: Here, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run("cat", CODECS, "-n", 1, "-o", tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(run: Here, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run("cat", CODECS, "-n", 1, "-o", tmp_path / "link").status == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 0


def test_an_input_is_never_written_over(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    shutil.copy(CODECS, path)
    done = run("cat", path, "-o", path)
    assert done.status == 2
    assert "is one of the inputs" in done.complaint
    assert path.read_bytes() == CODECS.read_bytes()


def test_a_closed_pipe_is_quiet(long_log: Path) -> None:
    for options in (["cat"], ["cat", "--format", "arrow"], ["scan", "--format", "json"], ["scan"]):
        child = subprocess.Popen(
            [*COMMAND, *options, str(long_log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.read(20)
        child.stdout.close()
        assert child.stderr.read() == b""
        child.stderr.close()
        assert child.wait(30) == 0


def test_head_in_a_shell(long_log: Path) -> None:
    line = f"set -o pipefail; {sys.executable} -m kafkarec cat {long_log} --columns offset | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"offset":0}\n', b"")


def test_an_interrupt_leaves_no_files(long_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    child = subprocess.Popen(
        [*COMMAND, "cat", *[str(long_log)] * 20, "-o", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 30
    while not os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.listdir(tmp_path) != []
    child.send_signal(signal.SIGINT)
    written, complaints = child.communicate(timeout=30)
    assert (child.returncode, written, complaints) == (130, b"", b"")
    assert os.listdir(tmp_path) == []


def test_closed_standard_streams() -> None:
    line = f"{sys.executable} -m kafkarec cat {CODECS} >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr == b"kafkarec: standard output is closed\n"
    line = f"{sys.executable} -m kafkarec cat - <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, b"kafkarec: standard input is closed\n")


def test_with_standard_error_closed_complaints_go_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(CODECS.read_bytes() + b"\x81" * 100)
    line = f"{sys.executable} -m kafkarec cat {path} --columns offset 2>&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [b'{"offset":%d}' % offset for offset in range(865)]


def test_a_program_error_is_one_line_and_a_traceback_with_debug(monkeypatch: pytest.MonkeyPatch, run: Here) -> None:
    import kafkarec

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(kafkarec.Log, "pieces", broken)
    done = run("cat", CODECS)
    assert done.status == 3
    assert "internal error: ZeroDivisionError: on purpose" in done.complaint
    with pytest.raises(ZeroDivisionError):
        run("cat", CODECS, "--debug")


def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\x1b[2J\n.log")
    shutil.copy(CODECS, path)
    done = own_process("cat", os.fsdecode(path), "--columns", "file", "-n", "1")
    assert done.status == 0
    assert done.rows[0]["file"].endswith("\ufffd\x1b[2J\n.log")
    assert b"\x1b" not in done.out
    missing = own_process("cat", os.fsdecode(path) + "x")
    assert "\x1b" not in missing.complaint


class PlayedBar:
    """What `rich` would be told."""

    def __init__(self) -> None:
        self.total, self.completed, self.closed = 0, [0], False

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.closed = True

    def add_task(self, name: str, total: int) -> int:
        self.total = total
        return 0

    def update(self, task: int, completed: int) -> None:
        self.completed.append(completed)


def test_a_bar_on_a_terminal_goes_from_nothing_to_all(
    monkeypatch: pytest.MonkeyPatch, run: Here, long_log: Path, tmp_path: Path
) -> None:
    bar = PlayedBar()
    monkeypatch.setattr(progress, "_bar", lambda *kinds: bar)
    assert run("cat", long_log, "--key", "none such", "-o", tmp_path / "out").status == 0
    assert bar.completed == [0]  # standard error is no terminal
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    assert run("cat", CODECS, long_log, "--key", "none such", "-o", tmp_path / "out", "--force").status == 0
    assert bar.completed == sorted(bar.completed)
    assert bar.completed[-1] == bar.total == CODECS.stat().st_size + long_log.stat().st_size
    assert bar.closed


def test_without_pyarrow_text_and_json_work_and_arrow_says_what_to_type() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from kafkarec.cli import main;"
        f"sys.exit(main(['cat', {str(CODECS)!r}, '-n', '2', *sys.argv[1:]]))"
    )
    words = [sys.executable, "-c", code]
    plain = subprocess.run(words, capture_output=True, env=ENVIRONMENT, timeout=60, check=True)
    assert plain.stdout.count(b"\n") == 2
    arrow = subprocess.run([*words, "--format", "arrow"], capture_output=True, env=ENVIRONMENT, check=False)
    assert (arrow.returncode, arrow.stdout) == (3, b"")
    assert arrow.stderr == b"kafkarec: --format arrow needs pyarrow: pip install 'kafkarec[arrow]'\n"
