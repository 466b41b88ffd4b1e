"""Every command that is printed works in the folder in which it was printed, and writes nothing into the source."""

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from command import Here, own_process
from paths import SEGMENTS
from plain_logs import batch, flip, log
from witness_folders import golden

import kafkarec
from kafkarec.support.command_line import command, quoted

# names of data folders that a shell or an option parser could misread
NAMES = ["dead", "a disk", "-dash", "quo'te", "$HOME", "new\nline"]

_COMMAND = re.compile(r"(?:^|[ :(])(kafkarec [a-z]+ .*)$", re.MULTILINE)


def printed(text):
    """The commands at the end of a line, `kafkarec VERB ...`."""
    return [found.strip() for found in _COMMAND.findall(text)]


def words_of(line, folder):
    """The words that a command line passes to kafkarec."""
    script = f"kafkarec() {{ printf '%s\\0' \"$@\"; }}\n{line}"
    return [os.fsdecode(word) for word in pasted(script, folder).split(b"\0")[:-1]]


def pasted(script, folder, shell="bash"):
    """What lines print in a shell, without an error."""
    ran = tried(script, folder, shell)
    assert (ran.status, ran.err) == (0, ""), ran
    return ran.out


def tried(script, folder, shell="sh"):
    return own_process(script, program=[shell, "-c"], cwd=folder, env={"PATH": os.environ["PATH"]})


def data_folder(path):
    """A data folder of three partitions: two damaged, one with a damaged index and a hanging transaction."""
    path.mkdir()
    for name in ("all-codecs-0", "txn-0", "compacted-0"):
        golden(path, name)
    flip(path / "all-codecs-0" / f"{0:020}.log", 9000, 0x10)
    flip(path / "txn-0" / f"{30:020}.log", 6000, 0x10)
    flip(path / "compacted-0" / f"{0:020}.timeindex", 5, 0x10)
    return path


def state(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def assert_all_work(run, here, source, *words):
    """Run a command in `here`, then type all that it prints; return how many that were."""
    before = state(source)
    os.chdir(here)
    ran = run(*words)
    assert ran.status in (0, 1, 3), ran.err
    lines = printed(ran.text + ran.err)
    for line in lines:
        done = run(*words_of(line, here))
        assert done.status in (0, 1), (line, done.err)
    assert state(source) == before
    return len(lines)


@pytest.fixture
def run(capfdbinary, monkeypatch, tmp_path):
    monkeypatch.chdir(os.curdir)  # so that the working directory is the old one afterwards
    (tmp_path / "temporary").mkdir()  # where a command writes that is printed two folders below the source's
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return Here(capfdbinary)


@pytest.mark.parametrize("name", NAMES)
def test_commands_that_verify_prints_work(run, tmp_path, name):
    """In the partition folder, in the data folder, beside it, and elsewhere."""
    (tmp_path / "work").mkdir()
    dead = data_folder(tmp_path / "work" / name)
    operand = f"./{name}" if name.startswith("-") else name
    places = [
        (dead, ["."]),
        (dead, ["txn-0"]),
        (dead / "txn-0", ["."]),
        (dead / "txn-0", [f"{30:020}.log"]),
        (dead / "txn-0", [f"{0:020}.log", f"{30:020}.log"]),
        (dead / "compacted-0", [".."]),
        (tmp_path / "work", [operand]),
        (tmp_path / "work", [f"{operand}/txn-0", f"{operand}/all-codecs-0"]),
        (tmp_path, [str(dead)]),
    ]
    for here, paths in places if name == "dead" else (places[0], places[3], places[6], places[7]):
        assert assert_all_work(run, here, dead, "verify", *paths)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [(), ("--as-partition",)])
def test_commands_that_salvage_prints_work(run, tmp_path, name, options):
    dead = data_folder(tmp_path / name)
    (tmp_path / "out side").mkdir()
    for number, here in enumerate((dead, dead / "txn-0", tmp_path) if name == "dead" else (dead,)):
        source = os.path.relpath(dead, here)
        words = ("salvage", os.path.join(".", source), "-o", str(tmp_path / "out side" / str(number)), *options)
        assert assert_all_work(run, here, dead, *words) >= 2


