"""Records of internal topics in the workers: key and value bytes in, JSON out.

Each row is decoded by itself (`kafkarec.internal_topics.read`): bytes that are not a message of Kafka 4.4 become a row
whose `problem` says why; they never fail the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from . import decoding, schema
from .bootstrap import internal_topics
from .errors import report_cause_first

# What kafka_internal returns.
COLUMNS = schema.column_table("""
    type            string
    version         int
    is_tombstone    boolean
    key             string
    value           string
    problem         string
""")


@report_cause_first
def kafka_internal(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """The implementation of `kafka_internal(topic, key, value)`: one struct per row, null for other topics."""
    result = schema.arrow_struct(COLUMNS)
    for topics, keys, values in decoding.argument_arrays(batches, "kafka_internal(topic, key, value)", 3, 3):
        arguments = (topics, "string", "topic"), (keys, "binary", "key"), (values, "binary", "value")
        checked = (decoding.checked_array(array, kind, "kafka_internal", what) for array, kind, what in arguments)
        rows = zip(*(array.to_pylist() for array in checked), strict=True)
        yield pa.array([_struct(*row) for row in rows], result)


def _struct(topic: str | None, key: bytes | None, value: bytes | None) -> tuple[Any, ...] | None:
    if topic is None or topic not in internal_topics.TOPICS:
        return None
    record = internal_topics.read(topic, key, value)
    shown = record.as_json()
    key_text, value_text = (  # without type and version, which are separate columns
        None if shown[name] is None else json.dumps(shown[name]["data"], ensure_ascii=False, separators=(",", ":"))
        for name in ("key", "value")
    )
    return record.type, record.version, record.is_tombstone, key_text, value_text, record.problem
