"""How runs start and end: exit statuses, pipes, interrupts, output files, programs that are missing."""

import functools
import os
import re
import resource
import shlex
import shutil
import signal

import pytest
from command import COMMAND, PYTHON, SHELL, Ran, assert_quiet_at_a_closed_pipe, own_process
from paths import ROOT, SEGMENTS
from plain_logs import batch, log

import kafkarec
from kafkarec.cli.output_files import deferred_interrupts
from kafkarec.cli.verb_parsers import VERBS

CODECS = sorted((SEGMENTS / "all-codecs-0").glob("*.log"))[0]


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """Some 40 MB, so that a reader of the output can close the pipe in the middle."""
    path = tmp_path_factory.mktemp("long") / "long.log"
    path.write_bytes(CODECS.read_bytes() * 800)
    return path


def test_every_module_of_a_verb_is_in_the_table_and_every_verb_in_the_readme():
    modules = {path.stem for path in (ROOT / "kafkarec" / "cli").glob("*.py") if "\ndef run(args:" in path.read_text()}
    assert modules == set(VERBS)
    readme = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if not re.search(rf"^kafkarec {verb}\b", readme, re.MULTILINE)] == []


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_help_is_no_error(run, option):
    ran = run(option)
    assert (ran.status, ran.err) == (0, "") and b"kafkarec" in ran.out


def test_the_output_file_appears_when_it_is_complete(run, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    ran = run("cat", CODECS, "-o", out, "--force")
    assert (ran.status, ran.out, ran.err) == (0, b"", "")
    assert out.read_bytes() == run("cat", CODECS).out
    out.write_text("old")
    assert run("cat", CODECS, tmp_path / "missing.log", "-o", out, "--force").status == 3
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_the_output_file_has_the_modes_of_any_new_file(run, tmp_path):
    before = os.umask(0o027)
    try:
        run("cat", CODECS, "-n", 1, "-o", tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_closed_pipe_is_quiet(long_log):
    for words in ("cat", "cat --format arrow", "scan --format json", "scan"):
        assert_quiet_at_a_closed_pipe(*words.split(), str(long_log))
    assert_quiet_at_a_closed_pipe("dump", "--print-data-log", str(CODECS))


def test_an_interrupt_within_a_write_takes_effect_at_its_end():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        signal.raise_signal(signal.SIGINT)
        done.append("the first one")
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("a second one, which takes effect at once")
    assert done == ["the first one"]


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "cat --help",
        "--version",
        "doctor",
        "cat LOG -n 1",
        "salvage LOG -o out",
        "reindex LOG --dry-run",
        "verify LOG",
    ],
)
def test_standard_output_on_a_full_disk_is_status_3(words, tmp_path):
    with open("/dev/full", "wb") as full:
        ran = own_process(*words.replace("LOG", str(CODECS)).split(), stdout=full, cwd=tmp_path)
    assert (ran.status, ran.err) == (3, "kafkarec: standard output: no space left on device\n")


@pytest.mark.parametrize("words", ["cat LOG", "compact LOG"])
def test_a_disk_that_gets_full_is_noticed_without_python_s_buffer(words, tmp_path):
    """With PYTHONUNBUFFERED, as in many containers, the last write may be cut without an exception."""
    # Without bytecode: Python cuts its files at the limit, too, and every later process fails at such a file.
    variables = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    with open(tmp_path / "out", "wb") as out:
        ran = own_process(*words.replace("LOG", str(CODECS)).split(), stdout=out, env=variables, preexec_fn=limit)
    assert (ran.status, ran.err) == (3, "kafkarec: standard output: file too large\n")


def test_closed_standard_streams_are_handled():
    for words, stream in ((f"cat {CODECS} >&-", "output"), ("cat - <&-", "input")):
        ran = own_process(f"{shlex.join(COMMAND)} {words}", program=SHELL)
        assert (ran.status, ran.err) == (3, f"kafkarec: standard {stream} is closed\n")


