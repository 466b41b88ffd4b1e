"""Mutation tests for the C core: small changes to its functions, one at a time; which of them do the tests detect?

usage: mutants.py FILE OF TESTS ... [options]     as `make mutants` calls it

What COPIED names is copied to .work/mutants. All mutants of one run are compiled there into one build, each selected by
a number, and only the tests that reach a mutant are run with it. A mutant is a statement of a Cython function in a .pxd
with a small change: a comparison's neighbour, a number one more or less, a dropped `+ 1`, an assignment left out:

    x += 1                 if kr_m(17): x -= 1
                           elif kr_m(18): pass
                           else: x += 1
    if a < b:              if ((not not (a <= b)) if kr_m(19) else (not not (a < b))):
    cdef int x = n - 1     cdef int x = ((n) if kr_m(20) else (n - 1))

tests/mutants_explained.toml lists mutants that no test can detect, as [[mutant]] with file, function, original, mutated
and reason; these run with --only alone. Ends with status 1 below --least percent, or if that file has an entry that is
not a mutant (any more).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import itertools
import mmap
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from commands import ROOT

WORK = ROOT / ".work" / "mutants"
SOURCES = sorted((ROOT / "kafkarec" / "_c").glob("*.pxd"))
COPIED = ("kafkarec", "tests", "docs", "tools", "setup.py", "pyproject.toml", "README.md", "CHANGELOG.md")
EXPLAINED = ROOT / "tests" / "mutants_explained.toml"
# value -> the values instead of which it is returned: a function's status becomes OK
RETURNS = {
    "True": re.compile("False"),
    "False": re.compile("True"),
    "OK": re.compile(r"refuse\(.*|status|(?!OK$)[A-Z][A-Z_]+"),
    "0": re.compile("ENOMEM"),
}

# ---- code as words -------------------------------------------------------------------------------------------

WORD = re.compile(
    r"\#[^\n]*|\\\n|(?P<word>\w{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|\d[\w.]*|\w+|\n|<<=|>>=|//=|->|\*\*|<<|>>|//|[-+*/%&|^<>=!]=|[^\s\w])",
    re.DOTALL,
)
FUNCTION = re.compile(r"(?!cdef (?:extern|enum|struct|packed|union)\b)c?p?def\s.*?(\w+)\s*\(.*:$")
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d[\d_]*)([uUlL]*)$")
KNOWN = "0 True False "  # what may be returned in every file
KEYWORDS = {"and", "or", "not", "if", "else", "in", "is", "return"}
ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<"}
SWAPPED = ARITHMETIC | {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED |= {"%": "//", "and": "or", "or": "and"}
AUGMENTED = {f"{one}=": f"{other}=" for one, other in ARITHMETIC.items()}
DROPPED = {"+", "-", "&", "<<", ">>"}
# operators with a higher precedence than `+`, and than `&`: `x + 1 * y`
TIGHTER = {"*", "//", "/", "%", "**", ".", "(", "["}
TIGHTER_THAN_AND = TIGHTER | {"+", "-", "<<", ">>"}


@dataclass(frozen=True)
class Mutant:
    """A change of `start` to `end` in a file. `original` and `mutated` are whole statements on one line, so they
    survive moving; form: how the change is written, `before` and `after`: what it changes."""

    file: str
    function: str
    original: str
    mutated: str
    form: str
    start: int
    end: int
    before: str
    after: str
    row: int
    place: int  # of several equal ones in a function
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.original, self.mutated

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.row} {self.function}: {self.original}  ->  {self.mutated}"


Change = tuple[int, int, str]  # words from, to: replaced by this text
# form, words from, to: what is replaced as one; texts that may be there instead, besides those with a small change
Slot = tuple[str, int, int, list[str]]


class Statement:
    """A statement of a function: its words."""

    def __init__(self, source: str, function: str, words: list[re.Match[str]]) -> None:
        self.source, self.function = source, function
        self.spans = [word.span("word") for word in words]
        self.texts = [word["word"] for word in words]
        self.casts: set[int] = set()
        for i, text in enumerate(self.texts):
            if text == "<" and i not in self.casts and not self.is_operand(i - 1, 0):
                self.casts |= {*range(i, self.texts.index(">", i) + 1)}

    def text(self, start: int = 0, stop: int | None = None, change: Change | None = None) -> str:
        """Words [start, stop) on one line, changed."""
        parts = []
        stop = len(self.texts) if stop is None else stop
        i = start
        while i < stop:
            between = self.source[self.spans[i - 1][1] : self.spans[i][0]] if i else ""
            beside_bracket = "\n" in between and (self.texts[i - 1] in "([{" or self.texts[i] in ")]}")
            gap = " " if between and not beside_bracket else ""
            if change and i == change[0]:
                parts.append(gap + change[2] if change[2] else "")
                i = change[1]
            else:
                parts.append(gap + self.texts[i])
                i += 1
        return "".join(parts).strip().replace("( ", "(")

    def closing(self, opening: int) -> int:
        """Index of the bracket that closes the one at `opening`."""
        return self.outside(opening + 1, len(self.texts), {")", "]", "}"})[0]

    def outside(self, start: int, stop: int, wanted: set[str]) -> list[int]:
        """Indices of these words outside of brackets."""
        found, depth = [], 0
        for i in range(start, stop):
            if depth == 0 and self.texts[i] in wanted:
                found.append(i)
            depth += (self.texts[i] in "([{") - (self.texts[i] in ")]}")
            if depth < 0:
                break
        return found

    def between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The ranges that commas separate."""
        edges = [start - 1, *self.outside(start, stop, {","}), stop]
        return [(left + 1, right) for left, right in itertools.pairwise(edges)]

    def is_operand(self, i: int, start: int) -> bool:
        """Whether the word at `i` ends an operand, so that an operator after it takes two."""
        if i < start or i in self.casts:
            return False
        return self.texts[i] in (")", "]", "}") or bool(
            re.match(r"[\w\"']", self.texts[i]) and self.texts[i] not in KEYWORDS
        )

    def changes(self, start: int, stop: int, limits: set[str]) -> Iterator[Change]:
        """All small changes to the expression of words [start, stop)."""
        for i in range(start, stop):
            word, before = self.texts[i], self.texts[i - 1] if i > start else ""
            following = self.texts[i + 1] if i + 1 < stop else ")"
            if i in self.casts:
                continue
            if number := NUMBER.match(word):
                if (before, word, following) == ("[", "0", "]"):
                    continue  # Cython's way to write *p
                value, form = int(number[1], 0), hex if word[:2].lower() == "0x" else str
                yield i, i + 1, form(value + 1) + number[2]
                added = before in AUGMENTED or (before in DROPPED and self.is_operand(i - 2, start))
                if value > 1 or (value == 1 and not added):  # `x + 0` is what is dropped below
                    yield i, i + 1, form(value - 1) + number[2]
            elif word in limits and before != ".":
                yield i, i + 1, f"({word} + 1)"
                yield i, i + 1, f"({word} - 1)"
            elif word == "not":
                yield i, i + 1, ""
            elif word == "if":
                end = self.outside(i + 1, stop, {"else", *")]}"})[0]  # a condition, or the last part of a comprehension
                yield i + 1, end, "True"
                yield i + 1, end, "False"
            elif word in SWAPPED and self.is_operand(i - 1, start) and following not in ")],":
                yield i, i + 1, SWAPPED[word]
                tighter = TIGHTER_THAN_AND if word == "&" else TIGHTER
                loose = i + 2 >= stop or self.texts[i + 2] not in tighter
                if word in DROPPED and loose and (NUMBER.match(following) or following in limits):
                    yield i, i + 2, ""

    def slots(self) -> Iterator[Slot]:
        first, stop = self.texts[0], len(self.texts)
        if first == "cdef":
            for left, right in self.between(1, stop):
                for equals in self.outside(left, right, {"="})[:1]:
                    if self.texts[equals + 1] == "[":  # an array is no value that could be chosen: those in it
                        inside = self.between(equals + 2, self.closing(equals + 1))
                    else:
                        inside = [(equals + 1, right)]
                    yield from (("value", *each, []) for each in inside)
        elif first in ("if", "elif", "while"):
            yield "condition", 1, stop - 1, ["False"] if first == "while" else ["True", "False"]
        elif first == "for" and "range" in self.texts:
            opening = self.texts.index("range") + 1
            for each in self.between(opening + 1, self.closing(opening)):
                is_number = NUMBER.match(self.texts[each[0]])
                yield "value", *each, [] if is_number else [f"{self.text(*each)} {sign} 1" for sign in "+-"]
        elif first == "return":
            value, there = self.text(1), KNOWN + self.source
            others = [one for one, of in RETURNS.items() if of.fullmatch(value) and one in there]
            yield "statement", 0, stop, [f"return {one}" for one in others]
        elif self.texts[-1] != ":" and first[0] not in "\"'" and first not in ("pass", "raise", "global", "for"):
            swaps = [(i, i + 1, AUGMENTED[self.texts[i]]) for i in self.outside(0, stop, set(AUGMENTED))]
            yield "statement", 0, stop, ["pass", *(self.text(change=swap) for swap in swaps)]


