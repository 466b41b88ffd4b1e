"""Makes an environment for each older Spark of tools/doc_spark.py, and prints their folder.

usage: KAFKAREC_SPARK_ENVIRONMENTS=$(.venv/bin/python tools/spark_versions.py) pytest tests/spark/test_versions.py

Each has pyspark, pyarrow and pandas only, as executors have, as in requirements/executor.txt. What is not Spark's own
is there once, for all: 2 GB together. The folder lies outside of the checkout (KAFKAREC_SPARK_ENVIRONMENTS, or next to
what tools/kafka_jars fetches), so `make clean` leaves it; what exists is not made again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import doc_spark
import wheelhouse_check
from commands import CACHE_OF_TESTS, ROOT, STORED, contains

# The newest Python that all of these Sparks run on.
PYTHON = "3.11"
LIBRARIES = "libraries"
PIP = ("install", "--quiet", "--no-cache-dir", "--no-compile")


def libraries() -> str:
    """requirements/executor.txt without Spark itself and what only it needs."""
    lock = (ROOT / "requirements" / "executor.txt").read_text(encoding="utf-8")
    return re.sub(r"(?m)^(pyspark|py4j)==.*\n( .*\n)*", "", lock)


def make(target: Path, wanted: str) -> None:
    """An environment with these requirements and, by a .pth file, with the libraries of all."""
    stamp, listed = target / "complete", target / "wanted.txt"
    if contains(stamp, wanted):
        return
    began = time.monotonic()
    print(f"{target.name}: an environment in {target}", file=sys.stderr)
    shutil.rmtree(target, ignore_errors=True)
    interpreter = wheelhouse_check.find_interpreter(PYTHON) or sys.executable
    subprocess.run([str(interpreter), "-m", "venv", "--without-pip", str(target)], check=True)
    (site,) = target.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(target / "bin" / "python"), *PIP]
    listed.write_text(wanted)
    subprocess.run([*pip, "-r", str(listed)], check=True, stdout=sys.stderr, env=os.environ | STORED)
    if target.name != LIBRARIES:
        shared = target.parent / LIBRARIES / site.relative_to(target)
        (site / f"{LIBRARIES}.pth").write_text(f"{shared}\n")
    listed.rename(stamp)
    print(f"{target.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> None:
    parent = Path(os.environ.get("KAFKAREC_SPARK_ENVIRONMENTS") or CACHE_OF_TESTS / "sparks")
    wanted = {version: f"pyspark=={release}" for version, release in list(doc_spark.RELEASES.items())[:-1]}
    wanted[LIBRARIES] = libraries()
    with ThreadPoolExecutor(len(wanted)) as pool:  # mostly waits for the network and the disk
        list(pool.map(lambda name: make(parent / name, wanted[name]), wanted))
    print(parent)


if __name__ == "__main__":
    main()
