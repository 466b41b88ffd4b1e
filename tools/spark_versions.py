"""Makes an environment for each older Spark of tools/doc_spark.py, and prints their folder.

usage: KAFKAREC_SPARK_ENVIRONMENTS=$(tools/spark_versions.py) pytest tests/spark/test_versions.py

Each has pyspark, pyarrow and pandas only, as executors have, as in requirements/executor.txt: about 850 MB. The folder
lies outside of the checkout (KAFKAREC_SPARK_ENVIRONMENTS, or next to what tools/kafka_jars fetches), so `make clean`
leaves it; what exists is not made again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import doc_spark  # noqa: E402
import wheelhouse_check  # noqa: E402

# The newest Python that all of these Sparks run on.
PYTHON = "3.11"


def folder() -> Path:
    chosen = os.environ.get("KAFKAREC_SPARK_ENVIRONMENTS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else cache / "kafkarec-tests" / "sparks"


def constraints() -> list[str]:
    """The lines of requirements/executor.txt without Spark itself and what only it needs."""
    lock = (ROOT / "requirements" / "executor.txt").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^([a-z0-9-]+==\S+)( ;[^\\\n]*)?", lock)
    return [name + marker for name, marker in lines if not name.startswith(("pyspark==", "py4j=="))]


def make(target: Path, release: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    interpreter = wheelhouse_check.find_interpreter(PYTHON) or sys.executable
    subprocess.run([str(interpreter), "-m", "venv", str(target)], check=True)
    listed = target / "constraints.txt"
    listed.write_text("\n".join(constraints()) + "\n")
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir", "-c", str(listed)]
    subprocess.run([*pip, f"pyspark=={release}", "pyarrow", "pandas"], check=True, stdout=sys.stderr)
    (target / "complete").write_text(release)


def main() -> int:
    parent = folder()
    for version, release in list(doc_spark.RELEASES.items())[:-1]:
        target = parent / version
        stamp = target / "complete"
        if stamp.exists() and stamp.read_text() == release:
            continue
        began = time.monotonic()
        print(f"Spark {release}: an environment in {target}", file=sys.stderr)
        make(target, release)
        print(f"Spark {release}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
