"""`make mutants`: small changes to the C core, one at a time; how many of them the core tests detect.

usage: mutants.py [--seed N] [--count N | --all] [--file record.pxd] [--only 17,18] [--show 17] [--list]

All mutants of one run are compiled into one build (see mutants_rewrite.py) in .work/mutants; mutants_run.py runs the
tests that reach each. tests/mutants_explained.toml lists the mutants that no test can detect, with reasons; these run
with --only alone. Ends with status 1 below 95 percent, or if that file has an entry that is not a mutant (any more).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import mutants_c
from mutants_rewrite import Mutant, limits_of, mutants_of, rewritten

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".work" / "mutants"
EXPLAINED = ROOT / "tests" / "mutants_explained.toml"
COPIED = ("kafkarec", "tests", "docs", "tools", "setup.py", "pyproject.toml", "README.md", "CHANGELOG.md")
WANTED = 95.0
UNNOTICED = ("survived", "unreached")
MutantLines = dict[str, list[tuple[int, list[int]]]]  # file -> (line of the rewritten one, which mutants are in it)
HEADER = """#pragma once
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
#include <unistd.h>

static unsigned char unshared[NUMBERS];
int kr_mutant_now = 0;
unsigned char *kr_mutant_reached = unshared;

/* One global for the extension modules of a process, one file for all processes. */
__attribute__((constructor)) static void kr_mutants_begin(void) {
    const char *now = getenv("KAFKAREC_MUTANT"), *path = getenv("KAFKAREC_REACHED");
    int file = path != NULL ? open(path, O_RDWR) : -1;
    void *shared = file >= 0 ? mmap(NULL, NUMBERS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (shared != MAP_FAILED) kr_mutant_reached = shared;
    if (now != NULL) kr_mutant_now = atoi(now);
}
"""
DECLARATION = 'cdef extern from "kr_mutants.h" nogil:\n    bint kr_m(int n)\n'


def sources() -> dict[str, str]:
    """File of `_c` -> text."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "kafkarec" / "_c").glob("*.pxd"))}


def candidates(texts: dict[str, str]) -> list[Mutant]:
    """All mutants, numbered from 1 in the order of files and lines."""
    limits = limits_of(list(texts.values()))
    found = [
        mutant
        for name, text in texts.items()
        for mutant in mutants_of(name, text, limits) + mutants_c.mutants_of(name, text)
    ]
    return [Mutant(m.file, m.function, m.line, m.original, m.mutated, m.place, i) for i, m in enumerate(found, 1)]


def chosen(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` mutants, spread over the files by their share. A mutant's rank does not depend on its line or number."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(repr((seed, mutant.key, mutant.place)).encode()).hexdigest()

    spread: list[tuple[float, str, Mutant]] = []
    for name in {mutant.file for mutant in found}:
        ranked = sorted((rank(mutant), mutant.number, mutant) for mutant in found if mutant.file == name)
        spread += [((i + 0.5) / len(ranked), text, mutant) for i, (text, _, mutant) in enumerate(ranked)]
    spread.sort(key=lambda entry: entry[:2])
    return sorted((mutant for _, _, mutant in spread[:count]), key=lambda mutant: mutant.number)


# ---- the build


def copy_project() -> None:
    """Copies files that differ; others are not touched, so that little is compiled again."""
    kept = shutil.ignore_patterns("__pycache__", "*.so", "_*.c", "*.pxd")
    for name in COPIED:
        source, target = ROOT / name, BUILD / name
        if source.is_dir():
            if name != "kafkarec":
                shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=kept, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    for source in [*(ROOT / "kafkarec" / "_entry").glob("*.pxd"), ROOT / "kafkarec" / "_core.pxd"]:
        written(BUILD / source.relative_to(ROOT), source.read_text(encoding="utf-8"))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    quick = setup.replace('"-O3"', '"-O1"')
    assert quick != setup, "setup.py names another optimisation"
    written(BUILD / "setup.py", quick)


def written(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_mutants(texts: dict[str, str], found: list[Mutant], wanted: set[int]) -> MutantLines:
    """Writes the rewritten files; returns which mutants are in which of their lines."""
    limits = limits_of(list(texts.values()))
    places = {}
    for name, text in texts.items():
        own = [mutant.number for mutant in found if mutant.file == name]
        split = len(mutants_of(name, text, limits))  # those of its C come last
        of_c = {i: number for i, number in enumerate(own[split:]) if number in wanted}
        others = {i: number for i, number in enumerate(own[:split]) if number in wanted}
        code, places[name] = mutants_c.rewritten(text, of_c), []
        if others:
            code, places[name] = rewritten(code, limits, others)
        written(BUILD / "kafkarec" / "_c" / name, code)
    written(BUILD / "kafkarec" / "_c" / "mutants.pxd", DECLARATION)
    return places


def refused_by_compilers(log: str, places: MutantLines) -> set[int]:
    """Mutants in lines that Cython or the C compiler refuses: two pointers added up, for one."""
    refused: set[int] = set()
    for name, row in re.findall(r"^(kafkarec/_\w+\.c):(\d+):\d+: error: ", log, re.MULTILINE):
        code = (BUILD / name).read_text(encoding="utf-8").splitlines()[int(row) - 1]
        refused.update(int(number) for number in re.findall(r"\bkr_m\((\d+)\)", code))
    for name, row in re.findall(r"^kafkarec/_c/(\w+\.pxd):(\d+):\d+: ", log, re.MULTILINE):
        for line, numbers in places[name]:
            if line == int(row):
                refused.update(numbers)
    return refused


def build(texts: dict[str, str], found: list[Mutant], wanted: set[int]) -> set[int]:
    """Compiles; returns the mutants that are in the build."""
    copy_project()
    numbers = len(found) + 1
    written(BUILD / "kr_mutants.h", HEADER)
    written(BUILD / "kr_mutants.c", LIBRARY.replace("NUMBERS", str(numbers)))
    (BUILD / "reached").write_bytes(bytes(numbers))
    tell = {"cwd": BUILD, "capture_output": True, "text": True, "check": False}
    compiler = os.environ.get("CC", "gcc")
    done = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", "libkr_mutants.so", "kr_mutants.c"], **tell)
    assert done.returncode == 0, done.stderr
    env = dict(
        os.environ,
        CFLAGS=f"{os.environ.get('CFLAGS', '')} -I{BUILD}",
        LDFLAGS=f"{os.environ.get('LDFLAGS', '')} -L{BUILD} -Wl,--no-as-needed -lkr_mutants -Wl,-rpath,{BUILD}",
    )
    while True:
        places = write_mutants(texts, found, wanted)
        done = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "-i", "-j2"], env=env, **tell)
        log = done.stdout + done.stderr
        if done.returncode == 0:
            return wanted
        refused = refused_by_compilers(log, places) & wanted
        if not refused:
            raise SystemExit(f"mutants: the build failed\n{log[-5000:]}")
        print(f"mutants: {len(refused)} do not compile and are left out", flush=True)
        wanted = wanted - refused


# ---- the run


def run(wanted: list[int], side_by_side: int) -> list[dict[str, object]]:
    """The result of each mutant: see mutants_run.py."""
    tests = [
        str(path.relative_to(BUILD))
        for path in sorted((BUILD / "tests").rglob("test_*.py"))
        if re.search(r"^(pytestmark = \[?|@)pytest\.mark\.core\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    results = BUILD / "results.jsonl"
    job = {
        "library": str(BUILD / "libkr_mutants.so"),
        "reached": str(BUILD / "reached"),
        "numbers": wanted,
        "tests": tests,
        "side_by_side": side_by_side,
        "results": str(results),
    }
    (BUILD / "job.json").write_text(json.dumps(job), encoding="utf-8")
    env = dict(os.environ, PYTHONPATH=str(BUILD), KAFKAREC_CORE="1", KAFKAREC_REACHED=str(BUILD / "reached"))
    env.pop("KAFKAREC_MUTANT", None)
    done = subprocess.run([sys.executable, "tools/mutants_run.py", "job.json"], cwd=BUILD, env=env, check=False)
    shutil.rmtree(BUILD / "tmp", ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit("mutants: the run of the tests failed")
    answers = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    for answer in answers:
        if answer["verdict"] in UNNOTICED and answer["at_import"]:
            # code that ran when the modules were imported ran without the mutant: repeated in a separate process
            alone = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "core", "-p", "no:cacheprovider", *tests]
            one = subprocess.run(
                alone, cwd=BUILD, env=env | {"KAFKAREC_MUTANT": str(answer["number"])}, capture_output=True, check=False
            )
            answer["verdict"] = "failed" if one.returncode else "survived"
    return answers


def explained(found: list[Mutant]) -> set[tuple[str, str, str, str]]:
    """Keys of the mutants that tests/mutants_explained.toml explains."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("mutant", [])
    keys = {(e["file"], e["function"], e["original"], e["mutated"]) for e in entries if len(e["reason"]) > 20}
    strays = keys - {mutant.key for mutant in found}
    if strays or len(keys) != len(entries):
        listed = "\n".join(map(str, sorted(strays)))
        raise SystemExit(f"mutants: entries of {EXPLAINED.name} without a mutant, a reason or twice:\n{listed}")
    return keys


def report(found: list[Mutant], answers: list[dict[str, object]]) -> float:
    """Prints the survivors and the score; returns the score in percent."""
    by_number = {mutant.number: mutant for mutant in found}
    survivors = [
        f"{answer['verdict']:9} {by_number[answer['number']]}"
        for answer in sorted(answers, key=lambda answer: answer["number"])
        if answer["verdict"] in UNNOTICED
    ]
    print("\n".join(survivors))
    score = 100 * (1 - len(survivors) / max(len(answers), 1))
    verdicts = Counter(str(answer["verdict"]) for answer in answers)
    print(f"mutants: {', '.join(f'{n} {verdict}' for verdict, n in sorted(verdicts.items()))}")
    print(f"mutants: {len(answers) - len(survivors)} of {len(answers)} noticed ({score:.1f} %)")
    (BUILD / "survivors.txt").write_text("".join(line + "\n" for line in survivors), encoding="utf-8")
    return score


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants.py", description="which small changes to _c do the tests detect?")
    parser.add_argument("--seed", type=int, default=1, help="selects among the candidates (default 1)")
    parser.add_argument("--count", type=int, default=400, help="number of mutants (default 400)")
    parser.add_argument("--all", action="store_true", help="all of them, which takes hours")
    parser.add_argument("--file", help="mutants of one file only, such as record.pxd")
    parser.add_argument("--only", help="only these numbers: 17,18")
    parser.add_argument("--show", type=int, help="print one mutant and end")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and end")
    parser.add_argument("--least", type=float, default=WANTED, help=f"lowest accepted score (default {WANTED})")
    parser.add_argument("--jobs", type=int, default=2, help="number of mutants at the same time (default 2)")
    options = parser.parse_args()
    started = time.monotonic()
    texts = sources()
    found = candidates(texts)
    known = explained(found)
    if options.show:
        print(found[options.show - 1])
        return 0
    eligible = [mutant for mutant in found if options.file in (None, mutant.file)]
    picked = chosen(eligible, len(eligible) if options.all else options.count, options.seed)
    if options.only:
        picked = [found[int(number) - 1] for number in options.only.split(",")]
    if options.list:
        print("\n".join(map(str, picked)))
        return 0
    wanted = {mutant.number for mutant in picked if options.only or mutant.key not in known}
    left = f", {len(picked) - len(wanted)} of them explained and left out" if len(wanted) < len(picked) else ""
    print(f"mutants: {len(picked)} of {len(found)} candidates, seed {options.seed}{left}", flush=True)
    inside = build(texts, found, wanted)
    print(f"mutants: built in {time.monotonic() - started:.0f} s", flush=True)
    score = report(found, run(sorted(inside), options.jobs))
    print(f"mutants: {(time.monotonic() - started) / 60:.1f} minutes")
    return int(score < options.least)


if __name__ == "__main__":
    sys.exit(main())
