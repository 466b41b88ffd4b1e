"""Magic 3 and its header-first form: `python benchmarks/experimental.py [--rounds N]`.

For records of a real broker and made ones, with each codec: the size in magic 2, and the others as parts of it; then
what the validation of all offsets takes: bytes decompressed, and microseconds of processor time a batch (the best of
all rounds, one thread). In magic 2 that is `decode` of the column `offset`, in C with everything decompressed, as one
frame header-first is, too; of two frames it is `offsets`, in C. Both check the CRC.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other modules here, and kafkarec as built in place

import workloads  # noqa: E402
from shared import machine  # noqa: E402

import kafkarec  # noqa: E402
from kafkarec import codecs  # noqa: E402
from kafkarec.experimental import header_first, v3  # noqa: E402

REAL = HERE.parent / "examples" / "data" / "all-codecs-0"
MADE = {
    "JSON, 100 B, 100 a batch": workloads.MIDDLE._replace(name="experimental_100", batches=200),
    "JSON, 100 B, 4000 a batch": workloads.MIDDLE._replace(name="experimental_4000", batches=10, records=4000),
    "JSON, 1 kB, 1000 a batch": workloads.MIDDLE._replace(
        name="experimental_1000", batches=10, records=1000, value_bytes=1000
    ),
    "random, 1 kB, 1000 a batch": workloads.MIDDLE._replace(
        name="experimental_random", batches=10, records=1000, value_bytes=1000, random=True
    ),
}


def inputs() -> Iterator[tuple[str, bytes]]:
    """Uncompressed batches of magic 2."""
    log = b"".join(path.read_bytes() for path in sorted(REAL.glob("*.log")))
    yield (
        "of a broker (examples/data/all-codecs-0), 16 kB batches",
        kafkarec.encode(kafkarec.decode(log).tuples(), batch_size=16384),
    )
    for name, work in MADE.items():
        yield name, workloads.build(work)


def best(run: Callable[[], object], rounds: int) -> float:
    """Seconds of processor time."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def row(name: str, codec: str, plain: bytes, rounds: int) -> str:
    v2 = kafkarec.convert(plain, compression=codec)
    one, two = (header_first.from_v2(v2, frames=frames) for frames in (1, 2))
    for data in (v3.to_v2(v3.from_v2(v2)), header_first.to_v2(one), header_first.to_v2(two)):
        assert kafkarec.decode(data).tuples() == kafkarec.decode(v2).tuples()
    batches = len(kafkarec.scan(v2))
    sizes = [len(v3.from_v2(v2)), len(one), len(two)]
    times = [
        best(lambda: kafkarec.decode(v2, columns=["offset"]), rounds),
        best(lambda: header_first.offsets(two), rounds),
    ]
    cells = [name, codec, f"{len(v2):,}", *(f"{100 * size / len(v2):.1f} %" for size in sizes)]
    whole = len(plain) - 61 * batches
    cells += [f"{whole:,}", f"{100 * header_first.offsets(two).decompressed_bytes / whole:.1f} %"]
    cells += [f"{1e6 * seconds / batches:.0f}" for seconds in times]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {args.rounds} rounds")
    titles = ["records", "codec", "magic 2, B", "v3", "header-first, 1 frame", "2 frames", "payloads, B"]
    titles += ["decompressed, 2 frames", "validation: magic 2, us", "2 frames"]
    print(f"| {' | '.join(titles)} |\n|---|---|{'---:|' * (len(titles) - 2)}")
    for name, plain in inputs():
        for codec in codecs.BY_NAME:
            print(row(name, codec, plain, args.rounds), flush=True)


if __name__ == "__main__":
    main()
