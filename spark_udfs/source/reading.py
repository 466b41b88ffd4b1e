"""In a task: splits to Arrow record batches of exactly Spark's schema, damage included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from ..schema import Column
from .options import Options
from .planning import Split


def read_splits(
    splits: tuple[Split, ...], options: Options, columns: tuple[Column, ...]
) -> Iterator[pa.RecordBatch]:
    """What a task does: loads kafkarec, reads each split, logs one line at its end."""
    raise NotImplementedError


def read_split(
    kafkarec: Any, split: Split, options: Options, columns: tuple[Column, ...]
) -> Iterator[pa.RecordBatch]:
    """One split: batches of at most 64 MiB or maxRecordsPerBatch rows, rows in the file's order."""
    raise NotImplementedError
