"""The path that a job writes to: a folder that driver and executors share, or a folder in a bucket

publisher(path)     publishing, or bucket_publishing: both have begin, staging_writer, commit, abort and sweep
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from spark_udfs import bootstrap

from . import bucket_publishing, publishing
from .buckets import SCHEMES, Bucket

_LOG = re.compile(r"[0-9]{20}\.log")


def publisher(path: str) -> ModuleType:
    return bucket_publishing if "://" in path else publishing


def resolve(path: str | None, storage: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """The absolute path or URL, and topic -> number of partitions below it. ValueError for a path that must not be
    written to."""
    if not path:
        raise ValueError('kafkarec needs a path: .save("/backup/kafka")')
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    path, names = _bucket(path, storage) if "://" in path else _folder(os.path.abspath(path))
    if "meta.properties" in names:
        raise ValueError(
            f"{path} is a broker's data folder: write to another one, and move the partitions' folders while the "
            f"broker is stopped"
        )
    if any(_LOG.fullmatch(name) for name in names):
        raise ValueError(f"{path} is one partition's folder: name the folder above it")
    found: dict[str, int] = {}
    for match in filter(None, map(publishing.FOLDER.fullmatch, names)):
        found[match["topic"]] = max(found.get(match["topic"], 0), int(match["partition"]) + 1)
    return path, found


def _folder(path: str) -> tuple[str, list[str]]:
    if not os.path.exists(path):
        return path, []
    if not os.path.isdir(path):
        raise NotADirectoryError(f"{path} is a file; name the folder that is to hold the partitions' folders")
    return path, os.listdir(path)


def _bucket(url: str, storage: Mapping[str, Any]) -> tuple[str, list[str]]:
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES:
        raise ValueError(f"kafkarec does not write to {scheme}://, but to {', '.join(SCHEMES)} and to folders")
    bootstrap.load()
    bucket = Bucket(url, storage)
    bucket.demand()
    return bucket.url, [*bucket.folders(), *(one.name for one in bucket.names(below=False))]
