"""Mutation tests for Cython: small changes to its functions, one at a time; which of them do the tests detect?

usage: mutants.py FILE.pxd ... --copy NAME ... --build COMMAND --tests WORDS [options]     in the project's folder

The files named by --copy are copied to the folder --work. All mutants of one run are compiled there into one build by
the command --build, each selected by a number, and only the tests that reach a mutant are run with it: WORDS are what
pytest would be given. A mutant is a statement of a function in a .pxd or .pyx, or of the C in a `cdef extern from *`,
with a small change: a comparison's neighbour, a number one more or less, a dropped `+ 1`, an assignment left out:

    x += 1                 if kr_m(17): x -= 1
                           elif kr_m(18): pass
                           else: x += 1
    if a < b:              if ((not not (a <= b)) if kr_m(19) else (not not (a < b))):
    cdef int x = n - 1     cdef int x = ((n) if kr_m(20) else (n - 1))
    x = a + b;             x = (kr_m(21) ? (a - b) : (a + b));
    free(p);               { if (!kr_m(22)) free(p); }

The file --explained lists mutants that no test can detect, as [[mutant]] with file, function, original, mutated and
reason; these run with --only alone. Ends with status 1 below --least percent, or if that file has an entry that is not
a mutant (any more). It needs a C compiler for Linux and pytest; Python's code is not changed.
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
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

# ---- code as words -------------------------------------------------------------------------------------------

OPERATORS = r"<<=|>>=|//=|->|\+\+|--|\*\*|&&|\|\||<<|>>|//|[-+*/%&|^<>=!]=|[^\s\w]"
CYTHON = re.compile(
    r"\#[^\n]*|\\\n|(?P<word>\w{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    rf"|\d[\w.]*|\w+|\n|{OPERATORS})",
    re.DOTALL,
)
C = re.compile(
    r"/\*.*?\*/|//[^\n]*|^[ ]*\#(?:[^\n]|\\\n)*\n"  # comments and macros: left out
    rf"|(?P<word>\w+|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|{OPERATORS})",
    re.DOTALL | re.MULTILINE,
)
C_BLOCK = re.compile(r'^cdef extern from \*[^\n]*:\n    """\n(.*?)^    """$', re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"c?p?def\s.*?(\w+)\s*\(.*:$")
NO_FUNCTION = re.compile(r"cdef\s+(extern|enum|struct|packed|union)\b")
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d[\d_]*)([uUlL]*)$")
KNOWN = "0 True False "  # what may be returned in every file
KEYWORDS = {"and", "or", "not", "if", "else", "in", "is", "return"}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED = {"+": "-", "-": "+", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<"} | COMPARISONS
OF_CYTHON = SWAPPED | {"*": "//", "//": "*", "%": "//", "and": "or", "or": "and"}
OF_C = SWAPPED | {"*": "/", "/": "*", "%": "/", "&&": "||", "||": "&&"}
AUGMENTED = {f"{one}=": f"{OF_CYTHON[one]}=" for one in ("+", "-", "*", "//", "|", "&", "^", "<<", ">>")}
ASSIGNED = {"=", "/=", "%=", *AUGMENTED}
DROPPED = {"+", "-", "&", "<<", ">>"}
# operators with a higher precedence than `+`, and than `&`: `x + 1 * y`
TIGHTER = {"*", "//", "/", "%", "**", "->", ".", "(", "["}
TIGHTER_THAN_AND = TIGHTER | {"+", "-", "<<", ">>"}


class Word(NamedTuple):
    text: str
    start: int
    end: int


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
    place: int = 0  # of several equal ones in a function
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.original, self.mutated

    def __str__(self) -> str:
        return f"{self.number} {self.file}:{self.row} {self.function}: {self.original}  ->  {self.mutated}"


Change = tuple[int, int, str]  # words from, to: replaced by this text
Slot = tuple[str, int, int]  # form, words from, to: what is replaced as one


class Statement:
    """A statement of a function: its words."""

    def __init__(self, source: str, function: str, words: list[Word], is_c: bool = False) -> None:
        self.source, self.function, self.words, self.is_c = source, function, words, is_c
        self.texts = [word.text for word in words]
        self.casts: set[int] = set()
        self._find_casts()

    def text(self, start: int = 0, stop: int | None = None, change: Change | None = None) -> str:
        """Words [start, stop) on one line, changed."""
        parts = []
        stop = len(self.words) if stop is None else stop
        i = start
        while i < stop:
            gap = " " if i and self.words[i].start > self.words[i - 1].end else ""
            if gap and "\n" in self.source[self.words[i - 1].end : self.words[i].start]:
                gap = "" if self.texts[i - 1] in "([{" or self.texts[i] in ")]}" else " "
            if change and i == change[0]:
                parts.append(gap + change[2] if change[2] else "")
                i = max(i + 1, change[1])
            else:
                parts.append(gap + self.texts[i])
                i += 1
        return "".join(parts).strip().replace("( ", "(")

    def closing(self, opening: int) -> int:
        """Index of the bracket that closes the one at `opening`."""
        return next(i for i in self.outside(opening + 1, len(self.words), {")", "]", "}"}))

    def outside(self, start: int, stop: int, wanted: set[str]) -> list[int]:
        """Indices of these words outside of brackets."""
        found, depth = [], 0
        for i in range(start, stop):
            if depth == 0 and self.texts[i] in wanted:
                found.append(i)
            depth += (self.texts[i] in "([{") - (self.texts[i] in ")]}")
        return found

    def operand(self, i: int, start: int) -> bool:
        """Whether the word at `i` ends an operand, so that an operator after it takes two."""
        if i < start or i in self.casts:
            return False
        return self.texts[i] in (")", "]", "}") or (
            re.match(r"[\w\"']", self.texts[i]) is not None and self.texts[i] not in KEYWORDS
        )

    def _find_casts(self) -> None:
        """`<`, a type, `>`; in C a type in parentheses."""
        i = 0
        while i < len(self.words):
            stop = i
            if self.is_c and self.texts[i] == "(":
                stop = self.closing(i)
                inside = " ".join(self.texts[i + 1 : stop])
                if not re.fullmatch(r"(const |unsigned |struct )*(\w+_t|void|char|int|long|\w+ \*)( \*)*", inside):
                    stop = i
            elif not self.is_c and self.texts[i] == "<" and not self.operand(i - 1, 0):
                stop = self.texts.index(">", i)
            if stop > i:
                self.casts |= {*range(i, stop + 1)}
                i = stop
            i += 1

    # ---- what is changed

    def changes(self, start: int, stop: int, limits: set[str]) -> Iterator[Change]:
        """All small changes to the expression of words [start, stop)."""
        swapped = OF_C if self.is_c else OF_CYTHON
        for i in range(start, stop):
            word, before = self.texts[i], self.texts[i - 1] if i > start else ""
            following = self.texts[i + 1] if i + 1 < stop else ")"
            if i in self.casts:
                continue
            number = NUMBER.match(word)
            if number:
                if not self.is_c and (before, word, following) == ("[", "0", "]"):
                    continue  # Cython's way to write *p
                value, form = int(number[1], 0), hex if word[:2].lower() == "0x" else str
                yield i, i + 1, form(value + 1) + number[2]
                added = before in AUGMENTED or (before in DROPPED and self.operand(i - 2, start))
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
            elif word in swapped and self.operand(i - 1, start) and following not in ")],":
                yield i, i + 1, swapped[word]
                tighter = TIGHTER_THAN_AND if word == "&" else TIGHTER
                loose = i + 2 >= stop or self.texts[i + 2] not in tighter
                if word in DROPPED and loose and (NUMBER.match(following) or following in limits):
                    yield i, i + 2, ""

    def slots(self) -> Iterator[Slot]:
        yield from self._slots_of_c() if self.is_c else self._slots_of_cython()

    def _slots_of_cython(self) -> Iterator[Slot]:
        first, stop = self.texts[0], len(self.words)
        if first == "cdef":
            edges = [0, *self.outside(1, stop, {","}), stop]
            for left, right in itertools.pairwise(edges):
                yield from (("value", equals + 1, right) for equals in self.outside(left + 1, right, {"="})[:1])
        elif first in ("if", "elif", "while"):
            yield "condition", 1, stop - 1
        elif first == "for" and "range" in self.texts:
            opening = self.texts.index("range") + 1
            end = self.closing(opening)
            edges = [opening, *self.outside(opening + 1, end, {","}), end]
            yield from (("argument", left + 1, right) for left, right in itertools.pairwise(edges))
        elif self.texts[-1] != ":" and first[0] not in "\"'" and first not in ("pass", "raise", "global", "for"):
            yield "statement", 0, stop

    def _slots_of_c(self) -> Iterator[Slot]:
        first, stop = self.texts[0], len(self.words)
        if first in ("if", "while", "for"):
            ends = self.outside(2, stop - 1, {";"})
            yield "condition", *((ends[0] + 1, ends[1]) if ends else (2, stop - 1))
            return
        if first == "return":
            if stop > 1:
                yield "value", 1, stop
            return
        equals = self.outside(0, stop, ASSIGNED)
        if re.match(r"(struct )?\w+ (\* )*\w+\b(?! \()", " ".join(self.texts)) and first != "goto":  # a declaration
            equals = [] if self.outside(0, stop, {","}) else equals
        else:
            yield "left out", 0, stop
        yield from (("value", one + 1, stop) for one in equals[-1:])

    def variants(self, slot: Slot, limits: set[str], returns: dict[str, re.Pattern[str]]) -> Iterator[str]:
        """The texts that may be in a slot instead."""
        form, start, stop = slot
        first, expression = self.texts[0], start
        if form == "left out":
            yield ""
            return
        if form == "condition":
            always = ["1" if self.is_c else "True"] if first in ("if", "elif") else []
            yield from (*always, "0" if self.is_c else "False")
        elif form == "argument" and not NUMBER.match(self.texts[start]):
            yield from (f"{self.text(start, stop)} {sign} 1" for sign in "+-")
        elif form == "statement" and first == "return":
            expression, value = 1, self.text(1)
            yield from (
                f"return {one}" for one, of in returns.items() if of.fullmatch(value) and one in KNOWN + self.source
            )
        elif form == "statement":
            yield "pass"
            for i in self.outside(0, len(self.words), set(AUGMENTED)):
                yield self.text(change=(i, i + 1, AUGMENTED[self.texts[i]]))
        for change in self.changes(expression, stop, limits):
            yield self.text(start, stop, change)


# ---- files ---------------------------------------------------------------------------------------------------


def statements(source: str) -> Iterator[Statement]:
    """Those of all functions, in Cython and then in C."""
    words: list[Word] = []
    function, depth = "", 0
    for found in CYTHON.finditer(source + "\n"):
        if not found["word"]:
            continue
        if found["word"] != "\n":
            depth += (found["word"] in "([{") - (found["word"] in ")]}")
            words.append(Word(found["word"], *found.span("word")))
        elif words and not depth:
            one = Statement(source, function, words)
            if words[0].start == 0 or source[words[0].start - 1] == "\n":
                header = FUNCTION.match(one.text())
                function = header[1] if header and not NO_FUNCTION.match(one.text()) else ""
            elif function:
                yield one
            words = []
    for block in C_BLOCK.finditer(source):
        found_in = C.finditer(source, *block.span(1))
        words = [Word(found["word"], *found.span("word")) for found in found_in if found["word"]]
        yield from c_statements(Statement(source, "", words, is_c=True))


def c_statements(block: Statement) -> Iterator[Statement]:
    texts, i = block.texts, 0
    opened = 0  # of the parameters of a function
    name, end = "", 0
    while i < len(texts):
        stop = i
        if not name:
            opened = i if texts[i] == "(" else opened
            if texts[i] == "{":
                end = block.closing(i)
                name = texts[opened - 1] if texts[i - 1] == ")" else ""
                stop = i if name else end
            elif texts[i] == "(":
                stop = block.closing(i)
        elif i == end:
            name = ""
        elif texts[i] in ("if", "while", "for"):
            stop = block.closing(i + 1)
            yield Statement(block.source, name, block.words[i : stop + 1], is_c=True)
        elif texts[i] not in ("{", "}", "else", "do", ";"):
            stop = block.outside(i, end, {";"})[0]
            yield Statement(block.source, name, block.words[i:stop], is_c=True)
        i = stop + 1


def limits_of(sources: list[str]) -> set[str]:
    """Members of all anonymous `cdef enum:`s: the named limits."""
    blocks = [block for source in sources for block in re.findall(r"^cdef enum:\n((?:[ \t]+.*\n|\n)+)", source, re.M)]
    rows = [re.split("[#=]", row)[0] for block in blocks for row in block.splitlines()]
    return {name for row in rows for name in re.findall(r"\b([A-Z][A-Z0-9_]+)\b", row)}


def mutants_of(file: str, source: str, limits: set[str], returns: dict[str, re.Pattern[str]]) -> Iterator[Mutant]:
    """All candidates of a file, in order."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for one in statements(source):
        original = one.text()
        for slot in one.slots():
            form, start, stop = slot
            before, span = one.text(start, stop), (one.words[start].start, one.words[stop - 1].end)
            row = source.count("\n", 0, one.words[start if one.is_c else 0].start) + 1
            for after in dict.fromkeys(one.variants(slot, limits, returns)):
                if after == before:
                    continue
                mutated = one.text(change=(start, stop, after)) or ";"
                form_there = f"C: {form}" if one.is_c else form
                found = Mutant(file, one.function, original, mutated, form_there, *span, before, after, row)
                yield replace(found, place=seen[found.key])
                seen[found.key] += 1


