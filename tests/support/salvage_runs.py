"""Support for tests of salvage: a damaged source, contents of folders, runs that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import failing_calls
from failing_calls import run_in_child
from jvm_oracle import Oracle
from paths import SEGMENTS
from plain_logs import batch, log

from kafkarec import salvage

LARGE = b"a value of some length " * 40


def make_source(root: Path) -> Path:
    """Write two partitions: one of three segments with damage, one of two segments."""
    parts = [batch(i * 10, 10, value=LARGE) for i in range(9)]
    parts[4] = parts[4][:90] + b"\0" + parts[4][91:]
    log(root / "orders-0", parts[:3], parts[3:6], parts[6:])
    log(root / "other-1", [batch(0, 5)], [batch(5, 5)])
    return root


def logs(found: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in found.items() if name.endswith(".log")}


WRITING = ("open", "write", "pwrite", "ftruncate", "fsync", "replace", "mkdir", "unlink", "close")


def leave_unfinished(source, out: Path, calls: int = 40, **options) -> bool:
    """Kill a salvage before this system call; False: it made fewer."""
    return os.WIFSIGNALED(failing_calls.killed_before(calls, WRITING, lambda: salvage(source, out, **options)))


def killed_before(name: str, source, out: Path, **options):
    """Kill a salvage when it would put the file or folder of this name in place."""

    def made(event, arguments):
        which = {"os.rename": 1, "os.mkdir": 0}.get(event)  # that of os.replace, too
        if which is not None and Path(arguments[which]).name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    def action():
        sys.addaudithook(made)
        salvage(source, out, **options)

    assert os.WIFSIGNALED(run_in_child(action))


LOGS = sorted(path for path in SEGMENTS.glob("*/*.log"))
FOLDERS = sorted({path.parent for path in LOGS})


def copied(out: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(out.glob("*/*.log")) if path.parent.parent == out)


def set_aside(out: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((out / "set-aside").rglob("*.log")))


def assert_kafka_loads(kafka: Oracle, made: Path, work: Path, next_offset: int):
    """Assert that Kafka's log loader cuts and deletes nothing, and that the log ends at `next_offset`."""
    shutil.copytree(made, work / made.name)
    before = {path.name: path.read_bytes() for path in made.glob("*.log")}
    [loaded] = kafka.lines("load", work / made.name, 4096)
    _, end, *bases = loaded.split()
    assert int(end) == next_offset
    assert [f"{int(base):020}.log" for base in bases] == sorted(before)
    assert {path.name: path.read_bytes() for path in (work / made.name).glob("*.log")} == before
