"""The cost of checking foreign Arrow arrays before they are encoded: `python benchmarks/arrow_check.py [--rounds N]`.

The decoded columns of three workloads, and the same rows as binary_view, as pyarrow tables: imported with all checks
and, in turn, without them (as kafkarec's own columns). Microseconds of processor time, the least of all rounds,
compared with `encode` of the same columns.
"""

from __future__ import annotations

from typing import Any

import workloads
from shared import ROOT, Run, least, rounds_asked


def main() -> None:
    import pyarrow as pa

    import kafkarec
    from kafkarec._writer import RecordInput

    rounds = rounds_asked(__doc__, 30)
    print("| columns | rows | checked, us | own, us | check, ns a row | encode, us | share of encode |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    paths = {path.stem: path for path in workloads.make(ROOT / ".work" / "bench")}
    for name in ("none", "none_h3", "none_small"):
        columns = kafkarec.decode(paths[name].read_bytes())
        table = columns.to_arrow().select(["offset", "timestamp", "key", "value", "headers"])
        for title, given in ((name, table), (f"{name}, views", viewed(pa, table))):

            def take(own: bool, given: Any = given) -> RecordInput:
                return RecordInput(stream=given.__arrow_c_stream__(), own=own)

            def encode(given: Any = given) -> bytes:
                return kafkarec.encode(given)

            runs: dict[str, Run] = {"checked": lambda: take(False), "own": lambda: take(True), "encode": encode}
            checked, own, encoded = (seconds * 1e6 for seconds in least(runs, rounds).values())
            print(
                f"| {title} | {len(given)} | {checked:.0f} | {own:.0f} | {1000 * (checked - own) / len(given):.2f} | "
                f"{encoded:.0f} | {100 * (checked - own) / encoded:.1f} % |"
            )


def viewed(pa: Any, table: Any) -> Any:
    for column in ("key", "value"):
        cast = table.column(column).cast(pa.binary_view())
        table = table.set_column(table.schema.get_field_index(column), column, cast)
    return table


if __name__ == "__main__":
    main()
