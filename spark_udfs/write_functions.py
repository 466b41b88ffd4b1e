"""Functions that complement `df.write`.

write_log   writes records with the offsets they have to partition folders
sweep       removes what jobs of dead drivers have left
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import capabilities, cluster
from .read_functions import option_texts
from .source.options import StorageOptions

REQUIRED = ("topic", "partition", "offset", "value")


def write_log(df: Any, path: str | os.PathLike[str], *, mode: str = "append", **options: Any) -> None:
    """Writes records with their offsets to partition folders below `path`; each partition by one task, sorted.

    df       columns topic (or the option topic), partition, offset and value; key, headers and timestamp are optional
    path     the folder that holds the partitions' folders; driver and executors must share it
    mode     "append": offsets must follow the end of the existing log; "overwrite": replaces the partitions of df
    options  of df.write.format("kafkarec"): compression="zstd", segmentBytes="256m", ...

    ValueError for a missing column. An offset that occurs twice in a partition fails the job, and nothing is published.
    """
    if not hasattr(type(df), "mapInArrow"):
        raise TypeError(f"the call is write_log(df, path); df must be a DataFrame, not {type(df).__name__}")
    path = os.fspath(path)
    missing = [name for name in REQUIRED if name not in df.columns and not (name == "topic" and "topic" in options)]
    if missing:
        raise ValueError(
            f"write_log needs the columns {', '.join(REQUIRED)}; {', '.join(missing)} missing. To write records "
            f"without offsets use {capabilities.WRITE.written}, which assigns them"
        )
    order = [name for name in ("topic", "partition") if name in df.columns]
    ordered = df.repartition(*order).sortWithinPartitions(*order, "offset")
    if not capabilities.why_missing(capabilities.WRITE):
        ordered.write.format("kafkarec").mode(mode).options(**options).save(path)
        return
    from .source import writing

    if mode not in ("append", "overwrite"):
        raise ValueError(f'mode must be "append" or "overwrite", not {mode!r}')
    cluster.ship(df.sparkSession)
    # as Spark uses the data source's writer: a message from each task, then commit, or abort after a failure
    job = writing.writer(option_texts(path, options), df.schema, "static" if mode == "overwrite" else None)
    messages: list[Any] = []
    try:
        tasks = ordered.mapInArrow(partial(cluster.yield_result, job.write), cluster.RESULT)
        messages += cluster.unpickled_results(tasks.collect())
        job.commit(messages)
    except BaseException:
        job.abort(messages)
        raise


def sweep(
    path: str | os.PathLike[str],
    older_than_hours: float = 24.0,
    *,
    spark: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Removes what jobs of dead drivers have left below `path`, also in a table, and finishes their commits.

    A job with a file younger than `older_than_hours` may still be running and is left unchanged. Returns the ids of the
    jobs that were removed.

    spark: the session; needed with Spark Connect only, where a task does the work and `path` is a path of the cluster.
        Without it, `path` is a path of this machine; FileNotFoundError if there is no such folder
    storage_options: for a URL, as the option storageOptions of the job; None: from the environment
    """
    path, storage = os.fspath(path), StorageOptions(storage_options or {})
    jobs: list[str] = cluster.call_where_files_are(spark, _sweep, path, older_than_hours, storage)
    return jobs


def _sweep(path: str, older_than_hours: float, storage: StorageOptions) -> list[str]:
    from .source import publishing

    if "://" not in path and not os.path.isdir(path):
        raise FileNotFoundError(
            f"there is no folder {path} on {socket.gethostname()}; "
            f"with Spark Connect, sweep(path, spark=spark) runs on the cluster"
        )
    return publishing.Publisher(path, storage).sweep(older_than_hours)
