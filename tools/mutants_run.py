"""Runs the core tests once without a mutant, and then those that reach each mutant, with it.

usage: mutants_run.py JOB.json      (in the folder of the build; started by tools/mutants.py)

pytest collects once. What runs a test is a forked child: the parent's own state stays as it was after collection. The
first child runs everything without a mutant and records each test's seconds and the mutants it reaches; then there is
one child for each mutant, several at the same time, which ends at the first test that fails. A mutant also counts as
noticed if the child dies by a signal, or needs more than ten times a test's usual time or more memory than allowed.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pickle
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

FAILED, PASSED = 1, 0
MEMORY = 3 << 30  # bytes of address space beyond those of the parent
SLOWER, EXTRA_SECONDS = 10, 5.0  # time limit of a test: this multiple of its usual time plus this many seconds


@dataclass
class RunParams:
    """The parameters from tools/mutants.py: see its `run`."""

    library: str  # the shared object with `kr_mutant_now`
    reached: str  # the file of one byte for each mutant, which that library maps
    numbers: list[int]
    tests: list[str]
    side_by_side: int
    results: str


class Runner:
    """A pytest plugin that replaces its loop over the tests."""

    def __init__(self, job: RunParams) -> None:
        self.job = job
        self.now = ctypes.c_int.in_dll(ctypes.CDLL(job.library, mode=ctypes.RTLD_GLOBAL), "kr_mutant_now")
        with open(job.reached, "r+b") as file:
            self.reached = mmap.mmap(file.fileno(), 0)
        self.seconds: list[float] = []
        self.reaching: dict[int, list[int]] = {}
        self.noticed_by: dict[int, int] = {}  # how many mutants a test has noticed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        quick = hypothesis.settings(
            hypothesis.settings.default, phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate)
        )
        hypothesis.settings.register_profile("mutants", quick)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("a test file cannot be imported")
        session.config._tmp_path_factory.getbasetemp()
        self.items = session.items
        self.at_import = {number for number in self.job.numbers if self.reached[number]}
        started = time.monotonic()
        failed = self.first_run()
        if failed:
            raise pytest.UsageError("without any mutant these fail:\n" + "\n".join(failed))
        print(f"mutants: {len(self.items)} tests, {time.monotonic() - started:.0f} s without a mutant", flush=True)
        with open(self.job.results, "w", encoding="utf-8") as out:
            self.all_mutants(out)
        return True

    # ---- without a mutant

    def first_run(self) -> list[str]:
        """Fills `seconds` and `reaching`; returns the names of tests that fail."""
        report = Path(self.job.results + ".first")
        pid = os.fork()
        if pid == 0:
            self.become_child(0)
            found = []
            for item, following in zip(self.items, [*self.items[1:], None], strict=True):
                self.reached[:] = bytes(len(self.reached))
                begun = time.monotonic()
                passed = run(item, following)
                reached = [i for i in self.job.numbers if self.reached[i]]
                found.append((time.monotonic() - begun, reached, passed))
            report.write_bytes(pickle.dumps(found))
            os._exit(PASSED)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise pytest.UsageError(f"the run without a mutant ended with status {status}")
        found = pickle.loads(report.read_bytes())
        self.seconds = [seconds for seconds, _, _ in found]
        for index, (_, reached, _) in enumerate(found):
            for number in reached:
                self.reaching.setdefault(number, []).append(index)
        return [item.nodeid for item, (_, _, passed) in zip(self.items, found, strict=True) if not passed]

    # ---- with one

    def all_mutants(self, out: Any) -> None:
        waiting = list(reversed(self.job.numbers))
        running: dict[int, tuple[int, int, list[int], float]] = {}
        done = 0
        while waiting or running:
            while waiting and len(running) < self.job.side_by_side:
                number = waiting.pop()
                order = self.order(number)
                read_end, write_end = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(read_end)
                    self.child(number, order, write_end)
                os.close(write_end)
                running[pid] = number, read_end, order, time.monotonic()
            pid, status = os.wait()
            if pid not in running:
                continue
            number, read_end, order, begun = running.pop(pid)
            killed_group(pid)
            last = len(os.read(read_end, 65536)) - 1
            os.close(read_end)
            seconds = round(time.monotonic() - begun, 2)
            answer = {"number": number, "seconds": seconds, "tests": len(order), "at_import": number in self.at_import}
            if status == PASSED:
                answer["verdict"] = "survived" if order else "unreached"
            else:
                index = order[max(last, 0)]
                self.noticed_by[index] = self.noticed_by.get(index, 0) + 1
                answer["verdict"] = how_it_ended(status)
                answer["by"] = self.items[index].nodeid
            out.write(json.dumps(answer) + "\n")
            out.flush()
            done += 1
            if done % 50 == 0:
                print(f"mutants: {done} of {len(self.job.numbers)}", flush=True)

    def order(self, number: int) -> list[int]:
        """The tests that reach a mutant: the quick ones first, and those that have noticed many; of a test with many
        parameters one after another, not all before anything else."""
        spent: dict[str, float] = {}
        turns = []
        for test in sorted(self.reaching.get(number, []), key=self.turn):
            name = self.items[test].nodeid.partition("[")[0]
            spent[name] = spent.get(name, 0.0) + self.turn(test)
            turns.append((spent[name], test))
        return [test for _, test in sorted(turns)]

    def turn(self, test: int) -> float:
        return (self.seconds[test] + 0.002) / (1 + 2 * self.noticed_by.get(test, 0))

    def child(self, number: int, order: list[int], progress: int) -> None:
        """Never returns. Writes one byte to `progress` for every test that begins."""
        self.become_child(number)
        items = [self.items[index] for index in order]
        for index, item, following in zip(order, items, [*items[1:], None], strict=True) if items else ():
            os.write(progress, b".")
            signal.setitimer(signal.ITIMER_REAL, SLOWER * self.seconds[index] + EXTRA_SECONDS)
            if not run(item, following):
                os._exit(FAILED)
        os._exit(PASSED)

    def become_child(self, number: int) -> None:
        os.setsid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not without the parent
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        limit = address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.environ["KAFKAREC_MUTANT"] = str(number)  # for processes that a test starts
        self.now.value = number


def run(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether the test passed or was skipped."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "took too long" if number == signal.SIGALRM else f"died by {signal.Signals(number).name}"
    return "failed"


def killed_group(pid: int) -> None:
    """Ends processes that a child has started and that still run."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def main() -> int:
    job = RunParams(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    arguments = ["-q", "-s", "-m", "core", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--basetemp=tmp"]
    status = pytest.main([*arguments, *job.tests], plugins=[Runner(job)])
    return int(status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main())
