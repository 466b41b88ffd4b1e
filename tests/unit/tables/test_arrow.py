"""The Arrow export: documented types and nulls, shared addresses, any number of exports."""

import gc

import builders
import c_stream
import golden
import pyarrow as pa
import pytest
import reading
from plain_logs import batch

import kafkarec

pytestmark = pytest.mark.core

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


@pytest.fixture(scope="module")
def big():
    """Return about 3 MB of batches: more than one chunk."""
    parts = builders.records(100, value=b"x" * 100, headers=[(b"h", b"v")])
    return b"".join(builders.batch(parts, base_offset=100 * i) for i in range(250))


@pytest.mark.parametrize("name", NAMED_TYPES)
def test_columns_by_name_have_the_contracts_types(name):
    table = pa.table(kafkarec.decode(golden.vector("v2-multi-batch").bytes, columns=[name]))
    assert table.schema.field(0).name == name
    assert table.schema.field(0).type == NAMED_TYPES[name]


@pytest.mark.parametrize("source", ["scan", "decode"])
def test_batch_columns_have_the_contracts_types(source):
    data = golden.vector("v2-multi-batch").bytes
    table = pa.table(kafkarec.scan(data) if source == "scan" else kafkarec.decode(data).batches)
    assert {field.name: field.type for field in table.schema} == BATCH_TYPES
    assert table.schema.names == list(BATCH_TYPES)


def test_pyarrow_uses_the_exported_buffers_without_a_copy(big):
    """The addresses in the C structs are those of pyarrow's buffers."""
    columns = kafkarec.decode(big, columns=["offset", "value"])
    ours = {address for address in c_stream.stream_addresses(columns) if address}
    chunks = [chunk for column in pa.table(columns).columns for chunk in column.chunks]
    theirs = {buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer is not None}
    assert theirs
    assert theirs <= ours


def test_an_import_outlives_the_exported_objects(big):
    data = bytearray(big)
    table = pa.table(kafkarec.decode(data))
    wanted = table.slice(0, 500).to_pylist()
    data[:] = bytes(len(data))
    del data
    gc.collect()
    kafkarec.release_memory()
    for _ in range(3):
        kafkarec.decode(batch(0, 500) * 20)
    table.validate(full=True)
    assert table.slice(0, 500).to_pylist() == wanted
