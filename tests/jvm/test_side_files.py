"""The text files beside a log and in a data folder, spoiled at random: read or refused as by brokers."""

import random
import re

import jvm_oracle

from kafkarec.errors import CorruptRecordError
from kafkarec.sidecars import leader_epochs, meta_properties, offset_checkpoints, partition_metadata

_ID = "gXa8ENUVWplkTL1NRuyDTA"
SOUND = {
    "epochs": [b"0\n2\n0 0\n5 1040\n", b"0\n0\n", leader_epochs.write([(0, 7), (3, 2**40)])],
    "offsets": [b"0\n2\norders 0 55\norders 1 12\n", b"0\n1\na.b-c_d 0 0\n"],
    "topic": [partition_metadata.write(_ID), f"version: 1\ntopic_id: {_ID}==\n".encode()],
    "meta": [
        f"#\n#Sat Nov 21 04:00:00 UTC 2026\ncluster.id=Y7\ndirectory.id={_ID}\nnode.id=1\nversion=1\n".encode(),
        b"version : 0\nbroker.id 3\nother\\ name=a\\u00e9\\\n   b\n",
    ],
}
# What is put in the place of some bytes, besides random ones.
PIECES = [
    b"",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\t",
    b"\f",
    b"\0",
    b"0",
    b"-1",
    b"+1",
    b"2147483648",
    b"9" * 20,
    b"\\",
    b"\\u12",
]
PIECES += [
    b"#",
    b"!",
    b"=",
    b":",
    "é".encode(),
    b"\xff",
    "٣".encode(),
    b"version",
    b"node.id",
    b"A" * 22,
    b"\x0b",
    b"\x1c",
]


def spoiled(data, rng):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
        start = rng.randrange(len(data) + 1)
        stop = min(start + rng.choice([0, 0, 1, 2, len(data)]), len(data))
        piece = rng.choice(PIECES) if rng.random() < 0.8 else rng.randbytes(1)
        data = data[:start] + piece + data[stop:]
    return data


def _meta(data):
    found = meta_properties.read(data)
    ids = {"cluster.id": found.cluster_id, "directory.id": found.directory_id}
    ids |= {"node.id" if found.version else "broker.id": found.node_id, "version": found.version}
    known = found.others | {name: value for name, value in ids.items() if value is not None}
    return [f"{name}={value}" for name, value in sorted(known.items())]


READ = {
    "epochs": lambda data: [f"{one.epoch} {one.start_offset}" for one in leader_epochs.read(data)],
    "offsets": lambda data: sorted(f"{t} {p} {offset}" for (t, p), offset in offset_checkpoints.read(data).items()),
    "topic": lambda data: [str(value) for value in partition_metadata.read(data)],
    "meta": _meta,
}


def ours(kind, data):
    try:
        return "\t".join(READ[kind](data))
    except CorruptRecordError:
        return "refused"


def test_spoiled_text_files_are_read_or_refused_as_by_the_broker(kafka, tmp_path):
    rng, expected = random.Random(7), []
    for number in range(jvm_oracle.count(3000)):
        kind = rng.choice([*SOUND])
        data = spoiled(rng.choice(SOUND[kind]), rng)
        if kind == "topic":  # whether a broker reads on depends on its buffer
            data = b"\n".join(re.split(rb"\r\n?|\n", data)[:2])
        (tmp_path / f"{number:06}.{kind}").write_bytes(data)
        expected.append((kind, data, ours(kind, data)))
    answers = kafka.lines("side files", tmp_path)
    theirs = [line if line == "refused" else bytes.fromhex(line).decode() for line in answers]
    assert [one for one, line in zip(expected, theirs, strict=True) if one[2] != line] == []
    refused = {kind: sum(one[0] == kind and one[2] == "refused" for one in expected) for kind in SOUND}
    assert min(refused.values()) > 50 and len(set(theirs)) > 100
