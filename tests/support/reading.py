"""The ways to read a buffer or a file, each as plain rows that compare with `==`, and the engine with other options.

by_columns     decode, exported to Arrow
by_tuples      decode, as the rows that encode takes
decode_file    decode, as a file of a partition is read
decode_source  decode, with what only other parts of kafkarec ask of the engine: ranges, transactions, limits
read_batches   the same as the engine returns it, for its tables of batches
scan_pieces    the headers alone, a table for each piece
uncompressed   each batch as its fields and its payload, decompressed

Rows are dicts of the contract's column names; `headers` are tuples, timestamps ints of milliseconds. Only this file
knows how the engine is called; see `_c/decode.pxd` for its options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

import kafkarec
from kafkarec import BatchTable, codecs
from kafkarec._core import Decoder, PassResult, Source
from kafkarec.read.decode_options import DecodeRequest, request, scan_request
from kafkarec.read.passes import as_columns, read_at_once, read_chunks
from kafkarec.read.walk import HEADERS, BytesSegment, walk_request
from kafkarec.recover.marker_evidence import NO_EVIDENCE, TransactionEvidence

RECORD_FIELDS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "sequence")
DEFAULT_COLUMNS = RECORD_FIELDS[:-1]
BATCH_FIELDS = kafkarec.scan(b"").schema.names  # a literal list is in tests/unit/tables/test_arrow.py
MS = pa.timestamp("ms", tz="UTC")


def decode_request(
    *, engine: Mapping[str, Any] | None = None, named: Mapping[str, Any] | None = None, **options
) -> DecodeRequest:
    """Return decode's options, with the engine's own, and with what is known of the file: topic, partition, file."""
    chosen = request(**options)
    if not engine and not named:
        return chosen  # the same object for equal options, as in a program
    return chosen._replace(options=chosen.options._replace(**engine or {}), named=dict(named or {}))


def file_request(file: str | None = "test.log", **options) -> DecodeRequest:
    """Return decode's options with the name of a file, whose end and damage are read by the rules for files."""
    return decode_request(named={"file": file}, **options)


class FileInMemory(BytesSegment):
    """Bytes as a segment of a walk to which the rules for files apply. evidence: what other files say of its
    transactions."""

    def __init__(self, data, path: str, evidence: TransactionEvidence = NO_EVIDENCE):
        super().__init__(data)
        self.path, self.transaction_evidence = path, evidence

    def named_request(self, decode_request: DecodeRequest) -> DecodeRequest:
        """The request with the name of the file."""
        return decode_request._replace(named={"file": self.path, "later_segment": False})


def decoder(*columns: str, **options) -> Decoder:
    """Return a Decoder of these columns; `options` as of `decode_request`."""
    return decode_request(columns=columns, **options).decoder()


def source_of(data) -> Source:
    """Return the Source of bytes, of a file like FakeFile, or itself."""
    if isinstance(data, Source):
        return data
    return Source(file=data) if hasattr(data, "read_at") else Source(data)


def read_batches(data, start: int = 0, stop: int | None = None, **options) -> PassResult:
    """Return what the engine reads of bytes or a file; `options` as of `decode_request`."""
    return read_at_once(decode_request(**options), source_of(data), start, stop)


def decode_source(data, **options) -> kafkarec.RecordColumns:
    """Decode bytes or a file; `options` as of `decode_request`."""
    return as_columns(decode_request(**options), read_batches(data, **options))


def decode_file(data, file: str = "test.log", **options) -> kafkarec.RecordColumns:
    """Decode bytes as if they were a file of a partition."""
    return decode_source(data, named={"file": file}, **options)


def arrow_table(columns) -> pa.Table:
    """Return the Arrow table of columns, validated in full."""
    table = pa.table(columns)
    table.validate(full=True)
    return table


def arrow_rows(columns) -> list[dict[str, Any]]:
    table = arrow_table(columns)
    for index, field in enumerate(table.schema):
        if field.type == MS:
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    rows = table.to_pylist()
    for row in rows:
        if row.get("headers") is not None:
            row["headers"] = tuple((header["key"], header["value"]) for header in row["headers"])
    return rows


def record_row(record) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in RECORD_FIELDS}
    row["headers"] = tuple(row["headers"])
    return row


def by_columns(data, **options) -> list[dict[str, Any]]:
    return arrow_rows(kafkarec.decode(data, columns=RECORD_FIELDS, **options))


def by_tuples(data) -> list[tuple[Any, ...]]:
    """The rows as encode takes them."""
    columns = kafkarec.decode(data, control=True, timestamp_unit="int64")
    return [(*row[:4], list(row[4])) for row in columns.tuples()]


def uncompressed(data: bytes) -> list[tuple[bytes, ...]]:
    """Return each batch as the fields that do not depend on the compressed size, and the records' bytes."""
    found = []
    for batch in kafkarec.scan(data):
        raw = data[batch["position"] : batch["position"] + batch["size_in_bytes"]]
        codec = batch["attributes"] & 7
        if batch["magic"] == 2:
            payload = bytes(codecs.decompress(codec, raw[61:], 1 << 27))
            found.append((raw[:8], raw[12:17], raw[21:61], payload))
        elif codec:
            at = 18 + 8 * batch["magic"]
            payload = bytes(codecs.decompress(codec, raw[at + 8 :], 1 << 27, batch["magic"]))
            found.append((raw[:8], raw[16 : at + 4], payload))
        else:
            found.append((raw,))
    kafkarec.decode(data, control=True, check_crcs="all")
    return found


def batch_attributes(batch) -> dict[str, Any]:
    """Return a RecordBatch's attributes as a row."""
    return {name: getattr(batch, name) for name in BATCH_FIELDS}


def assert_tiles(data: bytes, columns):
    """Assert that good batches, damage and tail cover the input once, without a gap or an overlap."""
    rows = arrow_rows(columns.batches)
    pieces = [(row["position"], row["size_in_bytes"]) for row in rows]
    pieces += [(damage.position, damage.length) for damage in columns.damage]
    at = 0
    for position, length in sorted(pieces):
        assert position == at, f"gap or overlap at byte {min(at, position)}"
        assert length > 0
        at += length
    assert at + columns.remaining == len(data)


def scan_pieces(
    data, start: int = 0, stop: int | None = None, *, file: str | None = "test.log", whole: bool = False
) -> Iterator[BatchTable]:
    """Batch tables of bytes or a file from headers alone; whole: one of all batches."""
    headers = scan_request("raise") if whole else walk_request(HEADERS)
    chosen = headers._replace(named=file_request(file).named)
    return map(BatchTable, read_chunks(chosen, source_of(data), start, stop))


def scan(data) -> BatchTable:
    """Return the table of all pieces."""
    return BatchTable.joined(list(scan_pieces(data)))
