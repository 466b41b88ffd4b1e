"""`convert` to other batches, compared with what its parts take alone: `python benchmarks/convert.py [--rounds N]`.

    convert     uncompressed batches of 16 KiB to zstd batches of 1 MiB
    split       the same without a codec
    compress    the payloads of the result compressed by `kafkarec.codecs.compress`, nothing else
    decode      the input's records to columns

Each for 200,000 records of 19 and of 100 bytes in their batch, with values of 8 different letters. Milliseconds of
processor time, the least of all rounds, and megabytes of the input in a second.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from shared import machine  # noqa: E402

import kafkarec  # noqa: E402
from kafkarec import codecs  # noqa: E402

RECORDS = 200_000
FIELDS = 8  # bytes of a record without its value; from 64 on, its two lengths take one more each
HEADER = 61
TO, ZSTD = 1 << 20, 4


def log(size: int) -> bytes:
    """Batches of records of `size` bytes each."""
    chosen, length = random.Random(1), size - FIELDS - 2 * (size > 64)
    values = (bytes(chosen.choices(b"abcdefgh", k=length)) for _ in range(RECORDS))
    rows = [(offset, 1_700_000_000_000 + offset // 10, None, value, ()) for offset, value in enumerate(values)]
    return kafkarec.encode(rows, batch_size=1 << 14)


def contestants(data: bytes) -> dict[str, Callable[[], object]]:
    plain = bytes(kafkarec.convert(data, compression="none", batch_size=TO))
    payloads = [plain[row["position"] + HEADER :][: row["size_in_bytes"] - HEADER] for row in kafkarec.scan(plain)]
    return {
        "convert": lambda: kafkarec.convert(data, compression="zstd", batch_size=TO),
        "split": lambda: kafkarec.convert(data, compression="none", batch_size=TO),
        "compress": lambda: [codecs.compress(ZSTD, payload, None, 2) for payload in payloads],
        "decode": lambda: kafkarec.decode(data),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="convert.py", description="convert compared with its parts")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{machine()}; best of {options.rounds} rounds\n")
    for size in (19, 100):
        data = log(size)
        runs = contestants(data)
        best = dict.fromkeys(runs, math.inf)
        for _ in range(options.rounds):
            for name, run in runs.items():
                began = time.process_time()
                made = run()
                best[name] = min(best[name], time.process_time() - began)
                del made
        print(f"records of {size} bytes, {len(data) / 1e6:.1f} MB")
        for name, seconds in best.items():
            print(f"  {name:9}{seconds * 1e3:8.1f} ms {len(data) / 1e6 / seconds:8.0f} MB/s")


if __name__ == "__main__":
    main()
