"""The reader of `spark.read.format("kafkarec")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def schema(given: Mapping[str, str]) -> Any:
    """The DDL of what the options ask for."""
    raise NotImplementedError


def reader(given: Mapping[str, str], wanted: Any) -> Any:
    """A DataSourceReader; with pushDownFilters one that has pushFilters."""
    raise NotImplementedError
