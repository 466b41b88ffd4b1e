"""Conversion to pyarrow, polars and pandas tables; these libraries are imported on use, only here and in cli/."""

from __future__ import annotations

import importlib
from typing import Any


def _need(library: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise ImportError(f"{library} is not installed: pip install {extra}") from None


def to_arrow(table: Any) -> Any:
    return _need("pyarrow", "'kafkarec[arrow]'").table(table)


def to_polars(table: Any) -> Any:
    return _need("polars", "polars").DataFrame(table)


def to_pandas(table: Any) -> Any:
    _need("pandas", "pandas")
    return to_arrow(table).to_pandas()
