"""`decode(layout="view")` compared with `layout="copy"`: `python benchmarks/view.py [--rounds N]`.

Uncompressed records of one size of value, by size of value and of input: microseconds of a call, the least of all
rounds, and their ratio. Both layouts are read in turn, with and without CRCs. The results are released at once.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other modules here, and kafkarec as built in place

from shared import machine  # noqa: E402

import kafkarec  # noqa: E402

# Bytes of a value, and of all.
INPUTS = (
    (8, 1 << 20),
    (100, 1 << 20),
    (1000, 1 << 20),
    (1000, 32 << 20),
    (10_000, 1 << 20),
)
LARGE = 8  # an input of more than 4 MiB is read in every eighth round


def batches(size: int, total: int) -> bytes:
    """Records with a key and a value of `size` random bytes, in batches of 64 KiB."""
    chance = random.Random(size)
    rows = [(n, n, b"key-%d" % n, chance.randbytes(size), ()) for n in range(total // (size + 20))]
    return kafkarec.encode(rows, batch_size=1 << 16)


def seconds(data: bytes, layout: str, check_crcs: bool) -> float:
    start = time.perf_counter()
    columns = kafkarec.decode(data, layout=layout, check_crcs=check_crcs)
    took = time.perf_counter() - start
    del columns
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    inputs = {(size, total): batches(size, total) for size, total in INPUTS}
    best: dict[tuple[tuple[int, int], str, bool], float] = {}
    gc.disable()
    for number in range(rounds):
        for key, data in inputs.items():
            if len(data) > 4 << 20 and number % LARGE:
                continue
            for check_crcs in (True, False):
                for layout in ("copy", "view"):
                    took = seconds(data, layout, check_crcs)
                    at = key, layout, check_crcs
                    best[at] = min(best.get(at, took), took)
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {rounds} rounds")
    print("| value | input | CRC | copy | view | copy / view |\n|---:|---:|---|---:|---:|---:|")
    for size, total in inputs:
        for check_crcs in (True, False):
            copied, viewed = (best[(size, total), layout, check_crcs] * 1e6 for layout in ("copy", "view"))
            checked = "yes" if check_crcs else "no"
            print(f"| {size} B | {total >> 20} MiB | {checked} | {copied:.0f} | {viewed:.0f} | {copied / viewed:.2f} |")


if __name__ == "__main__":
    main()
