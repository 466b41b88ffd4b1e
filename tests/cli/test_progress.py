"""The extra `cli` itself: the progress bar of `rich` on a terminal, drawn and erased; argcomplete, called as a shell
does."""

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from command import COMMAND, ENVIRONMENT, SHELL, interruptible, own_process, with_modules
from paths import SEGMENTS
from plain_logs import log

import kafkarec.cli
from kafkarec.cli import progress
from kafkarec.cli.problems import say

ERASE = b"\x1b[2K"


def on_a_terminal(*arguments, environment=None, interrupt_at=b"", output=None):
    """Run a command on a pseudo-terminal; return (exit status, standard output, standard error as the terminal received
    it). `interrupt_at`: interrupt it when these bytes have come. `output`: the file of standard output, not a pipe."""
    outer, inner = pty.openpty()
    env = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100", **(environment or {})}
    with open(os.devnull if output is None else output, "wb") as file:
        process = interruptible(*arguments, stdout=subprocess.PIPE if output is None else file, stderr=inner, env=env)
    os.close(inner)
    shown = b""
    while True:
        try:
            block = os.read(outer, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not block:
            break
        shown += block
        if interrupt_at and interrupt_at in shown:
            process.send_signal(signal.SIGINT)
            interrupt_at = b""
    os.close(outer)
    out, _ = process.communicate()
    return process.returncode, out if output is None else output.read_bytes(), shown


CODECS, TXN = SEGMENTS / "all-codecs-0", SEGMENTS / "txn-0"
# Command lines of all verbs that read whole logs, and what the bar shows at its end: the logs have 50.3 and 18.0 kB.
VERBS = {
    "study": (("study", CODECS, "--codecs", "zstd", "--batch-sizes", "keep", "-o", "OUT"), "100%"),
    "cat": (("cat", TXN, "-o", "OUT"), "18.0/18.0 kB"),
    "latest": (("cat", TXN, "--latest-per-key", "-o", "OUT"), "36.0/36.0 kB"),
    "scan": (("scan", TXN, "-o", "OUT"), "18.0/18.0 kB"),
    "ls": (("ls", TXN, "--full"), "18.0/18.0 kB"),
    "verify": (("verify", TXN, "--threads", "1"), "18.0/18.0 kB"),
    "txn": (("txn", TXN), "18.0/18.0 kB"),
    "diff": (("diff", TXN, "OUT.copy"), "36.0/36.0 kB"),
    "dump": (("dump", "--print-data-log", CODECS, "-o", "OUT"), "50.3/50.3 kB"),
    "convert": (("convert", CODECS, "-o", "OUT.log"), "50.3/50.3 kB"),
    "convert, lossless": (("convert", CODECS, "--on-loss", "raise", "-o", "OUT.log"), "50.3/50.3 kB"),
    "compact": (("compact", CODECS, "-o", "OUT.log"), "100.6/100.6 kB"),
    "reindex": (("reindex", CODECS, "--dry-run"), "50.3/50.3 kB"),
    "salvage": (("salvage", CODECS, "-o", "OUT"), "50.3/50.3 kB"),
}


@pytest.mark.parametrize("arguments, end", VERBS.values(), ids=VERBS)
def test_a_progress_bar_is_drawn_up_to_the_total_and_erased(arguments, end, tmp_path):
    target = str(tmp_path / "out")
    shutil.copytree(TXN, f"{target}.copy")
    words = [str(word).replace("OUT", target) for word in arguments]
    status, out, shown = on_a_terminal(*words)
    assert status == 0 and (out or "-o" in words)
    bar = "━".encode()
    assert bar in shown and end.encode() in shown, shown
    assert ERASE in shown.rpartition(bar)[2], shown[-200:]


def test_without_rich_there_is_a_plain_line_each_ten_seconds(tmp_path, monkeypatch, capsys):
    without_rich = with_modules(tmp_path, rich="raise ImportError('on purpose')")
    assert on_a_terminal("verify", CODECS, environment=without_rich)[2] == b""  # it takes less
    at_once = with_modules(tmp_path, sitecustomize="from kafkarec.cli import progress\nprogress.LINE_SECONDS = 0")
    _, out, shown = on_a_terminal("verify", CODECS, "--threads", "1", environment=at_once)
    lines = shown.decode().split("\r\n")
    assert out and lines.pop() == "" and lines
    assert all(
        re.fullmatch(r"kafkarec: reading: \d+ %, \S+ \S+ of 49\.1 KiB, \d+ MB/s, .* left", each) for each in lines
    )
    monkeypatch.setattr(progress, "is_stderr_terminal", lambda: True)
    monkeypatch.setattr(progress, "rich_progress", lambda *kinds: None)
    clock = iter([0, 9.9, 10, 15, 20, 30])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with progress.show_bytes_read(lambda: 10 << 30) as tick:
        for gibibytes in range(1, 5):
            tick("a", gibibytes << 30)
    assert capsys.readouterr().err.splitlines() == [
        "kafkarec: reading: 20 %, 2.0 GiB of 10.0 GiB, 215 MB/s, 40 s left",
        "kafkarec: reading: 40 %, 4.0 GiB of 10.0 GiB, 215 MB/s, 30 s left",
    ]


def test_records_on_a_pipe_come_without_a_bar():
    """The next program of the pipe may use the terminal, too."""
    status, out, shown = on_a_terminal("cat", TXN)
    assert (status, shown) == (0, b"") and out


class FakeBar:
    """Records what is drawn. now: the time, which passes while it is asked."""

    def __init__(self):
        self.events = []
        self.now = 0.0

    def time(self):
        self.now += 0.25
        return self.now

    def start(self):
        self.events.append("start")

    def stop(self):
        self.events.append("stop")

    def add_task(self, name, *, total):
        return 0

    def update(self, task, *, completed):
        self.events.append(str(completed))


@pytest.fixture
def bar(monkeypatch):
    bar = FakeBar()
    monkeypatch.setattr("rich.progress.Progress", lambda *columns, **options: bar)
    monkeypatch.setattr(progress, "is_stderr_terminal", lambda: True)
    monkeypatch.setattr(time, "monotonic", bar.time)
    return bar


def test_beside_output_on_the_terminal_the_bar_waits_for_silence(bar):
    with progress.show_bytes_read(lambda: 100, progress.When.IN_SILENCE) as tick:
        tick("a", 10)
        assert bar.events == ["0", "10"]
        bar.now += 1
        tick("a", 20)
        progress.erase()
        tick("a", 25)
        bar.now += 1
        tick("a", 30)
    assert bar.events == ["0", "10", "20", "start", "stop", "25", "30", "start", "stop"]


def test_a_line_on_standard_error_erases_the_bar(bar, capsys):
    with progress.show_bytes_read(lambda: 100) as tick:
        tick("a", 50)
        say("damage")
        assert bar.events == ["0", "start", "50", "start", "stop"]
        tick("a", 60)
    assert bar.events[-3:] == ["60", "start", "stop"] and capsys.readouterr().err == "kafkarec: damage\n"


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda folder: str(folder / "new"), progress.When.AT_ONCE),
        (lambda folder: os.devnull, progress.When.AT_ONCE),
        (lambda folder: os.mkfifo(folder / "pipe") or str(folder / "pipe"), progress.When.NEVER),
        (lambda folder: f"/dev/fd/{pty.openpty()[1]}", progress.When.IN_SILENCE),
    ],
    ids=["file", "device", "pipe", "terminal"],
)
def test_when_a_bar_is_shown_follows_from_the_output(make, expected, tmp_path):
    assert progress.when_writing(make(tmp_path)) is expected


