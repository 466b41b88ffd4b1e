"""Runs the demo: `spark-submit --py-files <the wheel> examples/decode_segments.py`, literally.

usage: run_demo.py [FOLDER OF LOG SEGMENTS]

Makes the demo's input from a real segment of examples/data, prints the command, runs it with an executor environment
without kafkarec and a quiet log configuration, and removes Spark's scratch folders afterwards.

.work/demo/gib/      1 GiB: the batches again and again in segments of about 8 MB. Only the base offsets are patched;
                     Kafka's checksum begins behind them (KIP-98), so every batch still carries the broker's own.
.work/demo/flipped/  a copy with one bit changed in the middle
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import ROOT, applications_removed, contains

import kafkarec
from spark_udfs.bootstrap import TREES

WORK = ROOT / ".work"
GIB = 1 << 30
SEGMENT_BYTES = 8 << 20
SOURCE = "all-codecs-0"

PASTE = """
Here, after `. .venv/bin/activate`, and on your cluster:

    spark-submit --py-files {wheel} your_application.py

    import spark_udfs                                   # in your_application.py
    spark_udfs.register(spark)
    spark.sql("SELECT inline_outer(kafka_decode(value)) FROM your_table")

Executors need pyspark, pyarrow and pandas, and nothing else. This wheel serves {served}.
The one for CPython 3.11 to 3.14 on x86_64 and aarch64:

    make wheelhouse

On your own segments:

    make demo DATA=/your/kafka-logs
"""

# What the JVM itself prints before any log configuration is read; no option turns these off.
JVM_NOTES = (
    "WARNING: Using incubator modules:",
    "NOTE: Picked up JDK_JAVA_OPTIONS",
    "Picked up JAVA_TOOL_OPTIONS",
    "Picked up _JAVA_OPTIONS",
)

DAEMON = os.path.join("pyspark", "daemon.py")

FOREIGN = ("SPARK_", "PYSPARK_", "PYTHON")  # beginnings of settings for another Spark or Python


def repeat(log: bytes, times: int, first_offset: int) -> tuple[bytes, int]:
    """`log` repeated with consecutive offsets from `first_offset` on: (bytes, next offset)."""
    batches = list(kafkarec.batches(log))
    start = batches[0].base_offset
    step = batches[-1].next_offset - start
    out = bytearray(log * times)
    for turn in range(times):
        for batch in batches:
            offset = first_offset + turn * step + batch.base_offset - start
            struct.pack_into(">q", out, turn * len(log) + batch.position, offset)
    return bytes(out), first_offset + times * step


def make_gib(log: bytes, folder: Path) -> None:
    """Segments of one partition, at least 1 GiB together; does nothing if they exist."""
    times = SEGMENT_BYTES // len(log)
    files = -(-GIB // (times * len(log)))
    done = folder / "complete"
    wanted = f"{files} files of {times * len(log)} bytes\n"
    if contains(done, wanted):
        return
    shutil.rmtree(folder, ignore_errors=True)
    partition = folder / SOURCE
    partition.mkdir(parents=True)
    free = shutil.disk_usage(folder).free
    if free < 2 * GIB:
        raise SystemExit(f"{folder}: 2 GiB of free space are needed, there are {free >> 20} MiB")
    print(f"demo: writing 1 GiB of repeated real batches to {folder} ...", flush=True)
    offset = 0
    for _ in range(files):
        segment = partition / f"{offset:020d}.log"
        data, offset = repeat(log, times, offset)
        segment.write_bytes(data)
    done.write_text(wanted)


def make_flipped(log: bytes, folder: Path) -> None:
    """One bit of one record changed, in the middle of the batch in the middle of the log."""
    batches = list(kafkarec.batches(log))
    middle = batches[len(batches) // 2]
    damaged = bytearray(log)
    damaged[middle.position + middle.size_in_bytes // 2] ^= 0x01
    partition = folder / SOURCE
    partition.mkdir(parents=True, exist_ok=True)
    (partition / f"{0:020d}.log").write_bytes(damaged)


def run(command: list[str]) -> int:
    """Runs it with its own standard output; standard error without the JVM's start-up notes."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | {
        "PYSPARK_PYTHON": str(ROOT / ".venv-executor" / "bin" / "python"),
        "PYSPARK_DRIVER_PYTHON": str(ROOT / ".venv" / "bin" / "python"),
        "SPARK_CONF_DIR": str(ROOT / "examples" / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(WORK / "spark"),
        "PYTHONUNBUFFERED": "1",
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=pipe, text=True, errors="replace") as job:
        assert job.stderr is not None
        sys.stderr.writelines(without_noise(job.stderr))
    return job.returncode


def without_noise(lines: Iterable[str]) -> Iterator[str]:
    """The lines of standard error without the JVM's start-up notes, and without the traceback of pyspark's daemon whose
    pipe the JVM has closed when it ended first: a race in Spark that concerns nobody."""
    traceback: list[str] = []
    for line in lines:
        if traceback or line.startswith("Traceback (most recent call last):"):
            traceback.append(line)
            if line.startswith((" ", "\n", "Traceback", "During handling")):
                continue
            if not (line.startswith("BrokenPipeError") and any(DAEMON in each for each in traceback)):
                yield from traceback
            traceback = []
        elif not line.startswith(JVM_NOTES):
            yield line
    yield from traceback


def what_to_paste(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        index = json.loads(archive.read(f"{TREES}/index.json"))
    return PASTE.format(wheel=wheel.relative_to(ROOT), served=index["serves"])


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    wheel = ROOT / "wheelhouse" / f"spark_udfs-{kafkarec.__version__}-py3-none-any.whl"
    application = ["examples/decode_segments.py"]
    if arguments:
        data = Path(arguments[0]).expanduser().resolve()
        if not any(data.rglob("*.log")):
            sys.exit(f"{data}: no .log files in it")
        application.append(str(data))
    else:
        log = (ROOT / "examples" / "data" / SOURCE / f"{0:020d}.log").read_bytes()
        make_gib(log, WORK / "demo" / "gib")
        make_flipped(log, WORK / "demo" / "flipped")
    command = [".venv/bin/spark-submit", "--py-files", str(wheel.relative_to(ROOT)), *application]
    print(f"\n$ {' '.join(command)}\n", flush=True)
    with applications_removed(ROOT / ".venv" / "bin" / "python"):
        try:
            status = run(command)
        except KeyboardInterrupt:
            status = 130
        finally:
            shutil.rmtree(WORK / "spark", ignore_errors=True)
    print(f"\n{time.monotonic() - began:.0f} s in total, without set-up")
    if not status:
        print(what_to_paste(wheel))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
