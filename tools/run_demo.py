"""Runs the demo: `spark-submit --py-files <the wheel> examples/decode_segments.py`, literally.

usage: run_demo.py [FOLDER OF LOG SEGMENTS]

Makes the demo's input below .work/ (1 GiB of repeated real batches, a copy with one flipped byte), prints the
command, runs it with an executor environment without kafkarec and a quiet log configuration, and removes Spark's
scratch folders afterwards. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".work"
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import demo_data  # noqa: E402  (found only after the line above)

from spark_udfs.bootstrap import TREES  # noqa: E402

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

# Settings for another Spark or Python that would affect this one.
FOREIGN = (
    "SPARK_HOME",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
    "PYSPARK_DRIVER_PYTHON_OPTS",
)


def the_wheel() -> Path:
    """The spark_udfs wheel of this version."""
    scope: dict[str, str] = {}
    exec((ROOT / "kafkarec" / "_version.py").read_text(), scope)
    wheel = ROOT / "wheelhouse" / f"spark_udfs-{scope['__version__']}-py3-none-any.whl"
    if not wheel.exists():
        sys.exit(f"{wheel.relative_to(ROOT)} is missing: run make wheelhouse")
    return wheel


def environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    env["PYSPARK_PYTHON"] = str(ROOT / ".venv-executor" / "bin" / "python")
    env["PYSPARK_DRIVER_PYTHON"] = str(ROOT / ".venv" / "bin" / "python")
    env["SPARK_CONF_DIR"] = str(ROOT / "examples" / "conf")
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    env["SPARK_LOCAL_DIRS"] = str(WORK / "spark")
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # the driver imports from examples/
    return env


def run(command: list[str], env: dict[str, str]) -> int:
    """Run it with its own standard output; standard error without the JVM's start-up notes."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=pipe, text=True, errors="replace") as job:
        assert job.stderr is not None
        for line in without_noise(job.stderr):
            sys.stderr.write(line)
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


def application_folders() -> set[Path]:
    """The folders in which local-cluster workers have those of their executors: below Spark's own folder."""
    return set((ROOT / ".venv").glob("lib/python3*/site-packages/pyspark/work/app-*"))


def what_to_paste(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        index = json.loads(archive.read(f"{TREES}/index.json"))
    return PASTE.format(wheel=wheel.relative_to(ROOT), served=index["serves"])


def main(arguments: list[str]) -> int:
    began = time.monotonic()
    wheel = the_wheel()
    if arguments:
        data = Path(arguments[0]).expanduser().resolve()
        if not any(data.rglob("*.log")):
            sys.exit(f"{data}: no .log files in it")
        application = ["examples/decode_segments.py", str(data)]
    else:
        demo_data.make(ROOT / "examples" / "data", WORK / "demo")
        application = ["examples/decode_segments.py"]

    command = [".venv/bin/spark-submit", "--py-files", str(wheel.relative_to(ROOT)), *application]
    print(f"\n$ {' '.join(command)}\n", flush=True)
    before = application_folders()
    try:
        status = run(command, environment())
    except KeyboardInterrupt:
        status = 130
    finally:
        for folder in application_folders() - before:
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(WORK / "spark", ignore_errors=True)
    print(f"\n{time.monotonic() - began:.0f} s in total, without set-up")
    if not status:
        print(what_to_paste(wheel))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
