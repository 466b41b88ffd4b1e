"""Records of kafkarec.decode in the form of Spark's rows: the expected rows of a Spark job."""

from __future__ import annotations

import base64
from typing import Any

import kafkarec
from spark_udfs import schema


def text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def micros(milliseconds: int | None) -> int | None:
    """Return microseconds; None for what does not fit into Spark's 64 bits."""
    if milliseconds is None or not -(2**63) <= milliseconds * 1000 < 2**63:
        return None
    return milliseconds * 1000


def record_row(record: kafkarec.Record) -> list[Any]:
    """Return the columns that apps/two_executors.py selects: offset, time, its type, key, value, headers, 3 nulls."""
    headers = [[key, text(value)] for key, value in record.headers]
    kind = schema.NO_TIMESTAMP_TYPE if record.timestamp_type is None else int(record.timestamp_type)
    row = [
        record.offset,
        micros(record.timestamp),
        kind,
        text(record.key),
        text(record.value),
        headers or None,
    ]
    return [*row, None, None, None]


def value_rows(raw: bytes) -> list[list[Any]]:
    """Return the rows of one value under inline_outer: an empty list of records gives one row of nulls."""
    return [record_row(record) for record in kafkarec.decode(raw)] or [[None] * 9]
