"""The cost of checking foreign Arrow arrays before they are encoded: `python benchmarks/arrow_check.py [--rounds N]`.

The decoded columns of three workloads, and the same rows as binary_view, as pyarrow tables: imported with all checks
and, in turn, without them (as kafkarec's own columns). Microseconds of processor time, the least of all rounds,
compared with `encode` of the same columns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other modules here, and kafkarec as built in place

import workloads  # noqa: E402


def least(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time_ns()
            run()
            times[name] = min(times[name], (time.process_time_ns() - began) / 1000)
    return times


def main() -> None:
    import pyarrow as pa

    import kafkarec
    from kafkarec._writer import RecordInput

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    print("| columns | rows | checked, us | own, us | check, ns a row | encode, us | share of encode |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    paths = {path.stem: path for path in workloads.make(HERE.parent / ".work" / "bench")}
    for name in ("none", "none_h3", "none_small"):
        columns = kafkarec.decode(paths[name].read_bytes())
        table = columns.to_arrow().select(["offset", "timestamp", "key", "value", "headers"])
        for title, given in ((name, table), (f"{name}, views", viewed(pa, table))):

            def take(own: bool, given: Any = given) -> RecordInput:
                return RecordInput(stream=given.__arrow_c_stream__(), own=own)

            def encode(given: Any = given) -> bytes:
                return kafkarec.encode(given)

            found = least({"checked": lambda: take(False), "own": lambda: take(True), "encode": encode}, rounds)
            cost = found["checked"] - found["own"]
            print(
                f"| {title} | {len(given)} | {found['checked']:.0f} | {found['own']:.0f} | "
                f"{1000 * cost / len(given):.2f} | {found['encode']:.0f} | {100 * cost / found['encode']:.1f} % |"
            )


def viewed(pa: Any, table: Any) -> Any:
    for column in ("key", "value"):
        cast = table.column(column).cast(pa.binary_view())
        table = table.set_column(table.schema.get_field_index(column), column, cast)
    return table


if __name__ == "__main__":
    main()
