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


def messages_to_arrow(columns: dict[str, list[Any]], schema: Any) -> Any:
    """A pyarrow.Table of `internal_topics.columns(...)`; schema: `internal_topics.schema(...)`, the field types.

    Integers keep the widths that they have in Kafka, a uuid is text, the timestamp is timestamp[ms, UTC].
    """
    pa = _need("pyarrow", "'kafkarec[arrow]'")
    head = {"offset": pa.int64(), "timestamp": pa.timestamp("ms", "UTC"), "version": pa.int16()}
    types = head | {"is_tombstone": pa.bool_(), "problem": pa.string()}
    types |= {column.name: _message_type(pa, column) for column in schema}
    return pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})


def _message_type(pa: Any, column: Any) -> Any:
    """The Arrow type of a field of a message."""
    if column.fields:
        arrow_type = pa.struct([pa.field(each.name, _message_type(pa, each)) for each in column.fields])
    else:
        names = {"bool": "bool_", "bytes": "binary", "uuid": "string"}
        arrow_type = getattr(pa, names.get(column.type, column.type))()
    return pa.list_(arrow_type) if column.is_array else arrow_type
