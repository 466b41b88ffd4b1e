"""`doctor(spark)`: a small job that reports the Python of each executor and where it imports kafkarec from.

Its function is one without Arrow, so that it runs where the packages are missing that all others need.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import platform
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import functions

from . import bootstrap, cluster
from .schema import NamedValues

# Number of tasks per core, and seconds that each one sleeps, so that every executor gets some.
TASKS_PER_CORE = 4
TASK_SECONDS = 0.1
# What every worker needs besides kafkarec.
PACKAGES = ("pyarrow", "pandas")
_NOT_PRINTED = ("host", "executor", "pid", "workers", "build")  # or in the first line


@dataclass(frozen=True)
class Diagnosis:
    """The executors' reports. Printable. `rows`: one dict per executor; `healthy`: all of them can use kafkarec."""

    rows: tuple[NamedValues, ...]

    @property
    def healthy(self) -> bool:
        return all(row["problem"] is None for row in self.rows)

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            lines.append(f"executor {row['executor']} on {row['host']}, {len(row['workers'])} Python workers")
            for name, value in row.items():
                if isinstance(value, dict):
                    value = ", ".join(f"{key} {each}" for key, each in value.items())
                if isinstance(value, list):
                    value = ("\n" + " " * 15).join(map(str, value))
                if value and name not in _NOT_PRINTED:
                    lines.append(f"  {name:<11}  {value}")
        return "\n".join(lines)

    __repr__ = __str__


def doctor(spark: Any) -> Diagnosis:
    """Runs a small job and reports, per executor: Python, libc, cache path, wheels, versions. Printable."""
    cluster.ship(spark)
    tasks = cluster.cores(spark) * TASKS_PER_CORE
    probe = functions.udf(_probe, "binary", useArrow=False)
    frame = spark.range(0, tasks, 1, tasks).select(probe("id"))
    rows: dict[tuple[str, str], NamedValues] = {}
    for report in cluster.unpickled_results(frame.collect()):
        row = rows.setdefault((report["host"], report["executor"]), report | {"workers": []})
        if report["pid"] not in row["workers"]:
            row["workers"].append(report["pid"])
        if report["problem"] and not row["problem"]:
            row |= {name: report[name] for name in ("problem", "source", "path", "notes")}
    return Diagnosis(tuple(rows[key] for key in sorted(rows)))


def _probe(number: int) -> bytes:
    time.sleep(TASK_SECONDS)
    return pickle.dumps(describe_process())


def describe_process() -> NamedValues:
    """This process, as plain values: Python, machine, libc, and how kafkarec became importable (or why not)."""
    parts = os.getcwd().split(os.sep)  # .../app-20260101-0000/0; Spark Connect adds a folder of the session below that
    if parts[-1] == os.environ.get("SPARK_JOB_ARTIFACT_UUID"):
        parts.pop()
    report: NamedValues = {
        "host": socket.gethostname(),
        "executor": "/".join(parts[-2:]),
        "pid": os.getpid(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "interpreter": f"{bootstrap.python_tag()} {bootstrap.machine()}",
        "libc": bootstrap.libc(),
    }
    modules, lacking, problem = NamedValues(), list[str](), None
    for name in PACKAGES:
        try:
            modules[name] = importlib.import_module(name)
        except ModuleNotFoundError:
            lacking.append(name)
        except Exception as error:  # whatever a broken installation raises
            lacking.append(f"{name} that can be imported ({type(error).__name__}: {error})")
    try:
        active = bootstrap.activate()
        report |= {
            "source": active.source,
            "path": active.path,
            "versions": {
                "kafkarec": active.version,
                **{name: str(getattr(module, "__version__", "unknown")) for name, module in modules.items()},
                "pyspark": pyspark.__version__,
            },
            "wheels": list(active.wheels),
            "notes": list(active.notes),
            "build": json.loads(json.dumps(bootstrap.kafkarec.build_info(), default=str)),
        }
    except Exception as error:  # an executor where nothing works must be reported too
        problem = f"{type(error).__name__}: {error}"
        report |= {"source": None, "path": None, "notes": []}
    if lacking:
        problem = missing_packages_problem(sys.executable, " and ".join(lacking))
    return report | {"problem": problem}


def missing_packages_problem(python: str, packages: str) -> str:
    """The problem of a Python without what workers need, and its fix."""
    return (
        f"{python}, the Python of Spark's workers, has no {packages}: queries with kafkarec will fail, some with "
        f"'Python worker exited unexpectedly' alone. Install pyarrow and pandas for it, or set PYSPARK_PYTHON"
    )
