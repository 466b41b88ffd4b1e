"""Magic 3 and its header-first form: `python benchmarks/experimental.py [--rounds N]`.

For records of a real broker and made ones, with each codec: the size in magic 2, and the others as parts of it; then
what the validation of all offsets takes: bytes decompressed, and microseconds of processor time a batch (the best of
all rounds, one thread). In magic 2 that is `decode` of the column `offset`, in C with everything decompressed, as one
frame header-first is, too; of two frames it is `offsets`, in C. Both check the CRC.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import workloads
from shared import ROOT, Run, least, machine, rounds_asked

import kafkarec
from kafkarec import codecs
from kafkarec.experimental import header_first, v3

REAL = ROOT / "examples" / "data" / "all-codecs-0"
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


def row(name: str, codec: str, plain: bytes, rounds: int) -> str:
    v2 = kafkarec.convert(plain, compression=codec)
    one, two = (header_first.from_v2(v2, frames=frames) for frames in (1, 2))
    for data in (v3.to_v2(v3.from_v2(v2)), header_first.to_v2(one), header_first.to_v2(two)):
        assert kafkarec.decode(data).tuples() == kafkarec.decode(v2).tuples()
    batches = len(kafkarec.scan(v2))
    sizes = [len(v3.from_v2(v2)), len(one), len(two)]
    runs: list[Run] = [partial(kafkarec.decode, v2, columns=["offset"]), partial(header_first.offsets, two)]
    times = least(dict(enumerate(runs)), rounds).values()
    cells = [name, codec, f"{len(v2):,}", *(f"{100 * size / len(v2):.1f} %" for size in sizes)]
    whole = len(plain) - 61 * batches
    cells += [f"{whole:,}", f"{100 * header_first.offsets(two).decompressed_bytes / whole:.1f} %"]
    cells += [f"{1e6 * seconds / batches:.0f}" for seconds in times]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    rounds = rounds_asked(__doc__, 20)
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {rounds} rounds")
    titles = ["records", "codec", "magic 2, B", "v3", "header-first, 1 frame", "2 frames", "payloads, B"]
    titles += ["decompressed, 2 frames", "validation: magic 2, us", "2 frames"]
    print(f"| {' | '.join(titles)} |\n|---|---|{'---:|' * (len(titles) - 2)}")
    for name, plain in inputs():
        for codec in codecs.BY_NAME:
            print(row(name, codec, plain, rounds), flush=True)


if __name__ == "__main__":
    main()