def test_what_is_printed_to_a_file_stays_out_of_the_terminal(tmp_path):
    """rich redirects standard output to the terminal of its bar unless it is told not to."""
    status, out, shown = on_a_terminal("reindex", CODECS, "--dry-run", output=tmp_path / "out")
    assert status == 0 and b"00000000000000000000.index" in out and out.startswith(str(CODECS).encode())
    assert b".index" not in shown and "━".encode() in shown


# As Python's sitecustomize: 20 MB are verified in less time than the interrupt may take.
SLOW_BAR = """
import time
from kafkarec.cli import progress
update = progress._Bar.update
def slowly(*words, **options):
    update(*words, **options)
    time.sleep(0.1)
progress._Bar.update = slowly
"""


@pytest.mark.parametrize(
    "words",
    [
        ("cat", "-o", "OUT/out"),
        ("cat", "--format", "csv"),
        ("verify", "--threads", "1"),
        ("convert", "-o", "OUT/new-0"),
        ("convert", "-o", "OUT/new/"),
    ],
    ids=["file", "records", "report", "partition", "folder"],
)
def test_ctrl_c_leaves_no_incomplete_output(words, tmp_path):
    folder = log(tmp_path / "orders-0", [(CODECS / f"{0:020}.log").read_bytes() * 400])
    out = tmp_path / "out"
    out.mkdir()
    slow = with_modules(tmp_path, sitecustomize=SLOW_BAR)
    arguments = [word.replace("OUT", str(out)) for word in words]
    status, printed, shown = on_a_terminal(
        arguments[0], folder, *arguments[1:], environment=slow, interrupt_at="━".encode(), output=tmp_path / "stdout"
    )
    assert status == 130
    assert shown.decode().endswith("kafkarec: interrupted\r\n"), shown[-300:]
    assert os.listdir(out) == [] and printed[-1:] in (b"", b"\n")


