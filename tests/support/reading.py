"""The three ways to read a buffer, each as plain rows that compare with `==`.

by_columns   decode, exported to Arrow
by_records   decode, record by record
by_batches   batches, each iterated

Rows are dicts of the contract's column names; `headers` are tuples, timestamps ints of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.read.passes import as_columns, batch_table, read_part, read_pieces
from kafkarec.tables.records import BatchTable

RECORD_FIELDS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence")
DEFAULT_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
BATCH_FIELDS = (
    "position",
    "base_offset",
    "last_offset",
    "next_offset",
    "batch_length",
    "size_in_bytes",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "compression",
    "timestamp_type",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "record_count",
)
MS = pa.timestamp("ms", tz="UTC")


def file_request(file: str | None = "test.log", **options: Any) -> DecodeRequest:
    """Return decode's options with the name of a file, whose end and damage are read by the rules for files."""
    return request(**options)._replace(named={"file": file})


def decode_file(
    data: bytes, file: str | None = "test.log", topic: str | None = None, partition: int | None = None, **options: Any
) -> kafkarec.RecordColumns:
    """Decode a buffer as if it were a file of a partition."""
    asked = request(**options)._replace(named={"file": file, "topic": topic, "partition": partition})
    return as_columns(asked, read_part(asked, Source(data)))


def arrow_table(columns: Any) -> pa.Table:
    """Return the Arrow table of columns, validated in full."""
    table = pa.table(columns)
    table.validate(full=True)
    return table


def arrow_rows(columns: Any) -> list[dict[str, Any]]:
    table = arrow_table(columns)
    for index, field in enumerate(table.schema):
        if field.type == MS:
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    rows = table.to_pylist()
    for row in rows:
        if row.get("headers") is not None:
            row["headers"] = tuple((header["key"], header["value"]) for header in row["headers"])
    return rows


def record_row(record: Any) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in RECORD_FIELDS}
    row["headers"] = tuple(row["headers"])
    return row


def by_columns(data: Any, **options: Any) -> list[dict[str, Any]]:
    return arrow_rows(kafkarec.decode(data, columns=RECORD_FIELDS, **options))


def by_records(data: Any, **options: Any) -> list[dict[str, Any]]:
    return [record_row(record) for record in kafkarec.decode(data, columns=RECORD_FIELDS, **options)]


def by_batches(data: Any) -> list[list[dict[str, Any]]]:
    return [[record_row(record) for record in batch] for batch in kafkarec.batches(data)]


def batch_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a BatchTable, by Arrow."""
    return arrow_rows(table)


def batch_attributes(batch: Any) -> dict[str, Any]:
    """Return a RecordBatch's attributes as a row."""
    return {name: getattr(batch, name) for name in BATCH_FIELDS}


def assert_tiles(data: bytes, columns: Any) -> None:
    """Assert that good batches, damage and tail cover the input once, without a gap or an overlap."""
    rows = batch_rows(columns.batches)
    pieces = [(row["position"], row["size_in_bytes"]) for row in rows]
    pieces += [(damage.position, damage.length) for damage in columns.damage]
    at = 0
    for position, length in sorted(pieces):
        assert position == at, f"gap or overlap at byte {min(at, position)}"
        assert length > 0
        at += length
    assert at + columns.remaining == len(data)


def scan_pieces(
    decode_request: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, *, whole: bool = False
) -> Iterator[BatchTable]:
    """Batch tables from headers alone; whole: one of all batches."""
    return map(batch_table, read_pieces(decode_request.of_headers(whole=whole), source, start, stop))
