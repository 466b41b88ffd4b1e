"""The path that a job writes to: a folder that driver and executors share, or a folder in a bucket"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spark_udfs import bootstrap

from .bucket_publishing import PublishingBucket
from .buckets import SCHEMES
from .folders import SharedFolder
from .paths import FOLDERS, absolute, hadoop_scheme
from .publishing import TABLE, Publisher, partition_of
from .staging import NO_STORAGE, TEMPORARY

# What Spark, Delta, Hudi, Iceberg and write_table write to a table's folder.
_OF_TABLES = re.compile(rf"part-[0-9]{{5}}.*|_delta_log|_spark_metadata|\.hoodie|{TABLE}|.*\.(parquet|orc|avro)")


def publisher(path: str, storage: Mapping[str, Any] = NO_STORAGE) -> Publisher:
    bootstrap.load()
    return Publisher(PublishingBucket(path, storage) if "://" in path else SharedFolder(path))


def resolve(path: str | None, storage: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """The absolute path or URL, and topic -> number of partitions below it. ValueError for a path that must not be
    written to."""
    if not path:
        raise ValueError('kafkarec needs a path, and has no tables: .mode("append").save("/backup/kafka")')
    path, names = _listed(path, storage)
    from kafkarec import distributed

    if "meta.properties" in names:
        raise ValueError(
            f"{path} is a broker's data folder: write to another one, and move the partitions' folders while the "
            f"broker is stopped"
        )
    tables = sorted(name for name in names if _OF_TABLES.fullmatch(name))
    if tables:
        raise ValueError(
            f"{path} holds another table ({tables[0]}), which partition folders would spoil: name a folder of their own"
        )
    if any(map(distributed.is_segment, names)):
        raise ValueError(f"{path} is one partition's folder: name the folder above it")
    partition_counts: dict[str, int] = {}
    for topic, partition in filter(None, map(partition_of, names)):
        partition_counts[topic] = max(partition_counts.get(topic, 0), partition + 1)
    return path, partition_counts


def resolve_table(path: str, storage: Mapping[str, Any]) -> str:
    """The absolute path or URL of a table; ValueError for one that holds anything else."""
    path, names = _listed(path, storage)
    others = sorted(name for name in names if not name.startswith((TEMPORARY, ".")))
    if others and TABLE not in names and not publisher(path, storage).table():
        raise ValueError(f"{path} holds {others[0]}, and no table that write_table has made: name a new folder")
    return path


def _listed(path: str, storage: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The absolute path or URL, and the names in it."""
    bootstrap.load()
    path = absolute(path)
    scheme, is_url, _ = path.partition("://")
    if hadoop_scheme(path) is not None or (is_url and scheme not in SCHEMES):
        raise ValueError(f"kafkarec cannot write to {scheme + is_url if is_url else path}. {FOLDERS}")
    store = publisher(path, storage).store
    store.check_access()
    return store.path, [*store.folders(), *(one.name for one in store.names(below=False))]
