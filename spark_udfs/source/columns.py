"""Which columns: those of Spark's Kafka source, a user's schema or list, metadata, or the batches view."""

from __future__ import annotations

from typing import Any

from ..schema import Column
from .options import Options


def chosen(options: Options) -> tuple[Column, ...]:
    """The columns that the options ask for, in order."""
    raise NotImplementedError


def of_schema(given: Any, options: Options) -> tuple[Column, ...]:
    """The columns of a StructType that a user (or `chosen`) gave; ValueError names the valid ones."""
    raise NotImplementedError
