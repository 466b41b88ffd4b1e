"""Spark's Python workers forked from a process that has loaded their libraries: otherwise each loads them by itself, a
second of processor time, and a worker ends with every error.

    PYTHON worker_daemon.py MODULE [ARGUMENTS]   in place of   PYTHON -m pyspark.daemon MODULE [ARGUMENTS]

Spark has no setting for the daemon of workers that plan, so its Python is a script that runs this file. The workers
load what is tested, kafkarec and spark_udfs, by themselves.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def python(folder: Path, interpreter: str) -> str:
    """Write the script for an interpreter, and return its path."""
    script, this, quoted = folder / "python", shlex.quote(__file__), shlex.quote(interpreter)
    daemon = f'"-m pyspark.daemon") shift 2; exec {quoted} {this} "$@" ;;'
    script.write_text(f'#!/bin/sh\ncase "$1 $2" in {daemon} esac\nexec {quoted} "$@"\n')
    script.chmod(0o755)
    return str(script)


if __name__ == "__main__":
    sys.path[0] = ""  # as with -m
    import importlib
    import runpy

    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    for name in sys.argv[1:2]:
        importlib.import_module(name)
    # as with -m, too: spark_udfs knows a worker of Spark's by the name of its main module
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
