"""Records of internal topics in the workers: key and value bytes in, JSON or typed columns out.

Each row is decoded by itself (`kafkarec.internal_topics.read`): bytes that are not a message of Kafka 4.4 become a row
whose `problem` says why; they never fail the query. The types come from `kafkarec.internal_topics.schema`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from . import arguments, bootstrap, schema
from .schema import SparkColumn
from .worker_errors import cause_first

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
# Kafka's types as Arrow's. Spark has no unsigned integers; a uuid becomes the text that Kafka prints.
_TYPES = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),
    "int32": pa.int32(),
    "uint32": pa.int64(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "uuid": pa.string(),
    "bytes": pa.binary(),
}


@cause_first
def kafka_internal(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """The implementation of `kafka_internal(topic, key, value)`: one struct per row, null for other topics."""
    bootstrap.load()
    result = schema.arrow_struct(COLUMNS)
    for topics, keys, values in arguments.arrays_of(batches, "kafka_internal(topic, key, value)", 3, 3):
        topics = arguments.as_string(topics, "kafka_internal", "topic")
        keys = arguments.as_binary(keys, "kafka_internal", "key")
        values = arguments.as_binary(values, "kafka_internal", "value")
        rows = zip(topics.to_pylist(), keys.to_pylist(), values.to_pylist(), strict=True)
        yield pa.array([_struct(*row) for row in rows], result)


def _struct(topic: str | None, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
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
    """The data as JSON, without type and version, which are separate columns."""
    return None if tree is None else json.dumps(tree["data"], ensure_ascii=False, separators=(",", ":"))


def _type(column: internal_topics.MessageColumn) -> pa.DataType:
    """The Arrow type of a `kafkarec.internal_topics.MessageColumn`."""
    inner = [pa.field(each.name, _type(each)) for each in column.fields]
    arrow = pa.struct(inner) if inner else _TYPES[column.type]
    return pa.list_(pa.field("element", arrow)) if column.is_array else arrow


def typed_schema(topic: str, type_: str) -> pa.Schema:
    """The columns of one record type; ValueError for an unknown topic or type."""
    bootstrap.load()
    from kafkarec import internal_topics

    fields = {each.name: _type(each) for each in internal_topics.schema(topic, type_)}
    return pa.schema({"version": pa.int32(), "is_tombstone": pa.bool_(), **fields, "problem": pa.string()})


class TypedRows:
    """The implementation of `functions.kafka_internal_rows`: (kept columns..., key, value) to the rows of one type."""

    def __init__(self, topic: str, type_: str) -> None:
        self.topic = topic
        self.type = type_

    @cause_first
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bootstrap.load()
        from kafkarec import internal_topics

        types = typed_schema(self.topic, self.type)
        for batch in batches:
            *kept, keys, values = batch.columns
            records = [
                (row, record)
                for row, (key, value) in enumerate(zip(keys.to_pylist(), values.to_pylist(), strict=True))
                if (record := internal_topics.read(self.topic, key, value)).type == self.type
            ]
            rows = pa.array([row for row, _ in records], pa.int64())
            cells = [_cells(record) for _, record in records]
            typed = [pa.array([each.get(field.name) for each in cells], field.type) for field in types]
            names = [*batch.schema.names[:-2], *types.names]
            yield pa.RecordBatch.from_arrays([*(column.take(rows) for column in kept), *typed], names)


def _cells(record: internal_topics.InternalRecord) -> dict[str, Any]:
    named = {f"key_{name}": cell for name, cell in (record.key or {}).items()}
    named |= {f"value_{name}": cell for name, cell in (record.value or {}).items()}
    return named | {"version": record.version, "is_tombstone": record.is_tombstone, "problem": record.problem}