# ---- files ---------------------------------------------------------------------------------------------------


def statements(source: str) -> Iterator[Statement]:
    """Those of all functions."""
    words: list[re.Match[str]] = []
    function, depth = "", 0
    for found in WORD.finditer(source + "\n"):
        word = found["word"]
        if word and word != "\n":
            depth += (word in "([{") - (word in ")]}")
            words.append(found)
        elif word and words and not depth:
            one = Statement(source, function, words)
            if one.spans[0][0] == 0 or source[one.spans[0][0] - 1] == "\n":
                header = FUNCTION.match(one.text())
                function = header[1] if header else ""
            elif function:
                yield one
            words = []


def limits_of(sources: list[str]) -> set[str]:
    """Members of all anonymous `cdef enum:`s: the named limits."""
    blocks = [block for source in sources for block in re.findall(r"^cdef enum:\n((?:[ \t]+.*\n|\n)+)", source, re.M)]
    rows = [re.split("[#=]", row)[0] for block in blocks for row in block.splitlines()]
    return {name for row in rows for name in re.findall(r"\b([A-Z][A-Z0-9_]+)\b", row)}


def mutants_of(file: str, source: str, limits: set[str]) -> Iterator[Mutant]:
    """All candidates of a file, in order."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for one in statements(source):
        original = one.text()
        for form, start, stop, texts in one.slots():
            before = one.text(start, stop)
            texts += [one.text(start, stop, change) for change in one.changes(start, stop, limits)]
            row = source.count("\n", 0, one.spans[0][0]) + 1
            written = form, one.spans[start][0], one.spans[stop - 1][1]
            for after in dict.fromkeys(texts):
                if after != before:
                    what = one.function, original, one.text(change=(start, stop, after))
                    yield Mutant(file, *what, *written, before, after, row, seen[what])
                    seen[what] += 1


def rewritten(source: str, mutants: list[Mutant]) -> str:
    """The file with these mutants in it."""
    edits: list[tuple[int, int, str]] = []
    for (start, end, form), group in itertools.groupby(mutants, lambda one: (one.start, one.end, one.form)):
        same = list(group)
        before = same[0].before
        if form == "statement":
            indent = source[source.rindex("\n", 0, start) + 1 : start]
            chosen = "".join(f"if kr_m({one.number}): {one.after}\n{indent}el" for one in same)
            edits.append((start, end, f"{chosen}se: {before}"))
        else:
            value = "(not not ({}))" if form == "condition" else "({})"
            chosen = "".join(f"{value.format(one.after)} if kr_m({one.number}) else " for one in same)
            edits.append((start, end, f"({chosen}{value.format(before)})"))
    for start, end, code in sorted(edits, reverse=True):
        source = source[:start] + code + source[end:]
    return source + DECLARATION if mutants else source


# ---- the build -----------------------------------------------------------------------------------------------

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
    (WORK / HEADER).write_text(CODE_OF_HEADER)
    (WORK / "kr_mutants.c").write_text(LIBRARY.replace("NUMBERS", str(numbers)))
    (WORK / "reached").write_bytes(bytes(numbers))
    library = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-O1", "-o", "libkr_mutants.so", "kr_mutants.c"]
    subprocess.run(library, cwd=WORK, check=True)
    links = f"-L{WORK} -Wl,--no-as-needed -lkr_mutants -Wl,-rpath,{WORK}"
    flags = {"CFLAGS": f"-I{WORK}", "LDFLAGS": links}
    env = os.environ | {name: f"{os.environ.get(name, '')} {words}" for name, words in flags.items()}
    env["KAFKAREC_OPTIMIZE"] = "-O1"
    while True:
        for path in SOURCES:
            code = rewritten(path.read_text(encoding="utf-8"), [one for one in wanted if one.file == path.name])
            copy = WORK / path.relative_to(ROOT)
            if copy.read_text(encoding="utf-8") != code:
                copy.write_text(code, encoding="utf-8")
        setup = [sys.executable, "setup.py", "-q", "build_ext", "-i"]
        done = subprocess.run(setup, cwd=WORK, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return wanted
        # What a compiler refuses, such as the sum of two pointers, is in the lines that it names.
        refused: set[str] = set()
        for name, row in re.findall(r"(?m)^(\S+\.(?:c(?=:\d+:\d+: error)|pxd|pyx)):(\d+):", done.stdout + done.stderr):
            line = (WORK / name).read_text(encoding="utf-8").splitlines()[int(row) - 1]
            refused.update(re.findall(r"\bkr_m\((\d+)\)", line))
        left = [one for one in wanted if str(one.number) not in refused]
        if len(left) == len(wanted):
            raise SystemExit(f"mutants: the build failed\n{(done.stdout + done.stderr)[-5000:]}")
        print(f"mutants: {len(wanted) - len(left)} do not compile and are left out", flush=True)
        wanted = left


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
            for item, following in zip(self.items, [*self.items[1:], None], strict=True):
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
            self.verdicts[number] = how_it_ended(status) if status else UNNOTICED[number not in self.reaching]
            if len(self.verdicts) % 50 == 0:
                print(f"mutants: {len(self.verdicts)} of {len(self.numbers)}", flush=True)

    def order(self, number: int) -> list[int]:
        """The tests that reach a mutant, the quick ones first; of a test with many parameters one after another, not
        all before anything else."""
        spent: Counter[str] = Counter()
        turns = []
        for test in sorted(self.reaching[number], key=lambda test: self.seconds[test]):
            name = self.items[test].nodeid.partition("[")[0]
            spent[name] += self.seconds[test] + 0.002  # type: ignore[assignment]
            turns.append((spent[name], test))
        return [test for _, test in sorted(turns)]

    def one_mutant(self, number: int) -> None:
        """Never returns."""
        self.become_child(number)
        for index, following in itertools.pairwise([*self.order(number), None]):
            assert index is not None
            signal.setitimer(signal.ITIMER_REAL, SLOWER * self.seconds[index] + EXTRA_SECONDS)
            if not run(self.items[index], None if following is None else self.items[following]):
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


def run(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether the test passed or was skipped."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def how_it_ended(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return "failed"
    number = signal.Signals(os.WTERMSIG(status))
    return "took too long" if number == signal.SIGALRM else f"died by {number.name}"


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
    """`count` mutants, spread over the files by their share. A mutant's rank does not depend on its line or number."""
    spread: list[tuple[float, str, int]] = []
    for name in {mutant.file for mutant in found}:
        own = [mutant for mutant in found if mutant.file == name]
        ranked = sorted(
            (hashlib.sha256(repr((seed, one.key, one.place)).encode()).hexdigest(), one.number) for one in own
        )
        spread += [((i + 0.5) / len(ranked), *one) for i, one in enumerate(ranked)]
    numbers = {number for _, _, number in sorted(spread)[:count]}
    return [mutant for mutant in found if mutant.number in numbers]


def candidates() -> list[Mutant]:
    """Of all files, numbered."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in SOURCES}
    limits = limits_of([*texts.values()])
    found = [mutant for name, text in texts.items() for mutant in mutants_of(name, text, limits)]
    return [replace(mutant, number=n) for n, mutant in enumerate(found, 1)]


def explained(found: list[Mutant]) -> set[tuple[str, str, str, str]]:
    """Keys of the mutants that no test can detect."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]
    keys = {(e["file"], e["function"], e["original"], e["mutated"]) for e in entries if len(e["reason"]) > 20}
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
    sys.exit(main())
