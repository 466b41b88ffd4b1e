"""Two threads compared with two processes: `python benchmarks/threads.py [--rounds N] [folder]`.

    one           decode(data)
    threads=2     decode(data, threads=2)
    two callers   two Python threads, each decodes one half of the file
    processes     two processes, each decodes one half: what the two cores can do

The files are the seven of `workloads.py`, or every `*.log` of a folder. Milliseconds a file, the least of all rounds;
in each round every contestant decodes each file in turn, as often as fills SLICE. The results are released at once.
`threads=2 / processes` is the throughput of the former by that of the latter. The load of the machine is printed:
beside other work the rounds must be many.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import workloads
from shared import geometric_mean, machine

import kafkarec

SLICE = 0.003  # seconds that a contestant runs in a round, at least one call
CONTESTANTS = ("one", "threads=2", "two callers", "processes")
Run = Callable[[int, int], None]
"""Decodes the file of a number so many times."""


def halves(data: bytes) -> tuple[bytes, bytes]:
    """Cut at the batch border that is next to the middle."""
    middle = min((row["position"] for row in kafkarec.scan(data)), key=lambda at: abs(2 * at - len(data)))
    return data[:middle], data[middle:]


def repeat(data: bytes, calls: int, threads: int = 1) -> None:
    for _ in range(calls):
        kafkarec.decode(data, threads=threads)


def serve(inputs: list[bytes], pipe: Connection) -> None:
    """A process: decodes the input of a number so many times, and answers, until it gets None."""
    for number, calls in iter(pipe.recv, None):
        repeat(inputs[number], calls)
        pipe.send(None)


def callers(parts: list[tuple[bytes, bytes]]) -> Run:
    def run(number: int, calls: int) -> None:
        first, second = parts[number]
        other = threading.Thread(target=repeat, args=(second, calls))
        other.start()
        repeat(first, calls)
        other.join()

    return run


def processes(parts: list[tuple[bytes, bytes]]) -> tuple[Run, Callable[[], None]]:
    """The contestant, and what ends its processes. Forked: no thread has been started yet."""
    context = multiprocessing.get_context("fork")
    pipes, workers = [], []
    for half in (0, 1):
        ours, theirs = context.Pipe()
        worker = context.Process(target=serve, args=([part[half] for part in parts], theirs), daemon=True)
        worker.start()
        pipes.append(ours)
        workers.append(worker)

    def run(number: int, calls: int) -> None:
        for pipe in pipes:
            pipe.send((number, calls))
        for pipe in pipes:
            pipe.recv()

    def end() -> None:
        for pipe, worker in zip(pipes, workers, strict=True):
            pipe.send(None)
            worker.join()

    return run, end


def measure(paths: list[Path], rounds: int) -> dict[str, dict[str, float]]:
    """File -> contestant -> least milliseconds a call."""
    inputs = [path.read_bytes() for path in paths]
    parts = [halves(data) for data in inputs]
    by_processes, end = processes(parts)
    runs: dict[str, Run] = {
        "one": lambda number, calls: repeat(inputs[number], calls),
        "threads=2": lambda number, calls: repeat(inputs[number], calls, 2),
        "two callers": callers(parts),
        "processes": by_processes,
    }
    best = {path.stem: dict.fromkeys(CONTESTANTS, math.inf) for path in paths}
    for turn in range(rounds + 1):
        for number, path in enumerate(paths):
            times = best[path.stem]
            calls = 1 if turn == 0 else max(1, int(SLICE / times["one"] * 1e3))
            for name, run in runs.items():
                began = time.perf_counter()
                run(number, calls)
                times[name] = min(times[name], (time.perf_counter() - began) / calls * 1e3)
    end()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(prog="threads.py", description="two threads compared with two processes")
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of *.log files (default: the seven workloads)")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder
        if folder is None:
            folder = Path(made)
            for workload in workloads.WORKLOADS:
                (folder / f"{workload.name}.log").write_bytes(workloads.build(workload))
        best = measure(sorted(folder.glob("*.log")), options.rounds)
    print(f"{machine()}; best of {options.rounds} rounds, load at the end {os.getloadavg()[0]:.1f}\n")
    ratios = {"one / threads=2": ("one", "threads=2"), "threads=2 / processes": ("processes", "threads=2")}
    print("| ms | " + " | ".join([*CONTESTANTS, *ratios]) + " |")
    print("|---|" + "---:|" * (len(CONTESTANTS) + len(ratios)))
    found = {file: [times[a] / times[b] for a, b in ratios.values()] for file, times in best.items()}
    for file, times in best.items():
        cells = [f"{times[name]:.2f}" for name in CONTESTANTS] + [f"{ratio:.2f}" for ratio in found[file]]
        print(f"| {file} | " + " | ".join(cells) + " |")
    means = [geometric_mean(list(column)) for column in zip(*found.values(), strict=True)]
    print("| geometric mean |" + " |" * len(CONTESTANTS) + "".join(f" {mean:.2f} |" for mean in means))


if __name__ == "__main__":
    main()
