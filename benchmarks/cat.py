"""`kafkarec cat` to JSON Lines and CSV: `python benchmarks/cat.py [--rounds N] [--folder DIR]`.

Four files of `make bench`, printed to /dev/null by one thread: MB of output and thousands of records in a second of
processor time, the best of all rounds. The verb runs in this process, so the start of Python is not in it. `--folder`:
where the files are, or are made; default: a temporary one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import workloads
from shared import machine

from kafkarec.cli import app

FILES = ("none", "none_h3", "none_small", "lz4")
OPTIONS = (("JSON", ()), ("CSV", ("--format", "csv")), ("JSON, values in base64", ("--value-as", "base64")))


def seconds(path: Path, options: tuple[str, ...], output: Path) -> float:
    start = time.process_time()
    assert app.main(["cat", str(path), "-o", str(output), "--force", *options]) == 0
    return time.process_time() - start


def row(path: Path, options: tuple[str, ...], rounds: int, scratch: Path) -> str:
    printed = scratch / "printed"
    seconds(path, options, printed)
    size = printed.stat().st_size
    with printed.open("rb") as lines:
        records = sum(1 for _ in lines) - ("csv" in options)
    best = min(seconds(path, options, Path(os.devnull)) for _ in range(rounds))
    return f"{size / best / 1e6:.0f} | {records / best / 1e3:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = {path.stem: path for path in workloads.make(args.folder or Path(scratch))}
        print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {args.rounds} rounds")
        print("| file | output | MB/s | 1000 records/s |\n|---|---|---:|---:|")
        for name in FILES:
            path = Path(scratch) / name / f"{0:020}.log"
            path.parent.mkdir()
            path.symlink_to(files[name].resolve())
            for title, options in OPTIONS:
                print(f"| {name} | {title} | {row(path, options, args.rounds, Path(scratch))} |")


if __name__ == "__main__":
    main()
