"""read_committed on a log of transactions: `python benchmarks/transactions.py [--rounds N]`.

    scan              the headers of all batches, to a table
    excluded          the pass that finds the aborted transactions and the last stable offset
    decode            all records to columns
    read_committed    both: decode(isolation="read_committed")

200,000 batches of 3 records by 20 producers: of transactions of 5 batches and a marker, and of 1 batch and a marker;
every tenth is aborted. Microseconds of processor time a batch, the least of all rounds.
"""

from __future__ import annotations

import argparse
import math
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from shared import machine  # noqa: E402

import kafkarec  # noqa: E402
from kafkarec.read.isolation import excluded  # noqa: E402

BATCHES, PRODUCERS, RECORDS, ABORTS = 200_000, 20, 3, 10
NOW = 1_700_000_000_000


def transactions(batches: int) -> Iterator[tuple[bytes, int]]:
    """(batch, its number of offsets) of interleaved transactions of so many batches, one for each producer; in ten
    rounds each producer aborts one."""
    for turn in range(ABORTS):
        for number in range(batches + 1):
            for producer in range(PRODUCERS):
                is_marker = number == batches
                builder = kafkarec.RecordBatchBuilder(
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=-1 if is_marker else 0,
                    is_transactional=True,
                    is_control=is_marker,
                )
                if is_marker:
                    builder.append_end_txn_marker(NOW, "abort" if producer % ABORTS == turn else "commit")
                else:
                    for _ in range(RECORDS):
                        builder.append(NOW, None, b"twenty bytes or more")
                yield builder.build(), 1 if is_marker else RECORDS


def log(batches: int) -> bytes:
    """The transactions again and again: the checksum does not cover the base offset."""
    once = list(transactions(batches))
    made, base = [], 0
    while len(made) < BATCHES:
        for raw, offsets in once:
            made.append(struct.pack(">q", base) + raw[8:])
            base += offsets
    return b"".join(made)


def main() -> None:
    parser = argparse.ArgumentParser(prog="transactions.py", description="read_committed compared with its parts")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{machine()}; best of {options.rounds} rounds\n")
    for batches in (5, 1):
        data = log(batches)
        runs = {
            "scan": lambda data=data: kafkarec.scan(data),
            "excluded": lambda data=data: excluded([data]),
            "decode": lambda data=data: kafkarec.decode(data),
            "read_committed": lambda data=data: kafkarec.decode(data, isolation="read_committed"),
        }
        count = len(kafkarec.scan(data))
        best = dict.fromkeys(runs, math.inf)
        for _ in range(options.rounds):
            for name, run in runs.items():
                began = time.process_time()
                made = run()
                best[name] = min(best[name], time.process_time() - began)
                del made
        print(f"{count} batches, transactions of {batches} and a marker, {len(excluded([data]).aborted)} aborted")
        for name, seconds in best.items():
            print(f"  {name:15}{seconds / count * 1e6:6.3f} us a batch")


if __name__ == "__main__":
    main()
