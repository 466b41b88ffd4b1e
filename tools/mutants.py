"""Mutation tests for Cython: small changes to its functions, one at a time; which of them do the tests detect?

usage: mutants.py FILE OF TESTS ... [options]     as `make mutants` calls it

Cython's own parser finds them. What COPIED names is copied to .work/mutants. All mutants of one run are compiled there
into one build, written into the trees that Cython has parsed, each selected by a number; and only the tests that reach
a mutant are run with it:

    x += n - 1      if kr_m(17): pass
                    elif kr_m(18): x -= n - 1
                    else: x += n + 1 if kr_m(19) else n - 1

tests/mutants_explained.toml lists mutants that no test can detect, as [[mutant]] with file, function, line, change and
reason; these run with --only alone. Ends with status 1 below --least percent, or if that file has an entry that is not
a mutant (any more).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import itertools
import mmap
import multiprocessing
import os
import pickle
import re
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from commands import ROOT
from Cython.Compiler import ExprNodes, Nodes, Parsing
from Cython.Compiler.TreeFragment import parse_from_strings
from Cython.Compiler.Visitor import VisitorTransform

WORK = ROOT / ".work" / "mutants"
SOURCES = sorted((ROOT / "kafkarec" / "_c").glob("*.pxd"))
COPIED = ("kafkarec", "tests", "docs", "tools", "setup.py", "pyproject.toml", "README.md", "CHANGELOG.md")
EXPLAINED = ROOT / "tests" / "mutants_explained.toml"

SWAPPED = {"+": "-", "-": "+", "*": "//", "//": "*", "%": "//", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<"}
SWAPPED |= {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "and": "or", "or": "and"}
DROPPED = ("+", "-", "&", "<<", ">>")  # with the number or limit after them
FAILURES = re.compile(r"refuse|status|(?!OK$)[A-Z][A-Z_]+")  # what is returned, or called for it, instead of OK


@dataclass(frozen=True)
class Mutant:
    """A change at a place of a file; statement: the row where its statement begins. `key` survives moving."""

    file: str
    function: str
    line: str
    change: str
    row: int
    column: int
    statement: int
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.line, self.change

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.row}:{self.column} {self.function}: {self.line}    {self.change}"


# ---- in the tree that Cython has parsed ----------------------------------------------------------------------

Changes = Iterable[tuple[str, Any]]  # what is changed, and the node that stands there then
Chosen = list[tuple[int, Any]]  # number -> that node


def integer(at: Any, value: int) -> Any:
    return ExprNodes.IntNode(at.pos, value=str(value), unsigned=getattr(at, "unsigned", ""))


def truth(of: Any) -> Any:
    """`not not of`, which a pointer may be, too."""
    return ExprNodes.NotNode(of.pos, operand=ExprNodes.NotNode(of.pos, operand=of))


def with_attribute(node: Any, name: str, value: Any) -> Any:
    changed = copy(node)
    setattr(changed, name, value)
    return changed


def changes_of(node: Any, limits: set[str], source: str) -> Changes:
    """limits: names of constants, which are changed as numbers are; source: the file"""
    operator = getattr(node, "operator", "")
    other = SWAPPED.get(operator, "")
    match node:
        case ExprNodes.IntNode(value=text):
            value = int(text, 0)
            for one in (value + 1, value - 1) if value else (1,):
                yield f"{text} -> {one}", integer(node, one)
        case ExprNodes.NameNode(name=name) if name in limits:
            for sign in "+-":
                yield f"{name} {sign} 1", ExprNodes.binop_node(node.pos, sign, node, integer(node, 1))
        case ExprNodes.NotNode():
            yield "not -> ", truth(node.operand)
        case ExprNodes.BoolBinopNode() | ExprNodes.PrimaryCmpNode() if other:
            yield f"{operator} -> {other}", with_attribute(node, "operator", other)
        case ExprNodes.BinopNode(operand1=left, operand2=right) if other:
            yield f"{operator} -> {other}", ExprNodes.binop_node(node.pos, other, left, right)
            is_small = getattr(right, "name", "") in limits or getattr(right, "value", "1") != "1"
            if operator in DROPPED and is_small:
                yield f"without {operator}", left
        case Nodes.AssignmentNode() | Nodes.ExprStatNode(expr=ExprNodes.SimpleCallNode()):
            yield "pass", Nodes.PassStatNode(node.pos)
            if other:
                yield f"{operator}= -> {other}=", with_attribute(node, "operator", other)
        case Nodes.ReturnStatNode(value=ExprNodes.BoolNode(value=value)):
            yield f"return {not value}", with_attribute(node, "value", ExprNodes.BoolNode(node.pos, value=not value))
        case Nodes.ReturnStatNode(value=value):
            name = getattr(getattr(value, "function", value), "name", "")
            if FAILURES.fullmatch(name) and re.search(r"\bOK\b", source):
                yield "return OK", with_attribute(node, "value", ExprNodes.NameNode(node.pos, name="OK"))


def question(at: Any, number: int) -> Any:
    """Whether this mutant is on."""
    kr_m = ExprNodes.NameNode(at.pos, name="kr_m")
    return ExprNodes.SimpleCallNode(at.pos, function=kr_m, args=[integer(at, number)])


def choice(chosen: Chosen, node: Any) -> Any:
    """What stands there with the mutants."""
    if chosen and isinstance(node, Nodes.StatNode):
        clauses = [Nodes.IfClauseNode(node.pos, condition=question(node, n), body=other) for n, other in chosen]
        return Nodes.IfStatNode(node.pos, if_clauses=clauses, else_clause=node)
    for number, other in chosen:
        node = ExprNodes.CondExprNode(node.pos, condition=question(node, number), true_val=other, false_val=node)
    return node


class Mutator(VisitorTransform):  # type: ignore[misc]
    """Finds the mutants of all functions of a file, and writes those into its tree that have a number.

    numbers: (row, change) -> number
    """

    def __init__(self, path: Path, limits: set[str], numbers: dict[tuple[int, str], int]) -> None:
        super().__init__()
        self.file, self.source, self.limits, self.numbers = path.name, path.read_text("utf-8"), limits, numbers
        self.lines = self.source.splitlines()
        self.found: list[Mutant] = []
        self.places: Counter[tuple[int, str]] = Counter()
        self.function = ""
        self.statement = 0

    def chosen(self, at: Any, changes: Changes) -> Chosen:
        """Notes these changes; returns those that have a number, as they are before their children are changed."""
        _, row, column = at.pos
        wanted: Chosen = []
        for change, other in changes:
            self.places[row, change] += 1
            place = self.places[row, change]
            name = change if place == 1 else f"{change} ({place})"  # of equal ones in a line
            line = self.lines[row - 1].partition("  #")[0].strip()
            self.found.append(Mutant(self.file, self.function, line, name, row, column, self.statement))
            if number := self.numbers.get((row, name)):
                wanted.append((number, deepcopy(other)))
        return wanted

    def visit_CFuncDefNode(self, node: Any) -> Any:
        self.function = node.declarator.declared_name()
        self.visitchildren(node, attrs=["body"])
        self.function = ""
        return node

    def visit_CArrayDeclaratorNode(self, node: Any) -> Any:  # its length is a constant
        return node

    visit_CBaseTypeNode = visit_CArrayDeclaratorNode

    def visit_IndexNode(self, node: Any) -> Any:
        is_pointer = isinstance(node.index, ExprNodes.IntNode) and node.index.value == "0"  # Cython's way to write *p
        self.visitchildren(node, attrs=["base"] if is_pointer else None)
        return node

    def visit_Node(self, node: Any) -> Any:
        if isinstance(node, Nodes.StatNode | Nodes.IfClauseNode):
            self.statement = node.pos[1]
        chosen, of_condition = [], []
        if self.function:
            chosen = self.chosen(node, changes_of(node, self.limits, self.source))
            condition = getattr(node, "condition", None)
            # of fused types Cython itself decides, for each of them, and refuses what is there for another one
            if condition and getattr(condition, "operator", "") != "is":
                values = (False,) if isinstance(node, Nodes.WhileStatNode) else (True, False)
                others = [(str(value), ExprNodes.BoolNode(condition.pos, value=value)) for value in values]
                of_condition = self.chosen(condition, others)
        self.visitchildren(node)
        if of_condition:
            node.condition = choice(of_condition, truth(node.condition))
        return choice(chosen, node)


def parsed(path: Path) -> Any:
    return parse_from_strings("mutants", path.read_text("utf-8"), level="module_pxd")


def limits_of(paths: Iterable[Path]) -> set[str]:
    """Members of all anonymous `cdef enum:`s: the named limits."""
    bodies = [parsed(path).body for path in paths]
    enums = [stat for body in bodies for stat in getattr(body, "stats", ()) if isinstance(stat, Nodes.CEnumDefNode)]
    return {item.name for enum in enums if not enum.name for item in enum.items}


def candidates(paths: Sequence[Path] = SOURCES) -> list[Mutant]:
    """All mutants of the files, numbered."""
    limits, found = limits_of(paths), list[Mutant]()
    for path in paths:
        mutator = Mutator(path, limits, {})
        mutator(parsed(path))
        found += mutator.found
    return [replace(mutant, number=n) for n, mutant in enumerate(found, 1)]


# ---- the build -----------------------------------------------------------------------------------------------

COMPILE = "--compile"
HEADER = "kr_mutants.h"
DECLARATION = f'\n\ncdef extern from "{HEADER}" nogil:\n    bint kr_m(int n)\n'
CODE_OF_HEADER = """#pragma once
extern int kr_mutant_now;
extern unsigned char *kr_mutant_reached;

