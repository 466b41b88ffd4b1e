"""Processor time of starting: `import kafkarec`, the first `decode`, the command line; milliseconds above bare Python.

usage: startup.py [--rounds N]

The floor of `kafkarec.decode` is the import of `inspect`, which every module that Cython compiles for the stable ABI
imports, and of `ctypes`, with which the checksum's library is found. In each round every program starts once; the
figure is the lower quartile of all rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE = "bare Python"
SEGMENT = str(ROOT / "tests" / "vectors" / "segments" / "txn-0")
PROGRAMS = {
    BARE: ["-c", "pass"],
    "import kafkarec": ["-c", "import kafkarec"],
    "floor: import inspect, ctypes": ["-c", "import inspect, ctypes"],
    "import kafkarec; kafkarec.decode": ["-c", "import kafkarec; kafkarec.decode"],
    "kafkarec --help": ["-m", "kafkarec", "--help"],
    "kafkarec ls of a partition": ["-m", "kafkarec", "ls", SEGMENT],
}


def took(arguments: list[str], compiled: str) -> float:
    """Milliseconds of the processor, of a new interpreter. compiled: a folder for compiled sources."""
    nothing = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = os.posix_spawn(sys.executable, [sys.executable, *arguments], environment, file_actions=[nothing])
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{arguments}: status {status}")
    return (used.ru_utime + used.ru_stime) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="what starting takes")
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as compiled:
        for number in range(rounds + 1):
            for name, arguments in PROGRAMS.items():
                milliseconds = took(arguments, compiled)
                if number > 0:  # the first round compiles the sources
                    times[name].append(milliseconds)
    quartile = {name: sorted(measured)[rounds // 4] for name, measured in times.items()}
    for name, milliseconds in quartile.items():
        print(f"{name:34} {milliseconds - quartile[BARE]:6.1f}" if name != BARE else f"{name:34} {milliseconds:6.1f}")


if __name__ == "__main__":
    main()
