"""Checks of results of the compiled core: valid Arrow arrays, the oracle's rows, the oracle's verdict.

checked_rows      the rows of columns, after all properties of their buffers were checked
read_as           compares what is read with a slow reader: the same verdict, the same rows
assert_agree      compares the engine with the oracle on one buffer: decode, scan, batches, views
assert_reads_as   the same with what Kafka's classes read, and what a consumer gets
error_as_oracle   decodes one buffer with oracle and engine: the same verdict, the same rows; returns the error, or None
decode_range      decode with ranges of offsets and times, as a segment reads
varint_encodings  every encoding of one varint: shortest, padded, with bits beyond its type, too long
assert_viewed_as_copied   layout="view" and layout="copy" give the same, value by value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import builders
import golden
import oracle
import pyarrow as pa
import reading
from builders import raw_varint, zigzag

import kafkarec

FIELDS = reading.RECORD_FIELDS
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
INT_MIN = -(2**31)


def check_nulls(array: pa.Array):
    """Assert that null entries have no stored bytes, and numbers in their place are 0: validate() does not ask."""
    import numpy as np  # not at the top: tests on another processor do without it

    if pa.types.is_list(array.type):
        for number in range(array.values.type.num_fields):
            check_nulls(array.values.field(number))
        return
    valid, *_, stored = array.buffers()[:2]
    if valid is None or pa.types.is_boolean(array.type):
        return
    is_null = ~np.array(array.is_valid())
    width = np.int32 if len(array.buffers()) == 3 else f"i{array.type.bit_width // 8}"
    cells = np.frombuffer(stored, width)[array.offset :]
    cells = np.diff(cells[: len(array) + 1]) if len(array.buffers()) == 3 else cells[: len(array)]
    assert not cells[is_null].any()


def what_was_left_out(got: kafkarec.RecordColumns) -> tuple[Any, ...]:
    """What decoded columns say beside their rows."""
    return (
        got.damage,
        got.restored,
        got.remaining,
        got.last_stable_offset,
        got.undecided,
        got.timestamps_out_of_range,
    )


def checked_table(columns) -> pa.Table:
    table = pa.table(columns)
    table.validate(full=True)
    for column in table.columns:
        for chunk in column.chunks:
            chunk.validate(full=True)
            check_nulls(chunk)
    return table


def checked_rows(columns) -> list[dict[str, Any]]:
    """Return the rows by Arrow, checked against the row view; `columns` may be any projection."""
    checked_table(columns)
    rows = reading.arrow_rows(columns)
    names = [name for name in columns.schema.names if name in FIELDS]
    for row, record in zip(rows, columns, strict=True):
        assert {name: row[name] for name in names} == {name: reading.record_row(record)[name] for name in names}
    return rows


def offsets(columns) -> list[int]:
    return [row["offset"] for row in checked_rows(columns)]


def decode_error(data: bytes, **options) -> kafkarec.KafkaRecordError | None:
    try:
        kafkarec.decode(data, control=True, **options)
    except kafkarec.KafkaRecordError as error:
        return error
    return None


def error_fields(error: kafkarec.KafkaRecordError | None) -> tuple[Any, ...]:
    """Return an error's fields, but not `next_position`: it depends on the bytes after the batch. () for None."""
    if error is None:
        return ()
    return type(error), error.reason, error.position, error.base_offset, error.expected, error.found


def read_as(
    verdict: oracle.Verdict, data: bytes, read: Callable[..., kafkarec.RecordColumns] = kafkarec.decode, **options
) -> kafkarec.RecordColumns | kafkarec.KafkaRecordError:
    """Read `data`; return the columns, or the error. Assert a slow reader's verdict, its rows and the bytes left."""
    try:
        columns = read(data, columns=FIELDS, control=True, **options)
    except kafkarec.KafkaRecordError as error:
        assert verdict.error is not None, f"{error!r}; the oracle takes {data[:400].hex()}"
        assert error.position is None or 0 <= error.position < len(data)
        return error
    assert verdict.error is None, f"taken; the oracle says {verdict.error!r} ({verdict.stage}) of {data[:400].hex()}"
    wanted = [{name: record[name] for name in FIELDS} for record in verdict.records]
    assert reading.arrow_rows(columns) == wanted, data[:400].hex()
    assert [reading.record_row(record) for record in columns] == wanted, data[:400].hex()
    assert columns.remaining == verdict.remaining
    nulls = {name: sum(row[name] is None for row in wanted) for name in ("timestamp", "timestamp_type", "key", "value")}
    table = pa.table(columns)
    assert {name: table.column(name).null_count for name in nulls} == nulls
    return columns


