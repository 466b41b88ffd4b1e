"""What the benchmarks share: the machine, their figures and options. With it the checkout's kafkarec is imported."""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Times = dict[str, dict[str, float]]  # contestant -> file -> best seconds
Run = Callable[[], object]
Name = TypeVar("Name")


def least(
    runs: Mapping[Name, Run], rounds: int, clock: Callable[[], float] = time.process_time, fill: float = 0
) -> dict[Name, float]:
    """Seconds of one call of each, the least of all rounds. In each round all run in turn, each for at least `fill`
    seconds; what the last call returns is released when the clock has stopped."""
    best = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            calls = range(max(1, int(fill / max(best[name], 1e-9))))
            began = clock()
            for _ in calls:
                made = run()
            best[name] = min(best[name], (clock() - began) / len(calls))
            del made
    return best


def rounds_asked(doc: str | None, default: int) -> int:
    """The option --rounds of a program that has no other."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=default)
    rounds: int = parser.parse_args().rounds
    return rounds


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def machine() -> str:
    """Processor, number of cores, operating system and Python version."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}"
