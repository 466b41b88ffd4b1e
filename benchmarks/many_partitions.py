"""The command line on a data folder of many small partitions: `python benchmarks/many_partitions.py [--folder DIR]`.

Makes a broker's data folder of 200 topics with 10 partitions of 30 KB (one segment each with its side files, batches of
10 records, every codec, a producer's transactions in every fifth log), reads it once, and runs each verb on it.

    wall         seconds from start to end
    processor    seconds of all processors together, in Python and in the kernel
    fsync        system calls that sync something, counted by strace in one more run; - without strace

With --folder DIR the folder is made in DIR if it is not there, and stays; without it is a temporary one. Prints the
best of --rounds runs (3) of each verb.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

from shared import ROOT, machine

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 10
LOG_BYTES = 30_000
START = 1_700_000_000_000  # ms
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
VERBS = ("ls", "txn", "verify", "study", "salvage")


def batch(codec: str, offset: int, transaction: bool) -> bytes:
    """Ten records as a producer sends them."""
    import kafkarec

    producer = {"producer_id": 1000, "producer_epoch": 0, "base_sequence": offset} if transaction else {}
    builder = kafkarec.RecordBatchBuilder(
        base_offset=offset, compression=codec, partition_leader_epoch=3, is_transactional=transaction, **producer
    )
    for number in range(offset, offset + 10):
        customer = number * 2654435761 % 2**32
        value = b'{"order":%d,"customer":"%08x","cents":%d,"state":"paid"}' % (number, customer, customer % 9973)
        builder.append(START + number * 50, b"customer-%08x" % customer, value, [("trace", b"%016x" % (customer * 7))])
    return bytes(builder.build())


def marker(kind: str, offset: int) -> bytes:
    import kafkarec

    builder = kafkarec.RecordBatchBuilder(
        base_offset=offset,
        partition_leader_epoch=3,
        is_transactional=True,
        is_control=True,
        producer_id=1000,
        producer_epoch=0,
    )
    builder.append_end_txn_marker(START + offset * 50, kind)
    return bytes(builder.build())


def make_log(folder: Path, codec: str, transactions: bool) -> None:
    import kafkarec

    with kafkarec.SegmentWriter(folder, leader_epoch=3) as writer:
        while writer.position < LOG_BYTES:
            for _ in range(3):
                writer.append(batch(codec, writer.next_offset, transactions))
            if transactions:
                kind = "abort" if writer.position < LOG_BYTES // 2 else "commit"
                writer.append(marker(kind, writer.next_offset))


def make(data: Path, topics: int) -> None:
    """A partition is written for each codec, with transactions and without; the others are copies of these."""
    from kafkarec.sidecars import meta_properties, partition_metadata

    models = data.with_name("models")
    shutil.rmtree(models, ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)
    for number, codec in enumerate(CODECS):
        make_log(models / f"plain-{number}", codec, transactions=False)
        make_log(models / f"transactions-{number}", codec, transactions=True)
    data.mkdir()
    ends = {}
    for topic in range(topics):
        name, model = f"topic.{topic:04}", "transactions" if topic % 5 == 0 else "plain"
        for partition in range(PARTITIONS):
            folder = data / f"{name}-{partition}"
            shutil.copytree(models / f"{model}-{(topic + partition) % len(CODECS)}", folder)
            (folder / partition_metadata.NAME).write_bytes(partition_metadata.write(UUID(int=topic + 2)))
            ends[name, partition] = max(int(file.stem) for file in folder.glob("*.snapshot"))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        rows = (f"{topic} {partition} {offset}\n" for (topic, partition), offset in ends.items())
        (data / name).write_text(f"0\n{len(ends)}\n{''.join(rows)}")
    (data / meta_properties.NAME).write_text("cluster.id=Y7nKKCKxTaSyvLPmUGYJpQ\nnode.id=1\nversion=1\n")
    shutil.rmtree(models)


def command(verb: str, data: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "kafkarec", verb, str(data), *(("-o", str(out)) if verb == "salvage" else ())]


def run(verb: str, data: Path, out: Path) -> tuple[float, float]:
    """(wall seconds, processor seconds)."""
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    before, start = os.times(), time.perf_counter()
    subprocess.run(command(verb, data, out), check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used


def syncs(verb: str, data: Path, out: Path) -> str:
    if shutil.which("strace") is None:
        return "-"
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.NamedTemporaryFile() as trace:
        traced = ["strace", "-f", "-qq", "-o", trace.name, "-e", "trace=fsync,fdatasync,syncfs,sync"]
        subprocess.run([*traced, *command(verb, data, out)], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        return str(sum("sync" in line and "resumed" not in line for line in Path(trace.name).read_text().splitlines()))


def measure(place: Path, options: argparse.Namespace) -> None:
    data, out = place / "data", place / "rescued"
    if not (data / "meta.properties").exists():
        make(data, options.topics)
    sizes = [file.stat().st_size for file in data.glob("*/*.log") if file.read_bytes()]
    files = sum(len(names) for _, _, names in os.walk(data))
    print(f"{machine()}; {len(sizes)} partitions of {sum(sizes) // len(sizes):,} bytes, {files} files\n")
    print("| verb | wall, s | processor, s | fsync |\n|---|---:|---:|---:|")
    for verb in options.verbs:
        times = [run(verb, data, out) for _ in range(options.rounds)]
        wall, used = map(min, zip(*times, strict=True))
        print(f"| {verb} | {wall:.2f} | {used:.2f} | {syncs(verb, data, out)} |", flush=True)
    shutil.rmtree(out, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="many_partitions.py", description="verbs on a folder of many partitions")
    parser.add_argument("--folder", type=Path, help="where the data folder is, or is made")
    parser.add_argument("--topics", type=int, default=200, help=f"each with {PARTITIONS} partitions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=VERBS, metavar="VERB")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        measure(options.folder, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)


if __name__ == "__main__":
    main()
