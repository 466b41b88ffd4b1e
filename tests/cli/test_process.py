"""How runs start and end: exit statuses, pipes, interrupts, output files, wrong use."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import COMMAND, ENVIRONMENT, Here, assert_quiet_at_a_closed_pipe, interruptible, own_process
from paths import ROOT, SEGMENTS

import kafkarec
from kafkarec.cli import progress
from kafkarec.cli.verb_parsers import VERBS
from kafkarec.cli.whole_writes import WholeWrites

CODECS = sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0]


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 40 MB, so that a reader of the output can close the pipe in the middle."""
    path = tmp_path_factory.mktemp("long") / "long.log"
    path.write_bytes(CODECS.read_bytes() * 800)
    return path


def test_all_verbs_of_the_contract_exist() -> None:
    contract = "ls scan cat dump explain verify txn salvage reindex build convert compact study doctor"
    assert set(contract.split()) <= set(VERBS)


def test_every_module_of_a_verb_is_in_the_table_and_every_verb_in_the_readme() -> None:
    modules = {path.stem for path in (ROOT / "kafkarec" / "cli").glob("*.py") if "\ndef run(args:" in path.read_text()}
    assert modules == set(VERBS)
    readme = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if not re.search(rf"^kafkarec {verb}\b", readme, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no verb given"),
        (["scann"], "no such verb: scann; verbs: ls, scan, cat"),
        (["frobnicate"], "no such verb: frobnicate"),
        ([CODECS], "the verb comes first: kafkarec cat"),
        (["cat"], "the following arguments are required: PATH"),
        (["cat", CODECS, "--colums", "offset"], "unrecognized arguments: --colums"),
        (["cat", CODECS, "--columns", "offset,colour"], "no such column: colour; there are topic, partition"),
        (["cat", CODECS, "--columns", "offset,offset"], "column named twice: offset"),
        (["cat", CODECS, "--columns", ""], "no column given"),
        (["cat", CODECS, "--from-time", "yesterday"], "'yesterday' is not a time"),
        (["cat", CODECS, "-n", "-3"], "-n"),
        (["cat", CODECS, "-n", "3", "--last", "3"], "not allowed with"),
        (["cat", CODECS, "--format", "xml"], "invalid choice: 'xml'"),
        (["cat", CODECS, "--key", "xyz", "--key-as", "hex"], "--key 'xyz' is not hex"),
        (["cat", CODECS, "--key", "3000000000", "--key-as", "int32"], "is not int32"),
        (["cat", CODECS, "--max-decompressed-bytes", "lots"], "'lots' is not a size"),
        (["cat", "-", "-"], "standard input (-) can be read only once"),
        (["scan", CODECS, "--isolation", "read_committed"], "unrecognized arguments"),
    ],
)
def test_wrong_use_is_refused(run: Here, arguments: list[object], message: str) -> None:
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, b"")
    assert message in ran.complaint


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], *([verb, "--help"] for verb in VERBS), ["--version"]])
def test_help_is_no_error(run: Here, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert (ran.status, ran.err) == (0, "")
    assert b"kafkarec" in ran.out


def test_help_lists_every_verb_with_a_description(run: Here) -> None:
    text = run("--help").out.decode()
    assert all(verb in text and does in text for verb, does in VERBS.items())


@pytest.mark.parametrize("verb", ["cat", "scan"])
def test_a_missing_file_is_status_3(run: Here, tmp_path: Path, verb: str) -> None:
    ran = run(verb, tmp_path / "no.log")
    assert (ran.status, ran.out) == (3, b"")
    assert ran.complaint == f"kafkarec: {tmp_path}/no.log: no such file or directory"


def test_a_folder_without_segments_names_its_deleted_partitions(run: Here, tmp_path: Path) -> None:
    assert "a folder without .log files" in run("cat", tmp_path).complaint
    gone = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    gone.mkdir()
    shutil.copy(CODECS, gone)
    ran = run("cat", tmp_path)
    assert ran.status == 3
    assert f"{gone.name} is a partition that was deleted" in ran.complaint
    assert len(run("cat", gone).rows) == 865


def test_a_data_folder_prints_all_its_partitions(run: Here) -> None:
    rows = run("cat", SEGMENTS, "--columns", "topic,partition,offset").rows
    assert {row["topic"] for row in rows} >= {"all-codecs", "txn", "compacted", "logappend"}


@pytest.mark.parametrize(("code", "message"), [(13, "permission denied"), (5, "input/output error")])
def test_an_unreadable_file_is_status_3(run: Here, monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    """The error is simulated, as root may read every file."""

    def refused(path: str, **options: object) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(kafkarec, "open", refused)
    ran = run("cat", "some.log")
    assert (ran.status, ran.out) == (3, b"")
    assert ran.complaint == f"kafkarec: some.log: {message}"


@pytest.mark.parametrize("name", ["0.index", "0.timeindex", "0.txnindex", "0.snapshot"])
def test_index_and_snapshot_files_are_no_logs(run: Here, name: str) -> None:
    ran = run("cat", name)
    assert ran.status == 2
    assert "holds no records; name its .log file" in ran.complaint


def test_an_output_without_permission_is_status_3(run: Here) -> None:
    ran = run("cat", CODECS, "-o", "/proc/kafkarec-test")
    assert (ran.status, ran.out) == (3, b"")
    assert "/proc/kafkarec-test: " in ran.complaint


def test_a_full_disk_is_status_3(run: Here) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ran = run("cat", CODECS, "-o", "/dev/full")
    assert ran.status == 3
    assert ran.complaint == "kafkarec: /dev/full: no space left on device"


def test_the_output_file_appears_when_it_is_complete(run: Here, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    ran = run("cat", CODECS, "-o", out, "--force")
    assert (ran.status, ran.out, ran.err) == (0, b"", "")
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


def test_an_input_is_never_replaced(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    shutil.copy(CODECS, path)
    ran = run("cat", path, "-o", path)
    assert ran.status == 2
    assert "is one of the inputs" in ran.complaint
    assert path.read_bytes() == CODECS.read_bytes()


def test_a_closed_pipe_is_quiet(long_log: Path) -> None:
    for options in (["cat"], ["cat", "--format", "arrow"], ["scan", "--format", "json"], ["scan"]):
        assert_quiet_at_a_closed_pipe(*options, str(long_log))


def test_head_closes_the_pipe_quietly(long_log: Path) -> None:
    line = f"set -o pipefail; {sys.executable} -m kafkarec cat {long_log} --columns offset | head -1"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b'{"offset":0}\n', b"")


def test_an_interrupt_leaves_no_files(long_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    child = interruptible("cat", *[long_log] * 20, "-o", out)
    deadline = time.monotonic() + 30
    while not os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.listdir(tmp_path) != []
    child.send_signal(signal.SIGINT)
    written, complaints = child.communicate(timeout=30)
    assert (child.returncode, written, complaints) == (130, b"", b"")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_within_an_import_is_not_lost() -> None:
    """Python prints and swallows what is raised in the callbacks of its import locks."""
    code = compile("signal.raise_signal(signal.SIGINT)", "<frozen importlib._bootstrap>", "exec")
    with WholeWrites() as writes:
        exec(code, {"signal": signal})
        with pytest.raises(KeyboardInterrupt):
            writes.check()
        with pytest.raises(KeyboardInterrupt):  # a second one: at once
            exec(code, {"signal": signal})


@pytest.mark.parametrize(
    "words", [["salvage", "-o", "out"], ["reindex", "--dry-run"], ["verify"], ["cat"]], ids=lambda words: words[0]
)
def test_a_full_disk_is_named_as_standard_output(words: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*COMMAND, *words, str(CODECS)], stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=tmp_path
        )
    assert ran.stderr == b"kafkarec: standard output: no space left on device\n"
    assert ran.returncode == 3


def test_closed_standard_streams_are_handled() -> None:
    line = f"{sys.executable} -m kafkarec cat {CODECS} >&-"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert ran.returncode == 3
    assert ran.stderr == b"kafkarec: standard output is closed\n"
    line = f"{sys.executable} -m kafkarec cat - <&-"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (3, b"kafkarec: standard input is closed\n")


def test_with_standard_error_closed_errors_are_discarded(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(CODECS.read_bytes() + b"\x81" * 100)
    line = f"{sys.executable} -m kafkarec cat {path} --columns offset 2>&-"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, env=ENVIRONMENT, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [b'{"offset":%d}' % offset for offset in range(865)]


def test_a_program_error_is_one_line_and_a_traceback_with_debug(monkeypatch: pytest.MonkeyPatch, run: Here) -> None:
    import kafkarec

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(kafkarec.RecordColumns, "__getitem__", broken)
    ran = run("cat", CODECS)
    assert ran.status == 3
    assert "internal error: ZeroDivisionError: on purpose" in ran.complaint
    with pytest.raises(ZeroDivisionError):
        run("cat", CODECS, "--debug")


def test_file_names_that_are_no_utf8_are_read(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\x1b[2J\n.log")
    shutil.copy(CODECS, path)
    ran = own_process("cat", os.fsdecode(path), "--columns", "file", "-n", "1")
    assert ran.status == 0
    assert ran.rows[0]["file"].endswith("\ufffd\x1b[2J\n.log")
    assert b"\x1b" not in ran.out
    missing = own_process("cat", os.fsdecode(path) + "x")
    assert "\x1b" not in missing.complaint


class FakeProgressBar:
    """Records the calls that `rich` would receive."""

    def __init__(self) -> None:
        self.total, self.completed, self.closed = 0, [0], False

    def start(self) -> None:
        self.closed = False

    def stop(self) -> None:
        self.closed = True

    def add_task(self, name: str, total: int) -> int:
        self.total = total
        return 0

    def update(self, task: int, completed: int) -> None:
        self.completed.append(completed)


def test_a_progress_bar_runs_from_0_to_the_total(
    monkeypatch: pytest.MonkeyPatch, run: Here, long_log: Path, tmp_path: Path
) -> None:
    bar = FakeProgressBar()
    monkeypatch.setattr("rich.progress.Progress", lambda *columns, **options: bar)
    assert run("cat", long_log, "--key", "none such", "-o", tmp_path / "out").status == 0
    assert bar.completed == [0]  # standard error is no terminal
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    assert run("cat", CODECS, long_log, "--key", "none such", "-o", tmp_path / "out", "--force").status == 0
    assert bar.completed == sorted(bar.completed)
    assert bar.completed[-1] == bar.total == CODECS.stat().st_size + long_log.stat().st_size
    assert bar.closed


def test_without_pyarrow_text_and_json_work_and_arrow_names_the_command() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from kafkarec.cli import main;"
        f"sys.exit(main(['cat', {str(CODECS)!r}, '-n', '2', *sys.argv[1:]]))"
    )
    arguments = [sys.executable, "-c", code]
    plain = subprocess.run(arguments, capture_output=True, env=ENVIRONMENT, timeout=60, check=True)
    assert plain.stdout.count(b"\n") == 2
    arrow = subprocess.run([*arguments, "--format", "arrow"], capture_output=True, env=ENVIRONMENT, check=False)
    assert (arrow.returncode, arrow.stdout) == (3, b"")
    assert arrow.stderr == b"kafkarec: --format arrow needs pyarrow: pip install 'kafkarec[arrow]'\n"


def test_ctrl_c_while_modules_are_imported() -> None:
    """The first imports take long enough for it; nothing has begun, so nothing is said."""
    code = (
        "import builtins, sys\nfrom kafkarec.cli import main\nreal = builtins.__import__\n"
        "def interrupted(name, *rest):\n    if name == 'app': raise KeyboardInterrupt\n    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\nsys.exit(main(['ls', 'nothing']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_programs_own_words_may_be_run_in_another_thread() -> None:
    code = (
        "import sys, threading\nfrom kafkarec.cli import main\nsys.argv = ['kafkarec', 'doctor']\nfound = []\n"
        "thread = threading.Thread(target=lambda: found.append(main()))\nthread.start()\nthread.join()\n"
        "sys.exit(7 if found == [0] else 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr) == (7, "")
