"""`make bench`: decodes the workloads with kafkarec and its peers in turn, and writes RESULTS.md, two rows of README.md
and the picture of both.

usage: run.py [--rounds N] [--only WORKLOAD ...]

In each round every contestant decodes every workload in turn, for at least SLICE seconds, so that a slow moment of the
machine affects all of them; the figure is the fastest pass of all rounds. kafka-python takes part in SLOW_ROUNDS.
Kafka's classes take part where a JDK and the jars of tools/kafka_jars are.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# the other modules here, kafkarec as built in place, the tests' oracle
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "tests" / "support")]

import contestants  # noqa: E402
import encode  # noqa: E402
import jvm_oracle  # noqa: E402
import workloads  # noqa: E402
from contestants import BOUND, CALLS, FIELD, JAVA, OURS, PEERS, SLOW  # noqa: E402
from shared import Times, geometric_mean, machine  # noqa: E402
from workloads import AXES, BY_NAME, WORKLOADS, Workload  # noqa: E402

SLICE, SLOW_ROUNDS = 0.02, 3
CALLED = {f"{size} B": AXES["Bytes per value"][size] for size in ("100", "1000", "10,000")}
CALLED["100 B, zstd"] = BY_NAME["zstd"]
CALLED["100 B, a batch each"] = AXES["Records per batch"]["1"]
QUOTED = (OURS, *PEERS)

Decoder = contestants.Contestant | contestants.Java


def measure(works: list[Workload], field: dict[str, Decoder], rounds: int) -> Times:
    """Contestant -> workload -> nanoseconds per record. All decoders must return the records of the workload. Those of
    CALLS take part in the workloads of CALLED."""
    best: Times = {name: {} for name in (*field, *CALLS)}
    with tempfile.TemporaryDirectory() as folder:
        inputs = {}
        for work in works:
            path = Path(folder) / work.name
            path.write_bytes(workloads.build(work))
            inputs[work] = contestants.Input(path, path.read_bytes())
        for number in range(rounds):
            for work, given in inputs.items():
                for name, contestant in (field | (CALLS if work in CALLED.values() else {})).items():
                    if name == SLOW and number % math.ceil(rounds / SLOW_ROUNDS):
                        continue
                    seconds, count = contestant.best(given, SLICE)
                    records = work.batches * work.records
                    if count not in (records, 0):
                        raise SystemExit(f"{work.name}: {name} reads {count} records of {records}")
                    took = seconds / records * 1e9
                    best[name][work.name] = min(took, best[name].get(work.name, math.inf))
            print(f"bench: round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
    return {name: times for name, times in best.items() if times}


# ---- tables ------------------------------------------------------------------------------------------------


def figure(number: float) -> str:
    return f"{number:.1f}" if number < 100 else f"{number:.0f}"


def beside(number: float, reference: float) -> str:
    return f"{figure(number)} ({figure(number / reference)}x)"


def table(head: list[str], rows: dict[str, list[str]]) -> list[str]:
    return list(encode.table(head, rows))


def seven(best: Times) -> list[str]:
    """The seven workloads: a row for each contestant, and what kafkarec is compared with each peer."""
    names = list(BY_NAME)
    present = [name for name in (BOUND, *QUOTED) if name in best]
    ratios = {peer: [best[peer][name] / best[OURS][name] for name in names] for peer in PEERS if peer in best}
    return [
        *table(names, {name: [figure(best[name][column]) for column in names] for name in present}),
        "",
        "kafkarec decodes so many times faster than:",
        "",
        *table(
            [*names, "geometric mean"],
            {peer: [f"{ratio:.1f}x" for ratio in (*found, geometric_mean(found))] for peer, found in ratios.items()},
        ),
    ]


def axis(best: Times, rows: dict[str, Workload]) -> list[str]:
    """A row for each workload. In brackets: times what kafkarec takes."""
    present = [name for name in (BOUND, *PEERS) if name in best]
    cells = {}
    for label, work in rows.items():
        ours = best[OURS][work.name]
        cells[label] = [figure(ours), *(beside(best[name][work.name], ours) for name in present)]
    return table([OURS, *present], cells)


def calls(best: Times) -> list[str]:
    """A row for each way to call it, and for each peer."""
    columns = [work.name for work in CALLED.values()]
    names = [name for name in (OURS, *CALLS, *PEERS) if name in best]
    return table(
        list(CALLED),
        {name: [beside(best[name][column], best[OURS][column]) for column in columns] for name in names},
    )


def versions(java: bool) -> str:
    packages = ("aiokafka", "kafka-python", "crc32c", "lz4", "zstandard", "cramjam", "isal", "pyarrow")
    found = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    if java:
        said = subprocess.run([str(jvm_oracle.tool("java")), "-version"], capture_output=True, text=True, check=True)
        found[:0] = [f"Kafka {jvm_oracle.version()} on {said.stderr.splitlines()[0]}"]
    return ", ".join(found)


def report(best: Times, rounds: int, loads: list[float]) -> list[str]:
    import kafkarec

    lines = [
        "# Results",
        "",
        "Written by `make bench`; what is measured: [README.md](README.md). Nanoseconds of the processor per record,",
        "one thread, where nothing else is said. In brackets: times what kafkarec takes.",
        "",
        f"* {datetime.now(UTC):%Y-%m-%d}, {machine()}",
        f"* kafkarec {kafkarec.__version__}; {versions(JAVA in best)}",
        f"* best of {rounds} rounds of at least {SLICE * 1000:.0f} ms, kafka-python {SLOW_ROUNDS}; "
        f"load of the machine at the beginning {loads[0]:.1f}, at the end {loads[1]:.1f}",
        "",
        "## The seven workloads",
        "",
        *seven(best),
    ]
    for title, rows in AXES.items():
        lines += ["", f"## {title}", "", *axis(best, rows)]
    lines += ["", "## How it is called", "", *calls(best)]
    return lines


def refresh_readme(results: str) -> None:
    """README.md quotes rows of the first table; a test compares them."""
    fresh = {name: found[0] for name in QUOTED if (found := re.findall(rf"^\| {name} \| .*$", results, re.MULTILINE))}
    readme = ROOT / "README.md"
    lines = readme.read_text().split("\n")
    lines = [fresh.get(line.split(" | ")[0].removeprefix("| "), line) for line in lines]
    readme.write_text("\n".join(lines))


def others() -> Iterator[str]:
    """The first line of each other script here: what it measures, and its command."""
    for path in sorted(HERE.glob("*.py")):
        text = path.read_text()
        if path.name not in ("run.py", "encode.py", "instructions.py") and "__main__" in text:
            said = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
            yield f"  benchmarks/{path.name:22} {said}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="kafkarec compared with its peers")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", nargs="*", help="only these workloads; no file is written")
    options = parser.parse_args()

    works = list(dict.fromkeys([*WORKLOADS, *(work for rows in AXES.values() for work in rows.values())]))
    if options.only:
        works = [work for work in works if work.name in options.only]
    field: dict[str, Decoder] = dict(FIELD)
    lacking = jvm_oracle.missing()
    if lacking:
        print(f"bench: without Kafka's classes: {lacking}")
    else:
        field[JAVA] = contestants.Java()
    loads = [os.getloadavg()[0]]
    best = measure(works, field, options.rounds)
    loads.append(os.getloadavg()[0])
    if options.only:
        head = [work.name for work in works]
        rows = {name: [figure(times[each]) if each in times else "" for each in head] for name, times in best.items()}
        print("\n".join(table(head, rows)))
        return 0
    lines = report(best, options.rounds, loads)
    lines += ["", *encode.section(encode.measure(workloads.make(ROOT / ".work" / "bench"), SLOW_ROUNDS * 3))]
    text = "\n".join(lines) + "\n"
    (HERE / "RESULTS.md").write_text(text)
    refresh_readme(text)
    print(text, "measured by their own commands:", *others(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