WRITTEN: dict[str, Callable[[str, list[tuple[int, str]]], str]] = {
    "statement": lambda before, found: "".join(f"if kr_m({n}): {after}\nel" for n, after in found) + f"se: {before}",
    "condition": lambda before, found: (
        f"({''.join(f'(not not ({after})) if kr_m({n}) else ' for n, after in found)}(not not ({before})))"
    ),
    "value": lambda before, found: f"({''.join(f'({after}) if kr_m({n}) else ' for n, after in found)}({before}))",
}
WRITTEN["argument"] = WRITTEN["value"]


def rewritten(source: str, mutants: list[Mutant]) -> str:
    """The file with these mutants in it. Rows of C stay rows, which what stands beside them may need."""
    edits: list[tuple[int, int, str]] = []
    for (start, end, form), group in itertools.groupby(mutants, lambda one: (one.start, one.end, one.form)):
        same = list(group)
        found = [(one.number, one.after) for one in same]
        if form == "C: left out":
            edits += [(start, start, f"{{ if (!kr_m({same[0].number})) "), (end, source.index(";", end) + 1, "; }")]
        elif form.startswith("C"):
            code = "".join(f"kr_m({n}) ? ({after}) : " for n, after in found)
            edits += [(start, start, f"({code}("), (end, end, "))")]
        else:
            indent = source[source.rindex("\n", 0, start) + 1 : start] if form == "statement" else ""
            edits.append((start, end, WRITTEN[form](same[0].before, found).replace("\n", f"\n{indent}")))
    for start, end, code in sorted(edits, reverse=True):
        source = source[:start] + code + source[end:]
    if any(one.form.startswith("C") for one in mutants):
        source = C_BLOCK.sub(lambda found: found[0].replace('"""\n', f'"""\n    #include "{HEADER}"\n', 1), source)
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