def test_with_standard_error_closed_errors_are_discarded(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(CODECS.read_bytes() + b"\x81" * 100)
    ran = own_process(f"{shlex.join(COMMAND)} cat {path} --columns offset 2>&-", program=SHELL)
    assert (ran.status, ran.rows) == (1, [{"offset": offset} for offset in range(865)])


def test_a_program_error_is_one_line_and_a_traceback_with_debug(monkeypatch, run):

    def broken(*args, **kwargs):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(kafkarec.RecordColumns, "__getitem__", broken)
    ran = run("cat", CODECS)
    assert ran.status == 3
    assert "internal error: ZeroDivisionError: on purpose" in ran.complaint
    with pytest.raises(ZeroDivisionError):
        run("cat", CODECS, "--debug")


def test_file_names_that_are_no_utf8_are_read(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff\x1b[2J\n.log")
    shutil.copy(CODECS, path)
    ran = own_process("cat", os.fsdecode(path), "--columns", "file", "-n", "1")
    assert ran.status == 0
    assert ran.rows[0]["file"].endswith("\ufffd\x1b[2J\n.log")
    assert b"\x1b" not in ran.out
    missing = own_process("cat", os.fsdecode(path) + "x")
    assert "\x1b" not in missing.complaint


def test_without_pyarrow_json_is_printed_and_the_other_formats_name_the_command(tmp_path):
    code = "import sys; sys.modules['pyarrow'] = None; from kafkarec.cli import main; sys.exit(main(sys.argv[1:]))"

    def ran(*words):
        done = own_process(code, *words, program=PYTHON)
        return done.status, done.out.count(b"\n"), done.err

    assert ran("cat", CODECS, "-n", 2) == (0, 2, "")
    for form in ("arrow", "parquet", "csv"):
        needs = f"--format {form} needs pyarrow: pip install 'kafkarec[arrow]'"
        assert ran("cat", CODECS, "--format", form) == (3, 0, f"kafkarec: {needs}\n")
    (tmp_path / "in.csv").write_text("key\n")
    status, _, message = ran("build", tmp_path / "in.csv")
    assert status == 3 and "reading csv needs pyarrow: pip install 'kafkarec[arrow]'" in message


def test_ctrl_c_while_modules_are_imported():
    """The first imports take long enough for it; nothing has begun, so nothing is said."""
    code = (
        "import builtins, sys\nfrom kafkarec.cli import main\nreal = builtins.__import__\n"
        "def interrupted(name, *rest):\n    if name == 'app': raise KeyboardInterrupt\n    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\nsys.exit(main(['ls', 'nothing']))"
    )
    assert own_process(code, program=PYTHON) == Ran(130, b"", "")


def test_the_programs_own_words_may_be_run_in_another_thread():
    code = (
        "import sys, threading\nfrom kafkarec.cli import main\nsys.argv = ['kafkarec', 'doctor']\nfound = []\n"
        "thread = threading.Thread(target=lambda: found.append(main()))\nthread.start()\nthread.join()\n"
        "sys.exit(7 if found == [0] else 1)"
    )
    ran = own_process(code, program=PYTHON)
    assert (ran.status, ran.err) == (7, "")


@pytest.mark.parametrize(
    ("words", "limits", "status"),
    [
        pytest.param("convert data -o new/", (70, 70), 0, id="partitions are closed when they are complete"),
        pytest.param("build rows.jsonl -o new/", (40, 500), 0, id="the soft limit is raised"),
        pytest.param("salvage long-0 -o new", (170, 170), 0, id="sources are closed when they are copied"),
        pytest.param("salvage long-0 -o new --read-once", (170, 170), 0, id="or copied while they are read"),
        pytest.param("reindex data -o new", (30, 30), 3, id="a folder is removed although no more files can be opened"),
    ],
)
def test_few_files_may_be_open(words, limits, status, tmp_path):
    log(tmp_path / "long-0", *([batch(base, 1)] for base in range(200)))
    with open(tmp_path / "rows.jsonl", "w") as rows:
        for number in range(40):
            log(tmp_path / "data" / f"orders-{number}", [batch(0, 5)])
            rows.write(f'{{"topic": "orders", "partition": {number}, "offset": 0, "key": "k", "value": "v"}}\n')
    before = set(os.listdir(tmp_path))
    setrlimit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
    ran = own_process(*words.split(), cwd=tmp_path, preexec_fn=setrlimit)
    assert ran.status == status, ran.err
    made = set(os.listdir(tmp_path)) - before
    assert made == ({"new"} if status == 0 else set())
    assert status or len(list(tmp_path.glob("new/*/*.log"))) == (200 if "long-0" in words else 40)
