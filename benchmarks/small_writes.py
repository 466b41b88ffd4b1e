"""Small writes, compared with aiokafka's builder: `python benchmarks/small_writes.py [--rounds N]`.

    tuples, dicts, Records    one `encode` of a list, in one batch
    builder                   RecordBatchBuilder: created, `append` for each record, built
    aiokafka                  DefaultRecordBatchBuilder: created, `append` for each tuple, built
    writer                    SegmentWriter: `append` of a batch, `write` of a list of tuples; without aiokafka

Microseconds a call, the least of all rounds; in each round every contestant runs in turn, on the same records. In
brackets: how many times faster than aiokafka. `--json` prints the microseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from shared import Run, least, machine

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]

COUNTS = (1, 100, 10_000)
NAMES = ("offset", "timestamp", "key", "value", "headers")
OURS = ("tuples", "dicts", "Records", "builder")
WRITES = ("append", "write")
PEER = "aiokafka"
START = 1_700_000_000_000  # ms
ONE_BATCH = 2**31 - 1
SLICE = 0.004  # seconds that a contestant runs in a round


def rows(count: int, size: int, *, keyed: bool, headers: int) -> list[Row]:
    """`count` records with values of `size` bytes."""
    pairs = [(f"header{n}", b"content of it"[: 8 + n]) for n in range(headers)]
    key = b"key-%08d"
    value = (b"0123456789" * (size // 10 + 1))[:size]
    return [(n, START + n, key % n if keyed else None, value, list(pairs)) for n in range(count)]


WORKLOADS: dict[str, dict[str, Any]] = {
    "10 B": {"size": 10, "keyed": True, "headers": 0},
    "10 B, no key": {"size": 10, "keyed": False, "headers": 0},
    "10 B, 2 headers": {"size": 10, "keyed": True, "headers": 2},
    "100 B": {"size": 100, "keyed": True, "headers": 0},
    "100 B, 2 headers": {"size": 100, "keyed": True, "headers": 2},
    "1 KB": {"size": 1000, "keyed": True, "headers": 0},
    "1 KB, 2 headers": {"size": 1000, "keyed": True, "headers": 2},
}


def contestants(tuples: list[Row]) -> dict[str, Run]:
    """name -> what is timed. Each must write the records in one batch."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    import kafkarec

    dicts = [dict(zip(NAMES, row, strict=True)) for row in tuples]
    records = list(kafkarec.decode(kafkarec.encode(tuples, batch_size=ONE_BATCH)))

    def encode(given: list[Any]) -> Run:
        return lambda: kafkarec.encode(given, batch_size=ONE_BATCH)

    def builder() -> bytes:
        batch = kafkarec.RecordBatchBuilder()
        append = batch.append
        for offset, timestamp, key, value, headers in tuples:
            append(timestamp, key, value, headers, offset)
        return batch.build()

    def aiokafka() -> bytes:
        batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, ONE_BATCH)
        append = batch.append
        for offset, timestamp, key, value, headers in tuples:
            append(offset, timestamp, key, value, headers)
        return batch.build()  # type: ignore[no-any-return]

    runs = {
        "tuples": encode(tuples),
        "dicts": encode(dicts),
        "Records": encode(records),
        "builder": builder,
        PEER: aiokafka,
    }
    for name, run in runs.items():
        columns = kafkarec.decode(bytes(run()))  # type: ignore[call-overload]
        if len(columns.batches) != 1 or list(columns) != records:
            raise SystemExit(f"{name} does not write the records in one batch")
    return runs


def microseconds(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Of one call of each, by the clock."""
    return {name: 1e6 * seconds for name, seconds in least(runs, rounds, time.perf_counter, SLICE).items()}


def writes(folder: str, count: int, rounds: int) -> dict[str, float]:
    """Microseconds of SegmentWriter's `append` of a batch and `write` of a list, of `count` records of 100 bytes."""
    import kafkarec

    tuples = rows(count, 100, keyed=True, headers=0)
    batch = kafkarec.encode(tuples, batch_size=ONE_BATCH)
    with kafkarec.SegmentWriter(Path(folder) / f"writes-{count}", assign_offsets=True) as writer:
        return microseconds({"append": lambda: writer.append(batch), "write": lambda: writer.write(tuples)}, rounds)


def cell(time_of: dict[str, float], name: str) -> str:
    ratio = "" if name == PEER else f" ({time_of[PEER] / time_of[name]:.1f}x)"
    return f"{time_of[name]:.2f}{ratio}" if time_of[name] < 1000 else f"{time_of[name]:.0f}{ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="small_writes.py", description="small writes compared with aiokafka")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print JSON with microseconds instead of tables")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for count in COUNTS:
        for name, work in WORKLOADS.items():
            found[f"{count:,} x {name}"] = microseconds(contestants(rows(count, **work)), options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        written = {f"{count:,} x 100 B": writes(folder, count, options.rounds) for count in COUNTS[:2]}
    if options.json:
        print(json.dumps(found | {f"writer, {name}": times for name, times in written.items()}, indent=1))
        return
    print(f"{machine()}; best of {options.rounds} rounds\n")
    print("| records, value | " + " | ".join((*OURS, PEER)) + " |")
    print("|---|" + "---:|" * (len(OURS) + 1))
    for name, times in found.items():
        print(f"| {name} | " + " | ".join(cell(times, contestant) for contestant in (*OURS, PEER)) + " |")
    print("\n| SegmentWriter | " + " | ".join(WRITES) + " |")
    print("|---|" + "---:|" * len(WRITES))
    for name, times in written.items():
        print(f"| {name} | " + " | ".join(f"{times[write]:.1f}" for write in WRITES) + " |")


if __name__ == "__main__":
    main()
