"""Encodes the records of the seven workloads: `python benchmarks/encode.py [--rounds N]`.

    kafkarec            encode of decoded columns, in the batches that they came from
    kafkarec, sized     the same as a pyarrow table, cut by the default batch size of 16 KiB
    kafkarec, rows      encode of tuples (offset, timestamp, key, value, headers), cut at 16 KiB too
    compress            the payloads of the first row compressed by `kafkarec.codecs.compress`, nothing else
    aiokafka            DefaultRecordBatchBuilder.append of each record, one builder per batch

Columns and tuples are made before the clock starts. Times are processor time; all of these run in one thread.
Writes the section "Encode" of RESULTS.md, as `make bench` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import workloads
from shared import ROOT, Run, Times, geometric_mean, least, machine, rounds_asked

SECTION = "## Encode"
TITLE = f"{SECTION}: the same records back into batches, milliseconds of the processor a file"
FASTER, BESIDE = "aiokafka", "compress"
OURS = ("kafkarec", "kafkarec, sized", "kafkarec, rows")
HEADER = 61


def contestants(path: Path, codec: int) -> dict[str, Run]:
    """The functions to time for one file. Each runs once first, and must encode the records of the file."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    import kafkarec
    from kafkarec import codecs

    columns = kafkarec.decode(path.read_bytes())
    name = codecs.CODECS[codec].name
    table = columns.to_arrow().select(["offset", "timestamp", "key", "value", "headers"])
    rows = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in columns]
    starts = columns.batches.column("base_offset")
    counts = columns.batches.column("record_count")
    groups = [rows[start : start + count] for start, count in zip(starts, counts, strict=True)]
    plain = kafkarec.encode(columns)
    edges = kafkarec.scan(plain)
    sides = zip(edges.column("position"), edges.column("size_in_bytes"), strict=True)
    payloads = [plain[position + HEADER : position + size] for position, size in sides]

    def aiokafka() -> list[bytes]:
        out = []
        for group in groups:
            builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
            append = builder.append
            for delta, (_, timestamp, key, value, headers) in enumerate(group):
                append(delta, timestamp, key, value, headers)
            out.append(bytes(builder.build()))
        return out

    runs: dict[str, Run] = {
        "kafkarec": lambda: kafkarec.encode(columns, compression=name),
        "kafkarec, sized": lambda: kafkarec.encode(table, compression=name),
        "kafkarec, rows": lambda: kafkarec.encode(rows, compression=name),
        "aiokafka": aiokafka,
    }
    for contestant, run in runs.items():
        made = run()
        data = made if isinstance(made, bytes) else b"".join(made)  # type: ignore[arg-type]
        if [(r.key, r.value, r.headers) for r in kafkarec.decode(data)] != [row[2:] for row in rows]:
            raise SystemExit(f"{path}: {contestant} does not write the records of the file")
    if codec:
        runs["compress"] = lambda: [codecs.compress(codec, payload, None, 2) for payload in payloads]
    return runs


def measure(files: list[Path], rounds: int) -> Times:
    """Best seconds of `rounds` rounds; in each every contestant runs once."""
    best: Times = {}
    for path, work in zip(files, workloads.WORKLOADS, strict=True):
        for name, seconds in least(contestants(path, work.codec), rounds).items():
            best.setdefault(name, {})[path.stem] = seconds
        print(f"  encode {path.parent.name}/{path.stem}", flush=True)
    return best


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def table(columns: list[str], rows: dict[str, list[str]]) -> Iterator[str]:
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    yield from (row(name, cells) for name, cells in rows.items())


def section(best: Times) -> list[str]:
    """Lines of markdown."""
    columns = [work.name for work in workloads.WORKLOADS]
    packed = [work.name for work in workloads.WORKLOADS if work.codec]

    def ratios(name: str, reference: str, over: list[str]) -> list[float]:
        return [best[reference][column] / best[name][column] for column in over]

    milliseconds = {
        name: [f"{times[column] * 1000:.2f}" if column in times else "" for column in columns]
        for name, times in best.items()
    }
    faster = {}
    for name in OURS:
        found = ratios(name, FASTER, columns)
        faster[name] = [f"{ratio:.1f}x" for ratio in [*found, geometric_mean(found)]]
    compared = {OURS[0]: [f"{1 / ratio:.2f}x" for ratio in ratios(OURS[0], BESIDE, packed)]}
    return [
        TITLE,
        "",
        *table(columns, milliseconds),
        "",
        f"Times faster than {FASTER}:",
        "",
        *table([*columns, "geometric mean"], faster),
        "",
        "Times what compressing the same payloads alone takes, by the same libraries:",
        "",
        *table(packed, compared),
    ]


def replace(results: Path, lines: list[str]) -> None:
    """Writes the section at the end of RESULTS.md, replacing the previous one."""
    text = results.read_text()
    results.write_text(text.split(f"\n{SECTION}")[0].rstrip() + "\n\n" + "\n".join(lines) + "\n")


def main() -> None:
    rounds = rounds_asked(__doc__, 9)
    lines = section(measure(workloads.make(ROOT / ".work" / "bench"), rounds))
    lines[1:1] = ["", f"* run by itself: {machine()}; best of {rounds} rounds"]
    replace(ROOT / "benchmarks" / "RESULTS.md", lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
