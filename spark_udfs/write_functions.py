"""Functions beside `df.write`.

write_log   writes records with offsets of their own to partition folders
sweep       removes what jobs of dead drivers have left
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from . import cluster, registration
from .source.options import StorageOptions

NEEDED = ("topic", "partition", "offset", "value")


def write_log(df: Any, path: str, *, mode: str = "append", **options: Any) -> None:
    """See `spark_udfs.write_log`."""
    missing = [name for name in NEEDED if name not in df.columns and not (name == "topic" and "topic" in options)]
    if missing:
        raise ValueError(
            f"write_log needs the column {', '.join(missing)}; records without offsets go through "
            f'df.write.format("kafkarec"), which assigns them'
        )
    order = [name for name in ("topic", "partition") if name in df.columns]
    ordered = df.repartition(*order).sortWithinPartitions(*order, "offset")
    writer = ordered.write.format("kafkarec").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(path)


def sweep(path: str, older_than_hours: float, spark: Any, storage: Mapping[str, Any] | None) -> list[str]:
    """See `spark_udfs.sweep`."""
    given = StorageOptions(storage or {})
    if spark is None or not cluster.is_connect(spark):
        return _sweep(path, older_than_hours, given)
    registration.ship(spark)
    found: list[str] = cluster.call(spark, _sweep, path, older_than_hours, given)
    return found


def _sweep(path: str, older_than_hours: float, storage: StorageOptions) -> list[str]:
    from .source import bucket_publishing, publishing

    if "://" in path:
        return bucket_publishing.sweep(path, older_than_hours, storage)
    if not os.path.isdir(path):
        raise FileNotFoundError(
            f"there is no folder {path} on {socket.gethostname()}; "
            f"with Spark Connect, sweep(path, spark=spark) looks on the cluster"
        )
    return publishing.sweep(path, older_than_hours)
