"""Compares layout="view" with layout="copy" on one input: the same outcome, value by value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from core_reading import error_fields, what_was_left_out

import kafkarec


def arrow_values(column: pa.ChunkedArray) -> list[Any]:
    """The values; timestamps as they are stored, since not all fit into Python's."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def outcome(read: Callable[..., kafkarec.RecordColumns], **options: Any) -> tuple[Any, ...]:
    """Everything that a caller can see but for types; by columns, by rows and by Arrow."""
    try:
        got = read(**options)
    except kafkarec.KafkaRecordError as error:
        return error_fields(error), str(error)
    table = pa.table(got)
    table.validate(full=True)
    return (
        [got.column(name) for name in got.schema.names],
        got.tuples(),
        [arrow_values(column) for column in table.columns],
        [(field.name, field.nullable) for field in table.schema],
        [[array.null_count for array in column.chunks] for column in table.columns],
        pa.table(got.batches),
        *what_was_left_out(got),
    )


def assert_viewed_as_copied(data: Any, read: Callable[..., Any] = kafkarec.decode, **options: Any) -> None:
    call = partial(read, data, **options)
    assert outcome(call, layout="view") == outcome(call), options
