"""What a second thread gives the verbs: `python benchmarks/threads_of_verbs.py [--rounds N] [--threads N]`.

Four files of `make bench`, twelve times each as one segment, read by each verb with one thread and with N, one after
the other in each round: seconds from start to end, Python's start included, the best of all rounds, and their ratio.
Only a quiet machine shows it.

    convert    to zstd, and zstd to gzip
    cat        to /dev/null as JSON Lines
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other modules here, and kafkarec as built in place

import workloads  # noqa: E402
from shared import machine  # noqa: E402

FILES = ("none", "lz4", "zstd", "gzip")
TIMES = 12
VERBS = ("verify", "salvage", "convert", "cat")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(HERE.parent)}


def make_log(source: Path, folder: Path, codec: str) -> Path:
    import kafkarec

    columns = kafkarec.decode(source.read_bytes())
    with kafkarec.SegmentWriter(folder, assign_offsets=True) as writer:
        for _ in range(TIMES):
            writer.write(columns, compression=codec)
    return folder


def command(verb: str, log: Path, output: Path) -> list[str]:
    words = [sys.executable, "-m", "kafkarec", verb, str(log)]
    if verb == "convert":
        words += ["--compression", "gzip" if log.name.startswith("zstd") else "zstd"]
    return words if verb in ("verify", "cat") else [*words, "-o", str(output)]


def seconds(words: list[str], threads: int, output: Path) -> float:
    shutil.rmtree(output, ignore_errors=True)
    start = time.perf_counter()
    subprocess.run(
        [*words, "--threads", str(threads)],
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = {path.stem: path for path in workloads.make(Path(scratch))}
        logs = [make_log(files[name], Path(scratch) / f"{name}-0", name) for name in FILES]
        print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {args.rounds} rounds")
        print(f"| verb | codec | 1 thread, s | {args.threads}, s | |\n|---|---|---:|---:|---:|")
        for verb in VERBS:
            for log in logs:
                output = Path(scratch) / "output"
                words = command(verb, log, output)
                runs = [[seconds(words, number, output) for number in (1, args.threads)] for _ in range(args.rounds)]
                one, many = map(min, zip(*runs, strict=True))
                print(f"| {verb} | {log.name[:-2]} | {one:.2f} | {many:.2f} | {one / many:.2f}x |")


if __name__ == "__main__":
    main()
