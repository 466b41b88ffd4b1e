"""How time and peak memory grow with the input: `python benchmarks/growth.py [--rounds N] [--only DIMENSION ...]`.

Inputs that differ in one dimension by factors of 4 (threads: 2), each read by each operation in a new process: the
least processor time of the rounds and the peak memory, less those of a run on one record. Fails where a log-log slope
over the upper half of the sizes is above STEEPEST, memory is above its limit (LIMITS), or an exit status is neither 0
nor 1.
Without --only it writes GROWTH.md and its picture. Takes some 10 minutes and 0.4 GB in the temporary folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from growth_inputs import Facts
from shared import ROOT, machine

STEEPEST = 1.1
LEAST = 0.5, 8.0  # seconds, MiB: less counts as this, because start-up differs by as much on a busy machine
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


class Run(NamedTuple):
    processor: float  # seconds
    memory: float  # MiB
    elapsed: float  # seconds


CALL = "import sys, kafkarec; log = kafkarec.open(sys.argv[1]); threads = int(sys.argv[2]); "
VERB, THREADS = ["-m", "kafkarec"], ["--threads", "THREADS"]
COMMANDS = {
    "decode": ["-c", f"{CALL} log.read(errors='skip', threads=threads)", "PATH", "THREADS"],
    "stream": ["-c", f"{CALL} [None for _ in log.stream(errors='skip', threads=threads)]", "PATH", "THREADS"],
    "verify": [*VERB, "verify", "PATH", *THREADS],
    "salvage": [*VERB, "salvage", "PATH", "-o", "OUT", *THREADS],
    "cat": [*VERB, "cat", "PATH", "--errors", "skip", *THREADS],
    "convert": [*VERB, "convert", "PATH", "-o", "OUT/", "--compression", "zstd", "--errors", "skip", *THREADS],
}
COMMANDS["cat, read_committed"] = [*COMMANDS["cat"], "--isolation", "read_committed"]
ALL = ("decode", "stream", "verify", "salvage", "cat", "convert")
OF_TRANSACTIONS = ("verify", "salvage", "cat, read_committed")

LARGE = (1000, 4000, 16_000, 64_000, 256_000)
DIMENSIONS = {  # of growth_inputs.MAKERS: sizes, operations
    "records per batch": (LARGE, ALL),
    "batches per segment": (LARGE, ALL),
    "segments per partition": ((4, 16, 64, 256, 1024), ALL),
    "partitions per folder": ((4, 16, 64, 256), ("verify", "salvage", "cat", "convert")),
    "threads": ((1, 2, 4, 8), ALL),
    "damaged places per segment": ((32, 128, 512, 2048, 8192), ALL),
    "transactions": ((64, 256, 1024, 4096, 16_384), OF_TRANSACTIONS),
    "damaged markers": ((16, 64, 256, 1024, 4096), OF_TRANSACTIONS),
}


class Limit(NamedTuple):
    """Of memory: MiB, times all payloads, times the largest one, KiB for each of Facts.items, MiB for each further
    thread; in words what is held; what takes the time."""

    fixed: float
    payload: float
    largest: float
    item: float
    thread: float
    holds: str
    does: str

    def mib(self, facts: Facts, threads: int) -> float:
        sized = self.payload * facts.payload + self.largest * facts.largest + self.item * 1024 * facts.items
        return self.fixed + sized / 2**20 + self.thread * (threads - 1)

    def figures(self) -> str:
        parts = [f"{self.fixed:g} MiB", f"{self.payload:g} x payloads", f"{self.largest:g} x largest payload"]
        parts += [f"{self.item:g} KiB an item", f"{self.thread:g} MiB a further thread"]
        return ", ".join(part for part in parts if not part.startswith("0 "))


LIMITS = {
    "decode": Limit(
        *(24, 3, 0, 0, 4),
        "the columns of the whole input, and the largest batch decompressed",
        "checksums, decompression, copies of keys and values; after damage a search",
    ),
    "stream": Limit(
        *(24, 0, 10, 0, 8),
        "the columns of a chunk (1 MiB of payload, or one batch) and of the one before; pieces read ahead by threads",
        "as decode, and each chunk's columns, which end at damage too",
    ),
    "verify": Limit(
        *(24, 0, 5, 8, 8),
        "a chunk's payloads; a finding of each damaged place, open transaction and file, until the report is written",
        "checksums, decompression, comparison of batches; after damage a search; 500 checksums for a damaged marker",
    ),
    "salvage": Limit(
        *(32, 0, 6, 12, 8),
        "headers of 4096 batches; a line of the plan for each stretch of batches, damaged place and transaction",
        "as verify, twice: planned, then read back; fsync of each new file",
    ),
    "cat": Limit(
        *(32, 0, 10, 0, 8),
        "a chunk's columns and its text",
        "as stream, and the text of keys and values",
    ),
    "convert": Limit(
        *(32, 0, 8, 12, 8),
        "a batch decompressed, and the new one; two tasks (256 KiB of batches, or one) ahead for each thread",
        "compression: 40 us for a batch of one record",
    ),
    "cat, read_committed": Limit(
        *(32, 0, 10, 8, 8),
        "as cat; each transaction of the log",
        "as cat, and the headers and markers before",
    ),
}


def run(operation: str, path: Path, out: Path, threads: int = 1) -> Run:
    shutil.rmtree(out, ignore_errors=True)
    words = {"PATH": str(path), "OUT": str(out), "OUT/": f"{out}/", "THREADS": str(threads)}
    command = [sys.executable, *(words.get(word, word) for word in COMMANDS[operation])]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: status {process.returncode}")
    return Run(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.perf_counter() - began)


def least(runs: Iterable[Run]) -> Run:
    return Run(*map(min, zip(*runs, strict=True)))


# ---- the tables


def make(dimension: str, size: int, folder: Path) -> Facts:
    command = [sys.executable, str(ROOT / "benchmarks" / "growth_inputs.py"), dimension, str(size), str(folder)]
    return Facts(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def slope(sizes: Sequence[int], values: Sequence[float], floor: float) -> float:
    upper = slice((len(sizes) - 1) // 2, None)
    return linear_regression([*map(math.log, sizes[upper])], [math.log(max(one, floor)) for one in values[upper]]).slope


def measure(place: Path, dimension: str, rounds: int, base: dict[str, Run]) -> Iterator[tuple[str, list[str]]]:
    """Yields the lines of a table, each with what is too steep or too high."""
    sizes, operations = DIMENSIONS[dimension]
    of_threads = dimension == "threads"
    counts = sizes if of_threads else [1] * len(sizes)
    found: dict[str, list[Run]] = {name: [] for name in operations}
    facts = []
    for size, threads in zip(sizes, counts, strict=True):
        facts.append(make(dimension, size, place / "made"))
        path = place / "made" / ("" if dimension.startswith("partitions") else "t-0")
        for name in operations:
            taken = least(run(name, path, place / "out", threads) for _ in range(rounds))
            found[name].append(Run(*(max(a - b, 0) for a, b in zip(taken, base[name], strict=True))))
        shutil.rmtree(place / "made")
    head = [dimension, *(f"{size:,}" for size in sizes), "slope of time", "of memory", "limit, MiB"]
    yield f"| {' | '.join(head + ['elapsed, s'] * of_threads)} |", []
    yield "|---" + "|---:" * (len(head) - 1 + of_threads) + "|", []
    for name, runs in found.items():
        slopes = [slope(sizes, [one[at] for one in runs], LEAST[at]) for at in (0, 1)]
        limits = [LIMITS[name].mib(*each) for each in zip(facts, counts, strict=True)]
        steep = [
            f"slope of {kind} {one:.2f}" for kind, one in zip(("time", "memory"), slopes, strict=True) if one > STEEPEST
        ]
        high = [
            f"{one.memory:.0f} MiB, limit {most:.0f}"
            for one, most in zip(runs, limits, strict=True)
            if one.memory > most
        ]
        cells = [f"{one.processor:.2f} s, {one.memory:.0f} MiB" for one in runs]
        cells += [*(f"{one:.1f}" for one in slopes), f"{limits[-1]:.0f}"]
        cells += ["; ".join(f"{one.elapsed:.1f}" for one in runs)] * of_threads
        yield f"| {' | '.join([name, *cells])} |", [f"{name}, {dimension}: {one}" for one in steep + high]


def report(lines: list[str], rounds: int) -> None:
    import kafkarec

    said = [
        "# Growth",
        "",
        "Written by `python benchmarks/growth.py`; what is measured: [README.md](README.md). Processor time and peak",
        "memory above those of a run on one record, their log-log slopes over the upper half of the sizes, the limit",
        "of memory at the largest size.",
        "",
        f"* {datetime.now(UTC):%Y-%m-%d}, {machine()}; kafkarec {kafkarec.__version__}",
        f"* `python benchmarks/growth.py --rounds {rounds}`, the least of them; load of the machine at the end "
        f"{os.getloadavg()[0]:.1f}",
        f"* in slopes less than {LEAST[0]} s counts as so much, and so does less than {LEAST[1]:g} MiB",
    ]
    bounds = ["", "## What bounds each", "", "| | memory | in figures | time |", "|---|---|---|---|"]
    bounds += [f"| {name} | {one.holds} | {one.figures()} | {one.does} |" for name, one in LIMITS.items()]
    (ROOT / "benchmarks" / "GROWTH.md").write_text("\n".join([*said, *lines, *bounds]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="growth.py", description="how time and memory grow with the input")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=DIMENSIONS, metavar="DIMENSION", help="only these; writes no file")
    options = parser.parse_args()
    wrong, lines = [], []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        make("batches per segment", 1, place / "one")
        base = {name: least(run(name, place / "one" / "t-0", place / "out") for _ in range(5)) for name in COMMANDS}
        for dimension in options.only or DIMENSIONS:
            lines.append("")
            for line, bad in measure(place, dimension, options.rounds, base):
                print(line, flush=True)
                lines.append(line)
                wrong += bad
    print("\n".join(wrong) or f"no slope above {STEEPEST}, no memory above its limit")
    if not options.only:
        report(lines, options.rounds)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
