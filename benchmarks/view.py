"""`decode(layout="view")` compared with `layout="copy"`: `python benchmarks/view.py [--rounds N]`.

Uncompressed records of one size of value, by size of value and of input: microseconds of a call, the least of all
rounds, and their ratio. Both layouts are read in turn, with and without CRCs. The results are released at once.
"""

from __future__ import annotations

import gc
import os
import random
import time
from functools import partial

from shared import least, machine, rounds_asked

import kafkarec

# Bytes of a value, and of all.
INPUTS = (
    (8, 1 << 20),
    (100, 1 << 20),
    (1000, 1 << 20),
    (1000, 32 << 20),
    (10_000, 1 << 20),
)
LARGE = 8  # an input of more than 4 MiB is read in an eighth of the rounds


def batches(size: int, total: int) -> bytes:
    """Records with a key and a value of `size` random bytes, in batches of 64 KiB."""
    chance = random.Random(size)
    rows = [(n, n, b"key-%d" % n, chance.randbytes(size), ()) for n in range(total // (size + 20))]
    return kafkarec.encode(rows, batch_size=1 << 16)


def main() -> None:
    rounds = rounds_asked(__doc__, 400)
    gc.disable()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {rounds} rounds")
    print("| value | input | CRC | copy | view | copy / view |\n|---:|---:|---|---:|---:|---:|")
    for size, total in INPUTS:
        decode = partial(kafkarec.decode, batches(size, total))
        runs = {
            (layout, crcs): partial(decode, layout=layout, check_crcs=crcs)
            for crcs in (True, False)
            for layout in ("copy", "view")
        }
        best = least(runs, rounds // LARGE if total > 4 << 20 else rounds, time.perf_counter)
        for crcs in (True, False):
            copied, viewed = (best[layout, crcs] * 1e6 for layout in ("copy", "view"))
            checked = "yes" if crcs else "no"
            print(f"| {size} B | {total >> 20} MiB | {checked} | {copied:.0f} | {viewed:.0f} | {copied / viewed:.2f} |")


if __name__ == "__main__":
    main()
