"""Runs the command line, in this process or in a new one, and reads what it wrote."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from kafkarec.cli import main

COMMAND = [sys.executable, "-m", "kafkarec"]
PYTHON, SHELL = [sys.executable, "-c"], ["bash", "-c"]
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="")


def interruptible(*words, **kwargs) -> subprocess.Popen[bytes]:
    """Start the command in a new process that Ctrl-C interrupts, also if this one ignores it, as under nohup."""
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT} | kwargs
    return subprocess.Popen([*COMMAND, *map(str, words)], preexec_fn=_take_interrupts, **kwargs)


def interrupted(child: subprocess.Popen[bytes], after: float = 0) -> tuple[bytes, bytes]:
    """Ctrl-C for a command when it has three threads, or a while later; it must end after three seconds of processor
    time, which the load of the machine does not change. What it wrote."""
    deadline = time.monotonic() + 30
    while len(os.listdir(f"/proc/{child.pid}/task")) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(after)
    others, before = _processor_time(resource.RUSAGE_CHILDREN), Path(f"/proc/{child.pid}/stat").read_text()
    child.send_signal(signal.SIGINT)
    written = child.communicate(timeout=60)
    ticks = sum(map(int, before.rpartition(")")[2].split()[11:13]))
    spent = _processor_time(resource.RUSAGE_CHILDREN) - others - ticks / os.sysconf("SC_CLK_TCK")
    assert child.returncode == 130 and spent < 3, (child.returncode, spent, written)
    return written


def _processor_time(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def _take_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def assert_quiet_at_a_closed_pipe(*words: str):
    """Runs the command in a new process; its reader goes away after 20 bytes."""
    child = interruptible(*words)
    assert child.stdout.read(20)
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(30) == 0


@dataclass(frozen=True)
class Ran:
    """The exit status, standard output and standard error of a run."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def complaint(self) -> str:
        """Standard error, which must be one line that begins with "kafkarec: "."""
        assert self.err.startswith("kafkarec: ") and self.err.count("\n") == 1, self.err
        return self.err.strip()


@dataclass(frozen=True)
class Here:
    """Callable that runs `main` in this process."""

    capture: pytest.CaptureFixture[bytes]

    def __call__(self, *argv) -> Ran:
        status = main([str(word) for word in argv])
        out, err = self.capture.readouterr()
        return Ran(status, out, err.decode())


def own_process(
    *argv, program: Sequence[str] = COMMAND, stdin: bytes = b"", file=None, env: Mapping[str, str] = {}, **kwargs
) -> Ran:
    """Run `python -m kafkarec`, or another program; standard input is a pipe with `stdin`, or `file` itself. env: more
    variables; stdout: a file in place of a pipe."""
    given = {"input": stdin} if file is None else {"stdin": file}
    given |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT | dict(env)} | kwargs
    done = subprocess.run([*program, *map(str, argv)], check=False, **given)
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def with_modules(folder: Path, **texts: str) -> dict[str, str]:
    """The variables that put a folder before all else that is imported, with these modules in it."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def blob(cell: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of NAME or NAME_base64, of which one has a value at most."""
    encoded = cell.get(f"{name}_base64")
    if encoded is None:
        return None if cell[name] is None else cell[name].encode()
    assert cell.get(name) is None
    return base64.b64decode(encoded, validate=True)


def as_consumer_row(cell: dict[str, Any]) -> tuple[Any, ...]:
    """Return a row of `cat` as the values of `reading.DEFAULT_COLUMNS`."""
    headers = tuple((header["key"], blob(header, "value")) for header in cell["headers"])
    numbers = (cell["offset"], cell["timestamp"], cell["timestamp_type"])
    return (*numbers, blob(cell, "key"), blob(cell, "value"), headers)


ROW = "topic,partition,offset,timestamp,timestamp_type,key,value,headers"
WIDE = f"{ROW},base_offset,producer_id,producer_epoch,sequence,is_transactional,is_control,partition_leader_epoch"
WIDE += ",magic,compression"
