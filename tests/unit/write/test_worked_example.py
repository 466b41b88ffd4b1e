"""The batch of docs/explanation/batch.md, byte for byte: each field with its size and value."""

from __future__ import annotations

import struct

import crc32c
import pytest

import kafkarec
from kafkarec.ops.explain import explain

TIME = 1714000000000
RECORDS = [{"timestamp": TIME, "value": value} for value in (b"hello", b"world")]
# struct's letter, field, value; the CRC is computed
HEADER = [
    ("q", "base_offset", 0),
    ("i", "batch_length", 73),
    ("i", "partition_leader_epoch", -1),
    ("b", "magic", 2),
    ("I", "crc", None),
    ("h", "attributes", 0),
    ("i", "last_offset_delta", 1),
    ("q", "base_timestamp", TIME),
    ("q", "max_timestamp", TIME),
    ("q", "producer_id", -1),
    ("h", "producer_epoch", -1),
    ("i", "base_sequence", -1),
    ("i", "record_count", 2),
]
# length 11, attributes 0, time +0, offset +0 or +1, no key, 5 bytes of value, no headers
BODY = b"\x16\x00\x00\x00\x01\x0ahello\x00" + b"\x16\x00\x00\x02\x01\x0aworld\x00"


def test_every_byte_of_the_batch() -> None:
    values = [0 if value is None else value for _, _, value in HEADER]
    layout = ">" + "".join(letter for letter, _, _ in HEADER)
    expected = bytearray(struct.pack(layout, *values) + BODY)
    expected[17:21] = crc32c.crc32c(bytes(expected[21:])).to_bytes(4, "big")
    batch = kafkarec.encode(RECORDS)
    assert batch == expected and len(batch) == 85
    assert expected[8:12].hex(" ") == "00 00 00 49" and expected[27:35].hex(" ") == "00 00 01 8f 12 5c 74 00"
    spans = explain(batch).spans[: len(HEADER)]
    assert [(span.path, span.length) for span in spans] == [(name, struct.calcsize(">" + c)) for c, name, _ in HEADER]


@pytest.mark.parametrize(("count", "messages", "batch"), [(1, 39, 73), (2, 78, 85), (3, 117, 97)])
def test_a_batch_is_smaller_than_messages_from_three_records_on(count: int, messages: int, batch: int) -> None:
    records = (RECORDS * 2)[:count]
    assert [len(kafkarec.encode(records, magic=magic)) for magic in (1, 2)] == [messages, batch]