def build(options: argparse.Namespace, sources: dict[Path, str], wanted: list[Mutant], numbers: int) -> list[Mutant]:
    """Compiles; returns the mutants that are in the build."""
    work: Path = options.work
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in options.copy:
        if Path(name).is_dir():
            shutil.copytree(name, work / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "_*.c"))
        else:
            shutil.copy2(name, work / name)
    (work / HEADER).write_text(CODE_OF_HEADER)
    (work / "kr_mutants.c").write_text(LIBRARY.replace("NUMBERS", str(numbers)))
    (work / "reached").write_bytes(bytes(numbers))
    library = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-O1", "-o", "libkr_mutants.so", "kr_mutants.c"]
    subprocess.run(library, cwd=work, check=True)
    links = f"-L{work} -Wl,--no-as-needed -lkr_mutants -Wl,-rpath,{work}"
    for name, words in {"CFLAGS": f"-I{work}", "LDFLAGS": links}.items():
        os.environ[name] = f"{os.environ.get(name, '')} {words}"
    while True:
        for path, source in sources.items():
            code = rewritten(source, [one for one in wanted if one.file == path.name])
            if (work / path).read_text(encoding="utf-8") != code:
                (work / path).write_text(code, encoding="utf-8")
        done = subprocess.run(options.build, shell=True, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return wanted
        refused = refused_by_compilers(done.stdout + done.stderr, work)
        left = [one for one in wanted if one.number not in refused]
        if len(left) == len(wanted):
            raise SystemExit(f"mutants: the build failed\n{(done.stdout + done.stderr)[-5000:]}")
        print(f"mutants: {len(wanted) - len(left)} do not compile and are left out", flush=True)
        wanted = left


def refused_by_compilers(log: str, work: Path) -> set[int]:
    """Mutants in lines that Cython or the C compiler refuses: two pointers added up, for one."""
    refused: set[int] = set()
    for name, row in re.findall(r"(?m)^(\S+\.(?:c(?=:\d+:\d+: error)|pxd|pyx)):(\d+):", log):
        code = (work / name).read_text(encoding="utf-8").splitlines()[int(row) - 1]
        refused.update(map(int, re.findall(r"\bkr_m\((\d+)\)", code)))
    return refused


# ---- the run -------------------------------------------------------------------------------------------------

FAILED, PASSED = 1, 0
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

    def __init__(self, work: Path, numbers: list[int], side_by_side: int) -> None:
        self.numbers, self.side_by_side = numbers, side_by_side
        library = ctypes.CDLL(str(work / "libkr_mutants.so"), mode=ctypes.RTLD_GLOBAL)
        self.now = ctypes.c_int.in_dll(library, "kr_mutant_now")
        with open(work / "reached", "r+b") as file:
            self.reached = mmap.mmap(file.fileno(), 0)
        self.verdicts: dict[int, str] = {}
        self.at_import: set[int] = set()
        self.seconds: list[float] = []
        self.reaching: dict[int, list[int]] = {}
        self.noticed_by: Counter[int] = Counter()  # how many mutants a test has noticed

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
            os._exit(PASSED)
        if status := os.waitpid(pid, 0)[1]:
            raise pytest.UsageError(f"the run without a mutant ended with status {status}")
        for index, (seconds, reached, passed) in enumerate(pickle.loads(answer.read_bytes())):
            if not passed:
                raise pytest.UsageError(f"without any mutant this fails: {self.items[index].nodeid}")
            self.seconds.append(seconds)
            for number in reached:
                self.reaching.setdefault(number, []).append(index)

    def all_mutants(self) -> None:
        waiting = list(reversed(self.numbers))
        running: dict[int, tuple[int, int, list[int]]] = {}
        while waiting or running:
            while waiting and len(running) < self.side_by_side:
                number = waiting.pop()
                order = self.order(number)
                read_end, write_end = os.pipe()
                pid = os.fork()
                if pid == 0:
                    self.child(number, order, write_end)
                os.close(write_end)
                running[pid] = number, read_end, order
            pid, status = os.wait()
            if pid not in running:
                continue
            number, read_end, order = running.pop(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # processes that it has started and that still run
            begun = len(os.read(read_end, 65536))
            os.close(read_end)
            self.verdicts[number] = how_it_ended(status) if status != PASSED else UNNOTICED[not order]
            if status != PASSED:
                self.noticed_by[order[max(begun - 1, 0)]] += 1
            if len(self.verdicts) % 50 == 0:
                print(f"mutants: {len(self.verdicts)} of {len(self.numbers)}", flush=True)

    def order(self, number: int) -> list[int]:
        """The tests that reach a mutant: the quick ones first, and those that have noticed many; of a test with many
        parameters one after another, not all before anything else."""
        spent: Counter[str] = Counter()
        turns = []
        for turn, test in sorted((self.turn(test), test) for test in self.reaching.get(number, [])):
            name = self.items[test].nodeid.partition("[")[0]
            spent[name] += turn  # type: ignore[assignment]
            turns.append((spent[name], test))
        return [test for _, test in sorted(turns)]

    def turn(self, test: int) -> float:
        return (self.seconds[test] + 0.002) / (1 + 2 * self.noticed_by[test])

    def child(self, number: int, order: list[int], progress: int) -> None:
        """Never returns. Writes one byte to `progress` for every test that begins."""
        self.become_child(number)
        for index, following in itertools.pairwise([*order, None]):
            assert index is not None
            os.write(progress, b".")
            signal.setitimer(signal.ITIMER_REAL, SLOWER * self.seconds[index] + EXTRA_SECONDS)
            if not run(self.items[index], None if following is None else self.items[following]):
                os._exit(FAILED)
        os._exit(PASSED)

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
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "took too long" if number == signal.SIGALRM else f"died by {signal.Signals(number).name}"
    return "failed"


def verdicts_of(options: argparse.Namespace, numbers: list[int]) -> dict[int, str]:
    """Runs the tests in the folder of the build."""
    os.chdir(options.work)
    path = os.pathsep.join(filter(None, (str(options.work), os.environ.get("PYTHONPATH"))))
    os.environ.update(MUTANTS_REACHED=str(options.work / "reached"), PYTHONPATH=path)
    sys.path.insert(0, str(options.work))
    words = [*shlex.split(options.tests), "-q", "-p", "no:cacheprovider"]
    runner = Runner(options.work, numbers, options.jobs)
    if pytest.main([*words, "-s", "-p", "no:faulthandler", "--basetemp=tmp"], plugins=[runner]) not in (0, 5):
        raise SystemExit("mutants: the run of the tests failed")
    for number in runner.at_import:
        if runner.verdicts[number] in UNNOTICED:
            # code that ran when the modules were imported ran without the mutant: repeated in a separate process
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
        ranks = {one.number: hashlib.sha256(repr((seed, one.key, one.place)).encode()).hexdigest() for one in own}
        ranked = sorted(own, key=lambda one: ranks[one.number])
        spread += [((i + 0.5) / len(ranked), ranks[one.number], one.number) for i, one in enumerate(ranked)]
    numbers = {number for _, _, number in sorted(spread)[:count]}
    return [mutant for mutant in found if mutant.number in numbers]


def explained(file: Path | None, found: list[Mutant]) -> set[tuple[str, str, str, str]]:
    """Keys of the mutants that no test can detect."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["mutant"] if file else []
    keys = {(e["file"], e["function"], e["original"], e["mutated"]) for e in entries if len(e["reason"]) > 20}
    strays = keys - {mutant.key for mutant in found}
    if strays or len(keys) != len(entries):
        listed = "\n".join(map(str, sorted(strays)))
        raise SystemExit(f"mutants: entries of {file} without a mutant, a reason or twice:\n{listed}")
    return keys


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants.py", description="which small changes do the tests detect?")
    parser.add_argument("files", type=Path, nargs="+", help="the .pxd and .pyx files that are changed")
    parser.add_argument("--copy", nargs="+", required=True, help="what the build and the tests need, files and folders")
    parser.add_argument("--build", required=True, help="the command that compiles the copy in place")
    parser.add_argument("--tests", required=True, help="the arguments of pytest that choose the tests")
    parser.add_argument("--work", type=Path, default=Path(".work/mutants"), help="the folder of the copy")
    parser.add_argument("--explained", type=Path, help="the mutants that no test can detect")
    parser.add_argument("--returns", nargs="*", default=[], metavar="VALUE=REGEX", help="what is returned instead")
    parser.add_argument("--seed", type=int, default=1, help="selects among the candidates (default 1)")
    parser.add_argument("--count", type=int, default=400, help="number of mutants (default 400)")
    parser.add_argument("--all", action="store_true", help="all of them, which takes hours")
    parser.add_argument("--file", help="mutants of one file only, such as record.pxd")
    parser.add_argument("--only", help="only these numbers: 17,18")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and end")
    parser.add_argument("--least", type=float, default=95.0, help="lowest accepted score (default 95)")
    parser.add_argument("--jobs", type=int, default=2, help="number of mutants at the same time (default 2)")
    options = parser.parse_args()
    options.work = options.work.resolve()
    if Path.cwd().is_relative_to(options.work):
        parser.error(f"--work {options.work} has the project itself, and is removed first")
    options.files = [path.resolve().relative_to(Path.cwd()) for path in options.files]  # of the copy, not the project's
    return options


def main() -> int:
    options, started = arguments(), time.monotonic()
    sources = {path: path.read_text(encoding="utf-8") for path in options.files}
    limits = limits_of([*sources.values()])
    pairs = [("True", "False"), ("False", "True"), *(each.split("=", 1) for each in options.returns)]
    returns = {value: re.compile(pattern) for value, pattern in pairs}
    found = [each for path, source in sources.items() for each in mutants_of(path.name, source, limits, returns)]
    found = [replace(mutant, number=n) for n, mutant in enumerate(found, 1)]
    known = explained(options.explained, found)
    eligible = [mutant for mutant in found if options.file in (None, mutant.file)]
    picked = chosen(eligible, len(eligible) if options.all else options.count, options.seed)
    if options.only:
        picked = [found[int(number) - 1] for number in options.only.split(",")]
    if options.list:
        print("\n".join(map(str, picked)))
        return 0
    wanted = [mutant for mutant in picked if options.only or mutant.key not in known]
    left = f", {len(picked) - len(wanted)} of them explained and left out" if len(wanted) < len(picked) else ""
    print(f"mutants: {len(picked)} of {len(found)} candidates, seed {options.seed}{left}", flush=True)
    inside = build(options, sources, wanted, len(found) + 1)
    print(f"mutants: built in {time.monotonic() - started:.0f} s", flush=True)
    verdicts = verdicts_of(options, [mutant.number for mutant in inside])
    survivors = [mutant for mutant in inside if verdicts[mutant.number] in UNNOTICED]
    print("\n".join(f"{verdicts[mutant.number]:9} {mutant}" for mutant in survivors))
    score = 100 * (1 - len(survivors) / max(len(inside), 1))
    print(f"mutants: {', '.join(f'{n} {verdict}' for verdict, n in sorted(Counter(verdicts.values()).items()))}")
    print(f"mutants: {len(inside) - len(survivors)} of {len(inside)} noticed ({score:.1f} %)")
    print(f"mutants: {(time.monotonic() - started) / 60:.1f} minutes")
    return int(score < options.least)


if __name__ == "__main__":
    sys.exit(main())