@pytest.mark.parametrize("verb", ["ls", "txn", "study", "explain", "scan", "cat", "dump"])
def test_commands_that_other_verbs_print_work(run, tmp_path, verb):
    dead = data_folder(tmp_path / "a disk")
    flip(dead / "txn-0" / f"{0:020}.log", 900, 0x10)
    for path in (".", "..") if verb in ("ls", "txn", "study") else (".",):
        assert_all_work(run, dead / "txn-0", dead, verb, path)


def test_commands_that_diff_prints_work(run, tmp_path):
    dead = data_folder(tmp_path / "a disk")
    assert assert_all_work(run, dead, dead, "diff", "txn-0", str(SEGMENTS / "txn-0")) == 1


def test_commands_about_a_missing_segment_that_fsck_found_work(run, tmp_path):
    found = log(tmp_path / "disk" / "orders-0", [batch(0, 5)], [batch(5, 5)], [batch(10, 5)])
    (tmp_path / "disk" / "lost+found").mkdir()
    (found / f"{5:020}.log").rename(tmp_path / "disk" / "lost+found" / "#123")
    assert assert_all_work(run, tmp_path / "disk", tmp_path / "disk", "verify", ".") == 1
    words = ("salvage", ".", "-o", str(tmp_path / "out"))
    assert assert_all_work(run, tmp_path / "disk", tmp_path / "disk", *words) == 3


IDS = {"cluster.id": "Y7nKKCKxTaSyvLPmUGYJpQ", "node.id": "1", "directory.id": "-Xa8ENUVWplkTL1NRuyDTA"}
COMMANDS = ("grep", "kafka-configs.sh", "stat", "awk", "mkdir", "cp", "chown", "mv", "rmdir", "rm")
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")
ENTRIES = ["compacted 0 5", "other 1 9", "txn 0 7"]


def meta_properties(folder, **other):
    ids = IDS | {name.replace("_", "."): value for name, value in other.items()}
    (folder / "meta.properties").write_text("#\n" + "".join(f"{name}={ids[name]}\n" for name in ids) + "version=1\n")