def error_as_oracle(data: bytes) -> kafkarec.KafkaRecordError | None:
    """Decode `data`; return the error, or None. Assert the oracle's verdict and rows."""
    found = read_as(oracle.decode(data), data)
    return found if isinstance(found, kafkarec.KafkaRecordError) else None


def decode_range(
    data: bytes,
    offsets: tuple[int | None, int | None] = (None, None),
    times: tuple[int | None, int | None] = (None, None),
    **options,
) -> kafkarec.RecordColumns:
    return reading.decode_source(data, engine={"within": (*offsets, *times)}, **{"control": True, **options})


def varint_encodings(value: int, most: int) -> Iterator[bytes]:
    """Yield `value` in one to most + 1 bytes; in `most` bytes also with the bits beyond its type's width set."""
    raw = zigzag(value) if most == 10 else zigzag(value) & (2**32 - 1)
    shortest = len(raw_varint(raw))
    for length in range(shortest, most + 2):
        yield raw_varint(raw, length)
    spare = 4 if most == 5 else 1
    full = raw_varint(raw, most)
    for bit in range(spare, 7, 2):
        yield full[:-1] + bytes([full[-1] | 1 << bit])
    yield full[:-1] + bytes([full[-1] | 0x7F << spare & 0x7F])
    yield full[:-1] + bytes([full[-1] | 0x80])
    yield b"\xff" * (most - 1) + b"\x7f"
    yield b"\xff" * most + b"\x00"
    yield b"\x80" * most + b"\x00"


def _arrow_values(column: pa.ChunkedArray) -> list[Any]:
    """The values; timestamps as they are stored, since not all fit into Python's."""
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def _outcome(read: Callable[..., kafkarec.RecordColumns], **options) -> tuple[Any, ...]:
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
        [_arrow_values(column) for column in table.columns],
        [(field.name, field.nullable) for field in table.schema],
        [[array.null_count for array in column.chunks] for column in table.columns],
        pa.table(got.batches),
        *what_was_left_out(got),
    )


def assert_viewed_as_copied(data, read: Callable[..., Any] = kafkarec.decode, **options):
    call = partial(read, data, **options)
    assert _outcome(call, layout="view") == _outcome(call), options


def assert_agree(data: bytes, *, deep: bool = True, verdict: oracle.Verdict | None = None, **options) -> oracle.Verdict:
    """Assert that the engine agrees with the oracle or with another verdict, and that views are as copies. `deep` also
    compares `batches` and `scan`."""
    assert_viewed_as_copied(data, errors="skip", control=True, columns=FIELDS, **options)
    verdict = verdict or oracle.decode(data)
    decoded = read_as(verdict, data, **options)
    if deep and verdict.error is None:
        headers = [batch.columns for batch in verdict.batches]
        assert reading.arrow_rows(kafkarec.scan(data)) == headers
        assert reading.arrow_rows(decoded.batches) == headers
        batches = list(kafkarec.batches(data))
        assert [reading.batch_attributes(batch) for batch in batches] == headers
        records = [[{name: record[name] for name in FIELDS} for record in batch.records] for batch in verdict.batches]
        assert [[reading.record_row(record) for record in batch] for batch in batches] == records
    return verdict


def assert_reads_as(data: bytes, read: dict[str, Any]):
    """Assert that all reading functions return what Kafka's classes read, a JSON of tests/vectors."""
    batches = assert_agree(data, verdict=golden.verdict(data, read)).batches
    assert [bytes(batch.raw) for batch in kafkarec.batches(data)] == [batch.raw for batch in batches]
    for_consumers = [record for batch in batches if not batch.columns["is_control"] for record in batch.records]
    assert reading.by_columns(data) == for_consumers and kafkarec.decode(data).damage == ()


def with_right_checksums(data: bytes) -> bytes:
    """Return the damaged bytes with each batch's checksum made right, so that the checksum does not show the damage."""
    batches, remaining, _ = oracle.frames(data)
    fixed = [
        batch.raw
        if batch.magic == 2 and len(batch.raw) < 61
        else (builders.with_crc if batch.magic == 2 else builders.with_legacy_crc)(batch.raw)
        for batch in batches
    ]
    return b"".join(fixed) + data[len(data) - remaining :]