@pytest.mark.parametrize("words, status", [(("ls", TXN), 0), (("ls", "nowhere"), 3)])
def test_ctrl_c_when_all_is_done_leaves_the_status(words, status, tmp_path):
    code = "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    process = interruptible(*words, env=ENVIRONMENT | with_modules(tmp_path, sitecustomize=code))
    out, err = process.communicate()
    assert process.returncode == status
    assert bool(out) == (status == 0) and b"Interrupt" not in err


@pytest.mark.parametrize(
    "source, is_begun, expected",
    [
        ("a", True, "interrupted; what was copied so far is kept, and the same command continues from there"),
        ("a", False, "interrupted; nothing is written"),
        ("-", True, "interrupted; a run that reads standard input cannot continue: remove the output and begin again"),
    ],
)
def test_an_interrupted_salvage_says_how_to_go_on(source, is_begun, expected, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    out.mkdir()

    def interrupted(*arguments, **options):
        if is_begun:
            (out / ".unfinished").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkarec.cli.salvage.salvage", interrupted)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    words = ["salvage", str(CODECS) if source == "a" else source, "-o", str(out)]
    assert kafkarec.cli.main(words) == 130
    assert capsys.readouterr().err == f"kafkarec: {expected}\n"


def test_an_interrupt_when_salvage_has_its_copy_leaves_it(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkarec.cli.output_files.write_rendered", interrupted)
    monkeypatch.setattr("kafkarec.cli.run_verb.is_stderr_terminal", lambda: True)
    assert kafkarec.cli.main(["salvage", str(TXN), "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "kafkarec: interrupted\n" and (tmp_path / "out" / "txn-0").is_dir()


@pytest.mark.parametrize(
    "line, offered",
    [("kafkarec st", ["study "]), ("kafkarec study --plo", ["--plot "]), ("kafkarec cat --isol", ["--isolation "])],
)
def test_a_shell_gets_completions(line, offered):
    """Called as bash does by argcomplete's protocol: the line in variables, the answer at descriptor 8."""
    variables = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    run = f"exec 8>&1 9>/dev/null; exec {shlex.join(COMMAND)} >/dev/null"
    assert own_process(run, program=SHELL, env=variables).text.splitlines() == offered


def test_without_argcomplete_a_shell_gets_no_answer(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    with pytest.raises(SystemExit):
        kafkarec.cli.main([])
    assert capsys.readouterr() == ("", "")
