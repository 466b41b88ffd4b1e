"""The Arrow export: documented types and nulls, shared addresses, any number of exports."""

from __future__ import annotations

import ctypes
import gc

import builders
import c_stream
import golden
import pyarrow as pa
import pytest
import reading

import kafkarec

pytestmark = pytest.mark.core

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
DEFAULT_TYPES = {
    "offset": (pa.int64(), False),
    "timestamp": (reading.MS, True),
    "timestamp_type": (pa.int8(), True),
    "key": (pa.binary(), True),
    "value": (pa.binary(), True),
    "headers": (HEADERS, False),
}
NAMED_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "file": pa.string(),
    "batch_position": pa.int64(),
    "base_offset": pa.int64(),
    "partition_leader_epoch": pa.int32(),
    "magic": pa.int8(),
    "compression": pa.string(),
    "is_transactional": pa.bool_(),
    "is_control": pa.bool_(),
    "control_type": pa.int16(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "sequence": pa.int32(),
}
BATCH_TYPES = {
    "position": pa.int64(),
    "base_offset": pa.int64(),
    "last_offset": pa.int64(),
    "next_offset": pa.int64(),
    "batch_length": pa.int32(),
    "size_in_bytes": pa.int32(),
    "partition_leader_epoch": pa.int32(),
    "magic": pa.int8(),
    "crc": pa.uint32(),
    "attributes": pa.int16(),
    "compression": pa.string(),
    "timestamp_type": pa.int8(),
    "is_transactional": pa.bool_(),
    "is_control": pa.bool_(),
    "delete_horizon_ms": pa.int64(),
    "base_timestamp": reading.MS,
    "max_timestamp": reading.MS,
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "base_sequence": pa.int32(),
    "last_sequence": pa.int32(),
    "record_count": pa.int32(),
}


def same_type(got: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether types are equal, whatever the names of list children."""
    if pa.types.is_list(wanted):
        return pa.types.is_list(got) and got.value_type == wanted.value_type
    return got == wanted


def buffer_addresses(array: pa.Array) -> list[int]:
    return [buffer.address if buffer is not None else 0 for buffer in array.buffers()]


def table_addresses(table: pa.Table) -> list[list[int]]:
    return [buffer_addresses(chunk) for column in table.columns for chunk in column.chunks]


@pytest.fixture(scope="module")
def big() -> bytes:
    """Return about 3 MB of batches: more than one chunk."""
    parts = builders.records(100, value=b"x" * 100, headers=[(b"h", b"v")])
    return b"".join(builders.batch(parts, base_offset=100 * i) for i in range(250))


def test_default_columns_have_the_contracts_types() -> None:
    table = pa.table(kafkarec.decode(golden.vector("v2-gzip-headers").bytes))
    assert table.schema.names == list(DEFAULT_TYPES)
    for field in table.schema:
        wanted, nullable = DEFAULT_TYPES[field.name]
        assert same_type(field.type, wanted), field
        assert field.nullable is nullable, field


@pytest.mark.parametrize("name", NAMED_TYPES)
def test_columns_by_name_have_the_contracts_types(name: str) -> None:
    table = pa.table(kafkarec.decode(golden.vector("v2-multi-batch").bytes, columns=[name]))
    assert table.schema.field(0).name == name
    assert table.schema.field(0).type == NAMED_TYPES[name]


@pytest.mark.parametrize("source", ["scan", "decode"])
def test_batch_columns_have_the_contracts_types(source: str) -> None:
    data = golden.vector("v2-multi-batch").bytes
    table = pa.table(kafkarec.scan(data) if source == "scan" else kafkarec.decode(data).batches)
    assert {field.name: field.type for field in table.schema} == BATCH_TYPES
    assert table.schema.names == list(BATCH_TYPES)


def test_null_slots_hold_zeros() -> None:
    """CVE-2019-12408: no uninitialised memory under a null."""
    data = builders.batch(
        [builders.record(key=None, value=None, offset_delta=i) for i in range(50)],
        base_timestamp=-1,
        max_timestamp=-1,
        attributes=builders.LOG_APPEND,
    )
    junk = builders.good_batch(200)
    pa.table(kafkarec.decode(junk))
    table = reading.arrow_table(kafkarec.decode(data, columns=["timestamp", "key", "sequence"]))
    for name, width in (("timestamp", 8), ("sequence", 4)):
        for chunk in table.column(name).chunks:
            assert chunk.null_count == len(chunk) == 50
            assert bytes(chunk.buffers()[1])[: 50 * width] == bytes(50 * width)
    for chunk in table.column("key").chunks:
        assert bytes(chunk.buffers()[1])[: 51 * 4] == bytes(51 * 4)


def test_pyarrow_uses_the_exported_buffers_without_a_copy(big: bytes) -> None:
    """The addresses in the C structs are those of pyarrow's buffers."""
    columns = kafkarec.decode(big, columns=["offset", "value"])
    ours = {address for address in c_stream.stream_addresses(columns) if address}
    theirs = {address for chunk in table_addresses(pa.table(columns)) for address in chunk if address}
    assert theirs
    assert theirs <= ours


def test_an_import_outlives_the_exported_objects(big: bytes) -> None:
    data = bytearray(big)
    table = pa.table(kafkarec.decode(data))
    wanted = table.slice(0, 500).to_pylist()
    data[:] = bytes(len(data))
    del data
    gc.collect()
    kafkarec.release_memory()
    for _ in range(3):
        kafkarec.decode(builders.good_batch(500) * 20)
    table.validate(full=True)
    assert table.slice(0, 500).to_pylist() == wanted


def test_released_stream_struct_may_be_released_only_once() -> None:
    capsule = kafkarec.decode(golden.vector("v2-none-single").bytes).__arrow_c_stream__()
    stream = c_stream.stream_of(capsule)
    stream.release(ctypes.byref(stream))
    assert not stream.release
    del capsule  # the capsule's destructor must see that the struct is released already
