"""`doctor(spark)`: a small job that tells, per executor, its Python and where its kafkarec came from."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import bootstrap, registration

# Tasks per core, and how long each stays: enough for every executor to get some.
TASKS_PER_CORE = 4
TASK_SECONDS = 0.1


@dataclass(frozen=True)
class Diagnosis:
    """What the executors told; print it. `rows`: one dict per executor; `healthy`: all can use kafkarec."""

    rows: tuple[dict[str, Any], ...]

    @property
    def healthy(self) -> bool:
        return all(row["problem"] is None for row in self.rows)

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            lines.append(f"executor {row['executor']} on {row['host']}, {len(row['workers'])} Python workers")
            names = (
                "python",
                "executable",
                "tags",
                "libc",
                "source",
                "path",
                "versions",
                "wheels",
                "notes",
                "problem",
            )
            for name in names:
                value = row.get(name)
                if isinstance(value, dict):
                    value = ", ".join(f"{key} {each}" for key, each in value.items())
                if isinstance(value, list):
                    value = ("\n" + " " * 14).join(map(str, value))
                if value:
                    lines.append(f"  {name:<10}  {value}")
        return "\n".join(lines)

    __repr__ = __str__


def doctor(spark: Any) -> Diagnosis:
    """See `spark_udfs.doctor`."""
    registration.ship(spark)
    tasks = _cores(spark) * TASKS_PER_CORE
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(_probe, "told string")
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in frame.collect():
        told = json.loads(line[0])
        row = found.setdefault((told["host"], told["executor"]), told | {"workers": []})
        if told["pid"] not in row["workers"]:
            row["workers"].append(told["pid"])
        if told["problem"] and not row["problem"]:
            row |= {name: told[name] for name in ("problem", "source", "path", "notes")}
    return Diagnosis(tuple(found[key] for key in sorted(found)))


def _cores(spark: Any) -> int:
    """As many as Spark cuts a range into by itself; there is no SparkContext to ask with Spark Connect."""
    from pyspark.sql import functions as F

    return int(spark.range(1 << 12).select(F.spark_partition_id()).distinct().count())


def _probe(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa  # type: ignore[import-untyped]

    told = json.dumps(describe_process())
    for batch in batches:
        time.sleep(TASK_SECONDS)
        yield pa.RecordBatch.from_arrays([pa.array([told] * batch.num_rows)], ["told"])


def describe_process() -> dict[str, Any]:
    """This process, as plain values: Python, tags, libc, and how kafkarec became importable (or why not)."""
    python = bootstrap.tags.this_interpreter()
    told: dict[str, Any] = {
        "host": socket.gethostname(),
        "executor": _executor(),
        "pid": os.getpid(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "tags": f"{python.name} {python.platforms[0] if python.platforms else 'unknown platform'}",
        "libc": python.libc,
        "problem": None,
    }
    try:
        active = bootstrap.activate()
        bootstrap.load()
        import kafkarec

        told |= {
            "source": active.source,
            "path": active.path,
            "wheels": list(active.wheels),
            "notes": list(active.notes),
            "versions": {
                "kafkarec": active.version,
                "pyarrow": _version("pyarrow"),
                "pyspark": _version("pyspark"),
            },
            "build": _plain(kafkarec.build_info()),
        }
    except Exception as error:  # a doctor reports what it finds, also on the executor where nothing works
        told["problem"] = f"{type(error).__name__}: {error}"
        told |= {"source": None, "path": None, "notes": []}
    return told


def _executor() -> str:
    """An executor's working folder is its own: .../app-20260101-0000/0, and with Spark Connect one of the session's
    below that."""
    parts = os.getcwd().split(os.sep)
    if parts[-1] == os.environ.get("SPARK_JOB_ARTIFACT_UUID"):
        parts.pop()
    return "/".join(parts[-2:])


def _version(package: str) -> str:
    return str(getattr(sys.modules.get(package), "__version__", "unknown"))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