@pytest.fixture
def configured(tmp_path_factory, monkeypatch):
    """A stand-in for kafka-configs.sh. Returns the file of its calls."""
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "kafka-configs.sh").write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n')
    (folder / "kafka-configs.sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "calls"


@pytest.fixture
def served(tmp_path, configured):
    """A dead broker's data folder, and that of a stopped broker with the same topics and the same ids."""
    dead = data_folder(tmp_path / "a disk")
    shutil.copytree(SEGMENTS / "__cluster_metadata-0", dead / "__cluster_metadata-0")
    meta_properties(dead)
    data = Path(shutil.copytree(dead, tmp_path / "data folder"))
    (data / "txn-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    for name in CHECKPOINTS:
        (data / name).write_text("\n".join(["0", str(len(ENTRIES)), *ENTRIES, ""]))
    for name in (".kafka_cleanshutdown", ".lock"):
        (data / name).write_text("")
    return dead, data


def steps(run, dead, data, out, option="--as-partition"):
    """The lines that salvage prints, with this data folder."""
    lines = run("salvage", dead, "-o", out, option).text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("to serve it from"))
    found = [line.strip() for line in lines[begin + 1 :]]
    found = [step for step in found if step[0].isdigit()]
    assert [step.split(".")[0] for step in found] == [str(number) for number in range(1, 10)]
    assert ("__cluster_metadata is in no step" in lines[begin - 1]) == (dead / "__cluster_metadata-0").exists()
    return [step.split(". ", 1)[1].replace("/var/lib/kafka;", quoted(str(data)) + ";") for step in found]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("topics", [0, 9])
def test_the_serve_plan_replaces_the_salvaged_partitions_alone(run, served, configured, tmp_path, topics, shell):
    """Its lines, pasted with the data folder of a broker; the folders of many partitions are found by a pattern."""
    dead, data = served
    more = [log(dead / f"more-{number}", [batch(0, 3)]).name for number in range(topics)]
    before = state(data / "__cluster_metadata-0")
    script = "\n".join(steps(run, dead, data, tmp_path / "new ones"))
    assert pasted(f"set -u\n{script}", tmp_path, shell).endswith(b"done: start the broker\n")
    kept = "--bootstrap-server localhost:9092 --entity-type topics --entity-name=txn --alter --add-config"
    calls = configured.read_text().splitlines()
    assert f"{kept} retention.ms=-1,retention.bytes=-1" in calls and len(calls) == 2 * (3 + (topics > 0))
    for name in CHECKPOINTS:  # the log start stays: records below it were deleted on purpose
        edited = name != CHECKPOINTS[2]
        assert (data / name).read_text() == ("0\n1\nother 1 9\n" if edited else "\n".join(["0", "3", *ENTRIES, ""]))
        assert not edited or (tmp_path / "data folder.replaced" / name).read_text().split()[1] == "3"
    for name in ("all-codecs-0", "txn-0", "compacted-0", *more):
        new = state(tmp_path / "new ones" / name)
        now = state(data / name)
        assert {each: now[each] for each in new if each != "partition.metadata"} == {
            each: digest for each, digest in new.items() if each != "partition.metadata"
        }
        assert name in more or state(tmp_path / "data folder.replaced" / name).keys() >= {f"{0:020}.log"}
    assert "AAAAAAAAAAAAAAAAAAAAAA" in (data / "txn-0" / "partition.metadata").read_text()
    names = [".lock", "__cluster_metadata-0", "all-codecs-0", "compacted-0", "meta.properties", *more, "txn-0"]
    assert sorted(path.name for path in data.iterdir()) == sorted([*names, *CHECKPOINTS])
    assert state(data / "__cluster_metadata-0") == before


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("topics", [0, 9])
def test_the_serve_plan_of_another_broker_or_cluster(run, served, tmp_path, name, topics):
    """Nothing is touched if an id differs, or there is no meta.properties, as in a folder with a mistyped name."""
    dead, data = served
    for number in range(topics):
        log(dead / f"more-{number}", [batch(0, 3)])
    script = "\n".join(steps(run, dead, data, tmp_path / "new"))
    meta_properties(data, **{name.replace(".", "_"): "other"})
    for missing in (name, "cluster.id"):
        before = state(tmp_path)
        ran = tried(script, tmp_path)
        assert ran.status and not ran.out and state(tmp_path) == before
        assert f"STOP: {data}/meta.properties has not {missing}={IDS[missing]} " in ran.err
        assert "STOP: step 2 failed" in ran.err
        (data / "meta.properties").unlink(missing_ok=True)


def test_the_serve_plan_of_a_running_broker(run, served, tmp_path):
    """A broker holds a lock on a file of its data folder (FileLock: fcntl)."""
    dead, data = served
    script = "\n".join(steps(run, dead, data, tmp_path / "new"))
    before = state(data)
    with open(data / ".lock", "r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        ran = tried(script, tmp_path)
    assert ran.status and state(data) == before
    assert f"STOP: a broker is running on {data}\n" in ran.err


def test_the_serve_plan_of_another_cluster(run, served, tmp_path):
    """The topics must be there; the ids of the source do not matter."""
    dead, data = served
    meta_properties(data, cluster_id="other")
    lines = steps(run, dead, data, tmp_path / "new", "--new-cluster")
    for name in ("txn-0", "compacted-0"):
        (data / name).rename(tmp_path / name)
    ran = tried("\n".join(lines), tmp_path)
    assert ran.status and f"STOP: {data}/compacted-0 does not exist: create the topic" in ran.err
    for name in ("txn-0", "compacted-0"):
        (tmp_path / name).rename(data / name)
    assert pasted("\n".join(lines), tmp_path, "sh").endswith(b"done: start the broker\n")
    assert {one["producer_id"] for one in kafkarec.open(data / "txn-0").scan()} == {None}


def test_the_serve_plan_of_a_source_without_meta_properties(run, configured, tmp_path):
    """The ids of the target are printed; there must be some."""
    dead, data = data_folder(tmp_path / "a disk"), data_folder(tmp_path / "data folder")
    script = "\n".join(steps(run, dead, data, tmp_path / "out"))
    before = state(tmp_path)
    assert tried(script, tmp_path).status
    assert state(tmp_path) == before
    meta_properties(data)
    text = pasted(script, tmp_path, "sh").decode()
    assert "cluster.id=Y7nKKCKxTaSyvLPmUGYJpQ\n" in text and "go on only if this is the broker" in text


STUB = """#!/bin/sh
echo NAME >> "$CALLS"
number=0; while read -r called; do [ "$called" = NAME ] && number=$((number + 1)); done < "$CALLS"
[ "NAME $number" != "$FAILS" ] || { PATH="$REAL" cp -r "$DATA_FOLDER" "$LEFT"; exit 1; }
PATH="$REAL" exec NAME "$@"
"""


@pytest.mark.parametrize(
    "command, shell",
    [*((command, "bash -e") for command in COMMANDS), *((command, "sh") for command in ("cp", "mv", "rm"))],
)
def test_a_step_of_the_serve_plan_fails(run, served, tmp_path, command, shell):
    """Each call of each command fails once: nothing is called after it. Then the failed step and the later ones are
    pasted again in the same shell."""
    dead, data = served
    lines = steps(run, dead, data, tmp_path / "new")
    done = {"SAME": 1, "KEPT": 2, "STOPPED": 4, "COPIED": 5, "MOVED": 6}
    again = [f'[ "${name}" ] || {lines[at]}' for name, at in done.items()]
    script = "\n".join([*lines, 'echo again >> "$CALLS"', *again, lines[7]])
    before, calls, left, real = state(data), tmp_path / "calls", tmp_path / "left", os.environ["PATH"]
    (tmp_path / "stubs").mkdir()
    for name in COMMANDS:
        (tmp_path / "stubs" / name).write_text(STUB.replace("NAME", name))
        (tmp_path / "stubs" / name).chmod(0o755)
    shutil.copytree(data, tmp_path / "saved")
    pasted("\n".join(lines), tmp_path)
    expected = state(data)
    for number in range(1, 30):
        for path in (data, tmp_path / "data folder.replaced", left):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(tmp_path / "saved", data)
        calls.write_text("")
        paths = {"PATH": f"{tmp_path}/stubs:{real}", "REAL": real, "CALLS": str(calls), "LEFT": str(left)}
        paths |= {"DATA_FOLDER": str(data), "FAILS": f"{command} {number}"}
        ran = own_process(script, program=[*shell.split(), "-c"], env=paths, cwd=tmp_path)
        called = calls.read_text().split()
        called = called[: called.index("again")]
        if called.count(command) < number:
            break
        assert called[-1] == command, called
        assert ("STOP: " in ran.err) == ("rmdir" not in called[:-1])
        assert ran.out.endswith(b"done: start the broker\n") and ran.out.count(b"done") == 1
        if "mv" not in called:
            kept = {name: digest for name, digest in state(left).items() if not name.startswith("rescued.tmp")}
            assert kept == before, "what the broker has is not touched"
        assert ran.status == 0 and state(data) == expected
    assert number > 1


def test_an_output_is_away_from_the_source(run, tmp_path, monkeypatch):
    dead, temporary = data_folder(tmp_path / "dead"), tmp_path / "temporary"
    for here, source, expected in (
        (tmp_path, dead, "rescued"),
        (tmp_path, dead / "txn-0", "rescued"),
        (dead, ".", "../rescued"),
        (dead, "txn-0", "../rescued"),
        (dead / "txn-0", ".", str(temporary / "rescued")),
        (dead / "txn-0", "../all-codecs-0", str(temporary / "rescued")),
        (dead / "txn-0", f"{30:020}.log", str(temporary / "rescued")),
    ):
        monkeypatch.chdir(here)
        assert rescued_to(run, source) == expected, (here, source)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rescued").mkdir()
    (tmp_path / "records.jsonl").write_text("")
    assert rescued_to(run, "dead") == "rescued-2"
    assert " -o records-2.jsonl\n" in run("salvage", "dead", "-o", "new").text


def rescued_to(run, source):
    """Return the folder that `verify` prints for the salvaged log."""
    [out] = {found[1] for found in re.finditer(r" -o (\S+)", run("verify", source).text)}
    return out


def test_an_output_where_nothing_can_be_written(run, tmp_path, monkeypatch):
    """A disk that is mounted read-only: neither the folder nor the one above it. Simulated, as root may write."""
    dead, temporary = data_folder(tmp_path / "dead"), tmp_path / "temporary"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: os.path.realpath(path) == str(temporary))
    assert rescued_to(run, dead) == str(temporary / "rescued")


def test_words_for_the_shell(tmp_path):
    for word in (*NAMES, "", "caf\u00e9", os.fsdecode(b"\xff\n'\\x"), "\u2028", "a\tb"):
        assert words_of(f"kafkarec {quoted(word)}", tmp_path) == [word]
    assert command("cat", ["-x", "", "-"], ("-o", "-y"), ("--at", 5)) == "kafkarec cat ./-x . - -o=-y --at 5"