/* Whether this mutant is on. That the question was asked is noted. */
static inline int kr_m(int n) {
    kr_mutant_reached[n] = 1;
    return n == kr_mutant_now;
}
"""
LIBRARY = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

static unsigned char unshared[NUMBERS];
int kr_mutant_now = 0;
unsigned char *kr_mutant_reached = unshared;

/* One global for the extension modules of a process, one file for all processes. */
__attribute__((constructor)) static void kr_mutants_begin(void) {
    const char *now = getenv("MUTANT_NOW"), *path = getenv("MUTANTS_REACHED");
    int file = path != NULL ? open(path, O_RDWR) : -1;
    void *shared = file >= 0 ? mmap(NULL, NUMBERS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (shared != MAP_FAILED) kr_mutant_reached = shared;
    if (now != NULL) kr_mutant_now = atoi(now);
}
"""


def build(wanted: list[Mutant], numbers: int) -> list[Mutant]:
    """Compiles, quickly; returns the mutants that are in the build."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, WORK / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "_*.c"))
        else:
            shutil.copy2(ROOT / name, WORK / name)
    for path in SOURCES:
        with (WORK / path.relative_to(ROOT)).open("a", encoding="utf-8") as copy:
            copy.write(DECLARATION)
    (WORK / HEADER).write_text(CODE_OF_HEADER)
    (WORK / "kr_mutants.c").write_text(LIBRARY.replace("NUMBERS", str(numbers)))
    (WORK / "reached").write_bytes(bytes(numbers))
    library = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-O1", "-o", "libkr_mutants.so", "kr_mutants.c"]
    subprocess.run(library, cwd=WORK, check=True)
    links = f"-L{WORK} -Wl,--no-as-needed -lkr_mutants -Wl,-rpath,{WORK}"
    flags = {"CFLAGS": f"-I{WORK}", "LDFLAGS": links}
    env = os.environ | {name: f"{os.environ.get(name, '')} {words}" for name, words in flags.items()}
    env["KAFKAREC_OPTIMIZE"] = "-O0"
    while True:
        (WORK / "wanted.pickle").write_bytes(pickle.dumps(wanted))
        command = [sys.executable, __file__, COMPILE]
        done = subprocess.run(command, cwd=WORK, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return wanted
        output = done.stdout + done.stderr
        refused = refused_numbers(wanted, output)
        if not refused:
            raise SystemExit(f"mutants: the build failed\n{output[-5000:]}")
        print(f"mutants: {len(refused)} do not compile and are left out", flush=True)
        wanted = [one for one in wanted if one.number not in refused]


def refused_numbers(wanted: list[Mutant], output: str) -> set[int]:
    """The mutants that a compiler refuses, such as the sum of two pointers: those at the places that Cython names, or
    else of the statement there; and those in the code of the statement that the C compiler names."""
    refused: set[int] = set()
    for name, row, column in re.findall(r"(?m)^(\S+\.pxd):(\d+):(\d+):", output):
        there = [one for one in wanted if one.file == Path(name).name and int(row) in (one.row, one.statement)]
        exactly = [one for one in there if (one.row, one.column) == (int(row), int(column))]
        refused.update(one.number for one in exactly or there)
    for name, row in re.findall(r"(?m)^(\S+\.c):(\d+):\d+: error", output):
        lines = (WORK / name).read_text("utf-8").splitlines()
        comments = [at for at, line in enumerate(lines) if line.lstrip().startswith('/* "')]
        following = bisect(comments, int(row) - 1)
        code = "\n".join(lines[comments[following - 1] : comments[following]])
        refused.update(int(number, 0) for number in re.findall(r"\bkr_m\((\w+)\)", code))
    return refused


def compile_copy() -> None:
    """In a process of its own, in WORK: setup.py, with the mutants in the trees that Cython has parsed."""
    wanted: list[Mutant] = pickle.loads(Path("wanted.pickle").read_bytes())
    limits = limits_of(SOURCES)
    parse = Parsing.p_module

    def parse_and_change(*arguments: Any, **named: Any) -> Any:
        tree = parse(*arguments, **named)
        path = Path(getattr(tree.pos[0], "filename", None) or "")
        if path.parent.name != SOURCES[0].parent.name:
            return tree
        numbers = {(one.row, one.change): one.number for one in wanted if one.file == path.name}
        return Mutator(path, limits, numbers)(tree) if numbers else tree

    Parsing.p_module = parse_and_change
    multiprocessing.set_start_method("fork")  # Cython's processes have it, too
    for translated in Path("kafkarec").glob("_*.c"):
        translated.unlink()
    sys.argv = ["setup.py", "-q", "build_ext", "-i"]
    runpy.run_path("setup.py", run_name="__main__")


# ---- the run -------------------------------------------------------------------------------------------------

SIDE_BY_SIDE = 2
UNNOTICED = ("survived", "unreached")
MEMORY = 3 << 30  # bytes of address space beyond those of the parent
SLOWER, EXTRA_SECONDS = 10, 5.0  # time limit of a test: this multiple of its usual time plus this many seconds


class Runner:
    """A pytest plugin that replaces its loop over the tests.

    pytest collects once. What runs a test is a forked child: the parent's own state stays as it was after collection.
    The first child runs everything without a mutant and records each test's seconds and the mutants it reaches; then
    there is one child for each mutant, several at the same time, which ends at the first test that fails. A mutant also
    counts as noticed if the child dies by a signal, or needs too long or too much memory.
    """

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        library = ctypes.CDLL(str(WORK / "libkr_mutants.so"), mode=ctypes.RTLD_GLOBAL)
        self.now = ctypes.c_int.in_dll(library, "kr_mutant_now")
        with open(WORK / "reached", "r+b") as file:
            self.reached = mmap.mmap(file.fileno(), 0)
        self.verdicts: dict[int, str] = {}
        self.at_import: set[int] = set()
        self.seconds: list[float] = []
        self.reaching: dict[int, list[int]] = defaultdict(list)  # mutant -> the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        if "hypothesis" in sys.modules:  # without a search for the smallest input that fails
            from hypothesis import Phase, settings

            quick = settings(settings.default, phases=(Phase.explicit, Phase.generate))
            settings.register_profile("mutants", quick)
            settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("a test file cannot be imported")
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self.items = session.items
        self.at_import = {number for number in self.numbers if self.reached[number]}
        started = time.monotonic()
        self.first_run()
        print(f"mutants: {len(self.items)} tests, {time.monotonic() - started:.0f} s without a mutant", flush=True)
        self.all_mutants()
        return True

    def first_run(self) -> None:
        """Without a mutant: fills `seconds` and `reaching`."""
        answer = Path("first.pickle")
        pid = os.fork()
        if pid == 0:
            self.become_child(0)
            found = []
            for item, following in itertools.pairwise([*self.items, None]):
                self.reached[:] = bytes(len(self.reached))
                begun = time.monotonic()
                passed = run(item, following)
                found.append((time.monotonic() - begun, [i for i in self.numbers if self.reached[i]], passed))
            answer.write_bytes(pickle.dumps(found))
            os._exit(0)
        if status := os.waitpid(pid, 0)[1]:
            raise pytest.UsageError(f"the run without a mutant ended with status {status}")
        for index, (seconds, reached, passed) in enumerate(pickle.loads(answer.read_bytes())):
            if not passed:
                raise pytest.UsageError(f"without any mutant this fails: {self.items[index].nodeid}")
            self.seconds.append(seconds)
            for number in reached:
                self.reaching[number].append(index)

    def all_mutants(self) -> None:
        waiting = list(reversed(self.numbers))
        running: dict[int, int] = {}  # process -> mutant
        while waiting or running:
            while waiting and len(running) < SIDE_BY_SIDE:
                number = waiting.pop()
                pid = os.fork()
                if pid == 0:
                    self.one_mutant(number)
                running[pid] = number
            pid, status = os.wait()
            if pid not in running:
                continue
            number = running.pop(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # processes that it has started and that still run
            code = os.waitstatus_to_exitcode(status)
            noticed = signal.Signals(-code).name if code < 0 else "failed"
            self.verdicts[number] = noticed if code else UNNOTICED[number not in self.reaching]

    def one_mutant(self, number: int) -> None:
        """Never returns."""
        self.become_child(number)
        indices = sorted(self.reaching[number], key=self.seconds.__getitem__)  # the quick ones first
        items = [self.items[index] for index in indices]
        for index, (item, following) in zip(indices, itertools.pairwise([*items, None]), strict=True):
            signal.setitimer(signal.ITIMER_REAL, SLOWER * self.seconds[index] + EXTRA_SECONDS)
            if not run(item, following):
                os._exit(1)
        os._exit(0)

    def become_child(self, number: int) -> None:
        os.setsid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not without the parent
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        limit = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.environ["MUTANT_NOW"] = str(number)  # for processes that a test starts
        self.now.value = number


def run(item: Any, following: pytest.Item | None) -> bool:
    """Whether the test passed or was skipped."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def verdicts_of(tests: list[str], numbers: list[int]) -> dict[int, str]:
    """Runs the tests in the folder of the build."""
    os.chdir(WORK)
    path = os.pathsep.join(filter(None, (str(WORK), os.environ.get("PYTHONPATH"))))
    os.environ.update(MUTANTS_REACHED=str(WORK / "reached"), PYTHONPATH=path)
    sys.path.insert(0, str(WORK))
    words = ["-m", "core", *tests, "-q", "-p", "no:cacheprovider"]
    runner = Runner(numbers)
    if pytest.main([*words, "-s", "-p", "no:faulthandler", "--basetemp=tmp"], plugins=[runner]) not in (0, 5):
        raise SystemExit("mutants: the run of the tests failed")
    for number in runner.at_import:
        if runner.verdicts[number] == "unreached":
            # code that ran only when the modules were imported ran without the mutant: repeated in a separate process
            env = os.environ | {"MUTANT_NOW": str(number)}
            alone = subprocess.run([sys.executable, "-m", "pytest", "-x", *words], env=env, capture_output=True)
            runner.verdicts[number] = "failed" if alone.returncode else "survived"
    return runner.verdicts


