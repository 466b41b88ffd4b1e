"""Small reads, compared with aiokafka: `python benchmarks/small_reads.py [--rounds N]`.

    decode, scan, batches    the call alone; of `batches` the first batch
    fields, fields of batches   offset, timestamp, key, value and headers of each record as a tuple, read from Records
    tuples                   the same by `RecordColumns.tuples`
    aiokafka, its call       the same by MemoryRecords, CRC checked; its call: no record is looked at

Microseconds for a buffer with one uncompressed batch, the least of all rounds; in each round every contestant runs in
turn. In brackets: how many times faster than aiokafka with the same records. `--json` prints the microseconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from shared import Run, machine
from small_writes import ONE_BATCH, PEER, WORKLOADS, cell, microseconds, rows

COUNTS = (1, 100, 1000)
CALLS = ("decode", "scan", "batches")
READS = ("fields", "fields of batches", "tuples")


def fields(records: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in records]


def contestants(data: bytes) -> dict[str, Run]:
    """name -> what is timed."""
    from aiokafka.record.memory_records import MemoryRecords

    import kafkarec

    def peer(*, looked_at: bool) -> list[Any]:
        records, found = MemoryRecords(data), []
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            found += fields(batch) if looked_at else []
        return found

    def batches() -> list[Any]:
        found: list[Any] = []
        for batch in kafkarec.batches(data):
            found += fields(batch)
        return found

    runs: dict[str, Run] = {
        "decode": lambda: kafkarec.decode(data),
        "scan": lambda: kafkarec.scan(data),
        "batches": lambda: next(kafkarec.batches(data)),
        "fields": lambda: fields(kafkarec.decode(data)),
        "fields of batches": batches,
        "tuples": lambda: kafkarec.decode(data).tuples(),
        PEER: lambda: peer(looked_at=True),
        "its call": lambda: peer(looked_at=False),
    }
    wanted = [(*row[:4], tuple(row[4])) for row in peer(looked_at=True)]
    for name in READS:
        found: Any = runs[name]()
        if [(*row[:4], tuple(row[4])) for row in found] != wanted:
            raise SystemExit(f"{name} does not return the records")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(prog="small_reads.py", description="small reads compared with aiokafka")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print JSON with microseconds instead of a table")
    options = parser.parse_args()
    import kafkarec

    found: dict[str, dict[str, float]] = {}
    for count in COUNTS:
        for name, work in WORKLOADS.items():
            data = kafkarec.encode(rows(count, **work), batch_size=ONE_BATCH)
            found[f"{count:,} x {name}"] = microseconds(contestants(data), options.rounds)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{machine()}; best of {options.rounds} rounds\n")
    print("| records, value | " + " | ".join((*CALLS, "its call", *READS, PEER)) + " |")
    print("|---|" + "---:|" * (len(CALLS) + len(READS) + 2))
    for name, times in found.items():
        calls = [f"{times[one]:.2f}" for one in (*CALLS, "its call")]
        print(f"| {name} | " + " | ".join((*calls, *(cell(times, one) for one in (*READS, PEER)))) + " |")


if __name__ == "__main__":
    main()
