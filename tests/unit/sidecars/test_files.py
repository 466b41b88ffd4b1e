"""The side files of a log: read, written back byte for byte, looked up, and refused when damaged."""

import ast
import random

import pytest
from paths import VECTORS

from kafkarec import errors
from kafkarec.sidecars import (
    leader_epochs,
    meta_properties,
    offset_checkpoints,
    offset_index,
    partition_metadata,
    producer_snapshot,
    time_index,
    txn_index,
)

BINARY = {
    ".index": lambda data, base: offset_index.write(offset_index.read(data, base), base),
    ".timeindex": lambda data, base: time_index.write(time_index.read(data, base), base),
    ".txnindex": lambda data, base: txn_index.write(txn_index.read(data)),
    ".snapshot": lambda data, base: producer_snapshot.write(producer_snapshot.read(data)),
}
FILES = sorted(path for path in VECTORS.glob("*/*-0/*") if path.suffix in BINARY)
READERS = {
    "index": lambda data: list(offset_index.read(data, 0)),
    "timeindex": lambda data: list(time_index.read(data, 0)),
    "txnindex": txn_index.read,
    "snapshot": producer_snapshot.read,
    "epochs": leader_epochs.read,
    "partition.metadata": partition_metadata.read,
    "meta.properties": meta_properties.read,
    "checkpoint": offset_checkpoints.read,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_written_back_byte_for_byte(path):
    data = path.read_bytes()
    written = BINARY[path.suffix](data, int(path.stem))
    assert written == data[: len(written)] and not any(data[len(written) :])


# ---- preallocated zeros


def test_preallocated_zeros_are_no_entries():
    folder = VECTORS / "segments" / "logappend-live-0"
    index = offset_index.read((folder / "00000000000000000000.index").read_bytes(), 0)
    assert (len(index), index.preallocated, len(index.used)) == (7, 4040, 56)
    times = time_index.read((folder / "00000000000000000000.timeindex").read_bytes(), 0)
    assert (len(times), times.preallocated) == (7, 4008)
    assert offset_index.read(bytes(80), 5) == offset_index.read(b"", 5)
    assert len(time_index.read(bytes(24), 5)) == 0


# ---- look-ups


def test_epochs_of_offsets():
    entries = leader_epochs.read(b"0\n3\n0 0\n2 100\n5 180\n")
    assert [leader_epochs.epoch_at(entries, offset) for offset in (0, 99, 100, 180)] == [0, 0, 2, 5]
    assert leader_epochs.epoch_at(entries[1:], 50) is None


# ---- text files


def test_offset_checkpoints():
    data = b"0\n2\norders 0 55\na.b-c_d 12 9223372036854775807\n"
    parsed = offset_checkpoints.read(data)
    assert parsed == {("orders", 0): 55, ("a.b-c_d", 12): 2**63 - 1}
    assert offset_checkpoints.read(b"") == {} == offset_checkpoints.read(b"0\n0\n")


def test_lines_are_split_as_by_java():
    assert leader_epochs.read(b"0\r\n2\r0 0 \r5\x0b\t1040\n") == ((0, 0), (5, 1040))
    assert list(offset_checkpoints.read("0\n1\nt\u2003 0 5\n".encode())) == [("t\u2003", 0)]
    padded = partition_metadata.read(b"Version:  0\n: pmqbwj8JRCSCfzvNTqatEx==")
    assert padded == (0, "pmqbwj8JRCSCfzvNTqatEw")


def test_meta_properties():
    data = b"#\n#Sat Nov 21 04:00:00 UTC 2026\ncluster.id=Y7n\\=K\ndirectory.id : gXa8ENUVWplkTL1NRuyDTA\n"
    data += b" node.id 1\nversion=1\nx=\\u00e9\\\n  y\n"
    parsed = meta_properties.read(data)
    assert parsed == (1, "Y7n=K", 1, "gXa8ENUVWplkTL1NRuyDTA", {"x": "\xe9y"})
    old = meta_properties.read(b"broker.id=7\nversion= 0 \t\n")
    assert (old.version, old.node_id, old.cluster_id) == (0, 7, None)


# ---- what is refused

# What is read, the reason, words of the message, the bytes.
REFUSED = r"""
index              | index_invalid      | no multiple of 8 | b"\0\0\0\0\0\0\0\1\1"
timeindex          | index_invalid      | no multiple of 12 | b"\1\1\1\1\1\1\1\1\1\1\1\1\1"
txnindex           | index_invalid      | no multiple of 34 | b"\0\1\0"
txnindex           | index_invalid      | version 1 | b"\0\1xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
snapshot           | snapshot_invalid   | 0 bytes | b""
snapshot           | snapshot_invalid   | version 2 | b"\0\2\0\0\0\0\0\0\0\0"
snapshot           | crc_mismatch       | stored 0x00000000 | b"\0\1\0\0\0\0\0\0\0\0"
snapshot           | snapshot_invalid   | 2147483647 entries | b"\0\1\0\0\0\0\x7f\xff\xff\xff"
snapshot           | snapshot_invalid   | -1 entries | b"\0\1\0\0\0\0\xff\xff\xff\xff"
epochs             | checkpoint_invalid | line 1: version 1 | b"1\n0\n"
epochs             | checkpoint_invalid | 2 entries are declared and 1 | b"0\n2\n0 0\n"
epochs             | checkpoint_invalid | line 3: 1 fields | b"0\n1\n0\n"
epochs             | checkpoint_invalid | line 3: the start offset is no number | b"0\n1\n0 x\n"
epochs             | checkpoint_invalid | outside | b"0\n1\n2147483648 0\n"
epochs             | checkpoint_invalid | 3 zero bytes | b"\0\0\0"
epochs             | checkpoint_invalid | not UTF-8 | b"0\n1\n\xff 0\n"
epochs             | checkpoint_invalid | no number | b"0\n1\n\xc2\xb2 0\n"
epochs             | checkpoint_invalid | line 3: 3 fields | b"0\n1\n 7 12\n"
epochs             | checkpoint_invalid | no number | b"0\n1\n7\xc2\xa0 12\n"
checkpoint         | checkpoint_invalid | 2 fields | b"0\n1\na 0\n"
partition.metadata | metadata_invalid   | 'version' is missing | b""
partition.metadata | metadata_invalid   | 'topic_id' is missing | b"version: 0\n"
partition.metadata | metadata_invalid   | 16 bytes | b"version: 0\ntopic_id: x\n"
partition.metadata | metadata_invalid   | 16 bytes | b"version: 0\ntopic_id: +AAAAAAAAAAAAAAAAAAAAA"
partition.metadata | metadata_invalid   | no number | b"version: 0 \ntopic_id: BBBBBBBBBBBBBBBBBBBBBB"
partition.metadata | metadata_invalid   | 'version: value' | b"version:0\ntopic_id:x"
partition.metadata | metadata_invalid   | all zeros | b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
meta.properties    | metadata_invalid   | neither 0 nor 1 | b"version=9\n"
meta.properties    | metadata_invalid   | node.id missing | b"version=1\ncluster.id=x\n"
meta.properties    | metadata_invalid   | four hexadecimal digits | b"version=0\nx=\\u12\n"
meta.properties    | metadata_invalid   | 16 bytes | b"version=0\ndirectory.id=x\n"
meta.properties    | metadata_invalid   | no number | b"version=1\nnode.id=one\n"
"""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_refused(row):
    reader, reason, words, data = (cell.strip() for cell in row.split(" | "))
    with pytest.raises(errors.CorruptRecordError, match=words) as caught:
        READERS[reader](ast.literal_eval(data))
    assert caught.value.reason == reason
    assert reason in errors.REASONS


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files_raise_only_kafka_errors(kind):
    """Random bytes, and good files with random changes."""
    chance = random.Random(kind)
    good = {
        "epochs": b"0\n2\n0 0\n1 5\n",
        "partition.metadata": b"version: 0\ntopic_id: pmqbwj8JRCSCfzvNTqatEw",
        "meta.properties": b"version=1\nnode.id=1\ncluster.id=x\\u0041\n",
        "checkpoint": b"0\n1\ntopic 0 5\n",
    }
    start = good.get(kind) or next(path for path in FILES if path.suffix == f".{kind}").read_bytes()
    refused = 0
    for _ in range(800):
        data = bytearray(start if chance.random() < 0.8 else chance.randbytes(chance.randrange(60)))
        for _ in range(chance.randrange(1, 4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            READERS[kind](bytes(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data))
        except errors.KafkaRecordError:
            refused += 1
    assert refused > 0
