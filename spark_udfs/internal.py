"""Records of internal topics in the workers: key and value bytes in, JSON or typed columns out.

Each row is decoded by itself (`kafkarec.internal_topics.read`): bytes that are no message of Kafka 4.3 give a row that
says so in `problem`, and never fail the query. Types come from `kafkarec.internal_topics.schema`, the table that the
decoder reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from . import arguments, bootstrap, schema
from .schema import SparkColumn

if TYPE_CHECKING:
    from kafkarec import internal_topics

# What kafka_internal returns.
COLUMNS = (
    SparkColumn(None, "type", "string"),
    SparkColumn(None, "version", "int"),
    SparkColumn(None, "is_tombstone", "boolean"),
    SparkColumn(None, "key", "string"),
    SparkColumn(None, "value", "string"),
    SparkColumn(None, "problem", "string"),
)
_HEAD = (SparkColumn(None, "version", "int"), SparkColumn(None, "is_tombstone", "boolean"))
_TAIL = SparkColumn(None, "problem", "string")

# Kafka's types as Spark's and Arrow's. Spark has no unsigned int; a uuid is the text that Kafka prints.
_TYPES = {
    "bool": ("boolean", pa.bool_()),
    "int8": ("tinyint", pa.int8()),
    "int16": ("smallint", pa.int16()),
    "uint16": ("int", pa.int32()),
    "int32": ("int", pa.int32()),
    "uint32": ("bigint", pa.int64()),
    "int64": ("bigint", pa.int64()),
    "float64": ("double", pa.float64()),
    "string": ("string", pa.string()),
    "uuid": ("string", pa.string()),
    "bytes": ("binary", pa.binary()),
}


def kafka_internal(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """The body of `kafka_internal(topic, key, value)`: one struct a row, null where the topic is no internal one."""
    bootstrap.load()
    result = schema.arrow_struct(COLUMNS)
    for batch in batches:
        topics, keys, values = arguments.given(batch, "kafka_internal(topic, key, value)", 3, 3)
        keys = arguments.binary(keys, "kafka_internal", "key")
        values = arguments.binary(values, "kafka_internal", "value")
        rows = zip(topics.to_pylist(), keys.to_pylist(), values.to_pylist(), strict=True)
        yield pa.array([_shown(*row) for row in rows], result)


def _shown(topic: str | None, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    from kafkarec import internal_topics

    if topic is None or topic not in internal_topics.TOPICS:
        return None
    record = internal_topics.read(topic, key, value)
    shown = record.as_json()
    return {
        "type": record.type,
        "version": record.version,
        "is_tombstone": record.is_tombstone,
        "key": _text(shown["key"]),
        "value": _text(shown["value"]),
        "problem": record.problem,
    }


def _text(tree: dict[str, Any] | None) -> str | None:
    """The data alone: type and version have columns of their own."""
    return None if tree is None else json.dumps(tree["data"], ensure_ascii=False, separators=(",", ":"))


def _types(column: internal_topics.MessageColumn) -> tuple[str, pa.DataType]:
    """Spark's SQL type and the equal Arrow type of a `kafkarec.internal_topics.MessageColumn`."""
    sql, arrow = _TYPES.get(column.type, ("", None))
    if column.fields:
        inner = [(each.name, *_types(each)) for each in column.fields]
        sql = "struct<" + ",".join(f"{name}:{text}" for name, text, _ in inner) + ">"
        arrow = pa.struct([pa.field(name, type_) for name, _, type_ in inner])
    if column.is_array:
        return f"array<{sql}>", pa.list_(pa.field("element", arrow))
    return sql, arrow


def typed_columns(topic: str, type_: str) -> tuple[SparkColumn, ...]:
    """The columns of one record type with Spark's types; ValueError for an unknown topic or type."""
    bootstrap.load()
    from kafkarec import internal_topics

    fields = (SparkColumn(None, each.name, _types(each)[0]) for each in internal_topics.schema(topic, type_))
    return (*_HEAD, *fields, _TAIL)


class TypedRows:
    """The body of `functions.kafka_internal_rows`: batches of (kept columns..., key, value) to the rows of one type."""

    def __init__(self, topic: str, type_: str) -> None:
        self.topic = topic
        self.type = type_

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bootstrap.load()
        from kafkarec import internal_topics

        fields = {each.name: _types(each)[1] for each in internal_topics.schema(self.topic, self.type)}
        types = {"version": pa.int32(), "is_tombstone": pa.bool_(), **fields, "problem": pa.string()}
        for batch in batches:
            *kept, keys, values = batch.columns
            found = [
                (row, record)
                for row, (key, value) in enumerate(zip(keys.to_pylist(), values.to_pylist(), strict=True))
                if (record := internal_topics.read(self.topic, key, value)).type == self.type
            ]
            rows = pa.array([row for row, _ in found], pa.int64())
            cells = [_cells(record) for _, record in found]
            typed = [pa.array([each.get(name) for each in cells], type_) for name, type_ in types.items()]
            names = [*batch.schema.names[:-2], *types]
            yield pa.RecordBatch.from_arrays([*(column.take(rows) for column in kept), *typed], names)


def _cells(record: internal_topics.InternalRecord) -> dict[str, Any]:
    named = {f"key_{name}": cell for name, cell in (record.key or {}).items()}
    named |= {f"value_{name}": cell for name, cell in (record.value or {}).items()}
    return named | {"version": record.version, "is_tombstone": record.is_tombstone, "problem": record.problem}