# ---- all of it -----------------------------------------------------------------------------------------------


def chosen(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` mutants at random; which, depends neither on lines nor on numbers."""
    ranked = sorted(found, key=lambda one: hashlib.sha256(repr((seed, one.key)).encode()).digest())
    return sorted(ranked[:count], key=lambda one: one.number)


def explained(found: list[Mutant]) -> set[tuple[str, str, str, str]]:
    """Keys of the mutants that no test can detect."""
    entries = tomllib.loads(EXPLAINED.read_text("utf-8"))["mutant"]
    keys = {(e["file"], e["function"], e["line"], e["change"]) for e in entries if len(e["reason"]) > 20}
    strays = keys - {mutant.key for mutant in found}
    if strays or len(keys) != len(entries):
        listed = "\n".join(map(str, sorted(strays)))
        raise SystemExit(f"mutants: entries of {EXPLAINED} without a mutant, a reason or twice:\n{listed}")
    return keys


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants.py", description="which small changes do the tests detect?")
    parser.add_argument("tests", nargs="+", help="the files of tests that run")
    parser.add_argument("--seed", type=int, default=1, help="selects among the candidates (default 1)")
    parser.add_argument("--count", type=int, default=400, help="number of mutants (default 400)")
    parser.add_argument("--file", help="mutants of one file only, such as record.pxd")
    parser.add_argument("--only", help="only these numbers: 17,18")
    parser.add_argument("--least", type=float, default=95.0, help="lowest accepted score (default 95)")
    options, started = parser.parse_args(), time.monotonic()
    found = candidates()
    known = explained(found)
    picked = chosen([one for one in found if options.file in (None, one.file)], options.count, options.seed)
    if options.only:
        known, picked = set(), [found[int(number) - 1] for number in options.only.split(",")]
    wanted = [mutant for mutant in picked if mutant.key not in known]
    left = f", {len(picked) - len(wanted)} of them explained and left out" if len(wanted) < len(picked) else ""
    print(f"mutants: {len(picked)} of {len(found)} candidates, seed {options.seed}{left}", flush=True)
    inside = build(wanted, len(found) + 1)
    print(f"mutants: built in {time.monotonic() - started:.0f} s", flush=True)
    verdicts = verdicts_of(options.tests, [mutant.number for mutant in inside])
    survivors = [mutant for mutant in inside if verdicts[mutant.number] in UNNOTICED]
    print("\n".join(f"{verdicts[mutant.number]:9} {mutant}" for mutant in survivors))
    score = 100 * (1 - len(survivors) / max(len(inside), 1))
    print(f"mutants: {', '.join(f'{n} {verdict}' for verdict, n in sorted(Counter(verdicts.values()).items()))}")
    print(f"mutants: {len(inside) - len(survivors)} of {len(inside)} noticed ({score:.1f} %)")
    print(f"mutants: {(time.monotonic() - started) / 60:.1f} minutes")
    return int(score < options.least)


if __name__ == "__main__":
    sys.exit(compile_copy() if sys.argv[1:] == [COMPILE] else main())
