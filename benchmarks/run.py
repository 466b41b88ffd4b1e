"""`make bench`: decodes the seven workloads with kafkarec and its peers in turn, and writes RESULTS.md.

usage: run.py [--rounds N] [--slow] [--only NAME ...]

--slow adds kafka-python (minutes). Each round runs every contestant once on every file, so that a slow moment
of the machine affects all of them; the figure is the best round.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]  # the other modules here, and kafkarec as built in place

import contestants  # noqa: E402
import encode  # noqa: E402
import workloads  # noqa: E402
from shared import Times, geometric_mean, machine  # noqa: E402

REFERENCE = "aiokafka"


def measure(names: dict[str, contestants.Contestant], files: list[Path], rounds: int) -> Times:
    """Best seconds of `rounds` rounds; every decoder must return as many records as every other."""
    best: Times = {name: {} for name in names}
    for path in files:
        data = path.read_bytes()
        counts: dict[str, int] = {}
        for _ in range(rounds):
            for name, run in names.items():
                began = time.perf_counter()
                counts[name] = run(data)
                seconds = time.perf_counter() - began
                best[name][path.stem] = min(seconds, best[name].get(path.stem, math.inf))
        read = {name: count for name, count in counts.items() if count}
        if len(set(read.values())) > 1:
            raise SystemExit(f"{path}: they do not agree on the number of records: {read}")
        print(f"  {path.parent.name}/{path.stem}: {max(read.values(), default=0)} records", flush=True)
    return best


def table(best: Times, columns: list[str], reference: str | None = None) -> list[str]:
    """Seconds, or with `reference` how many times faster than that contestant."""
    head = [*columns, "geometric mean"] if reference else columns
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for name, times in best.items():
        if reference and (name not in contestants.OURS or name == "kafkarec scan"):
            continue
        if reference:
            ratios = [best[reference][column] / times[column] for column in columns]
            cells = [f"{ratio:.1f}x" for ratio in [*ratios, geometric_mean(ratios)]]
        else:
            cells = [f"{times[column] * 1000:.2f}" for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def versions() -> str:
    packages = ("aiokafka", "kafka-python", "crc32c", "lz4", "zstandard", "cramjam", "isal", "pyarrow")
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def report(results: dict[str, Times], rounds: int) -> str:
    import kafkarec

    columns = [work.name for work in workloads.WORKLOADS]
    out = [
        "# Results",
        "",
        "Written by `make bench`; what is measured: [README.md](README.md).",
        "",
        f"* {datetime.now(UTC):%Y-%m-%d}, {machine()}",
        f"* kafkarec {kafkarec.__version__}; {versions()}",
        f"* best of {rounds} rounds, one process; load of the machine at the end {os.getloadavg()[0]:.1f}",
    ]
    for kind, best in results.items():
        out += ["", f"## Payloads framed as by a {kind} producer, milliseconds a file", ""]
        out += table(best, columns)
        if REFERENCE in best:
            out += ["", f"Times faster than {REFERENCE}:", "", *table(best, columns, REFERENCE)]
    return "\n".join(out) + "\n"


def refresh_readme(best: Times) -> None:
    """README.md quotes two rows of the first table; a test compares them."""
    columns = [work.name for work in workloads.WORKLOADS]
    fresh = {line.split("|")[1].strip(): line for line in table(best, columns)[2:]}
    readme = ROOT / "README.md"
    lines = readme.read_text().split("\n")
    for number, line in enumerate(lines):
        if line.startswith(("| kafkarec | ", f"| {REFERENCE} | ")):
            lines[number] = fresh[line.split("|")[1].strip()]
    readme.write_text("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="kafkarec compared with its peers")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slow", action="store_true", help="kafka-python too")
    parser.add_argument("--only", nargs="*", help="only these contestants; RESULTS.md is not written")
    options = parser.parse_args()

    every = contestants.BOUNDS | contestants.OURS | contestants.PEERS | contestants.SLOW_PEERS
    names = every if options.slow else {k: v for k, v in every.items() if k not in contestants.SLOW_PEERS}
    if options.only:
        names = {name: every[name] for name in options.only}

    results: dict[str, Times] = {}
    for kind in ("client", "java"):
        print(f"bench: payloads framed as by a {kind} producer", flush=True)
        files = workloads.make(ROOT / ".work" / "bench", kind)
        results[kind] = measure(names, files, options.rounds)
    text = report(results, options.rounds)
    if not options.only:
        lines = encode.section(encode.measure(workloads.make(ROOT / ".work" / "bench"), options.rounds))
        text += "\n" + "\n".join(lines) + "\n"
        (HERE / "RESULTS.md").write_text(text)
        refresh_readme(results["client"])
    print()
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
