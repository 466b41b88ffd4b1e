"""Single records and messages, field by field: what is read of good ones and of those that are cut or impossible."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import builders
import pytest

from kafkarec.format import layout, single_fields
from kafkarec.format.single_fields import FieldFault, Fields

PLAIN = b"\x00\x02\x04"  # attributes, timestamp delta 1, offset delta 2
GOOD = {"attributes": 0, "timestamp_delta": 1, "offset_delta": 2}
NULLS = GOOD | {"key_length": -1, "value_length": -1}


class Case(NamedTuple):
    """Bytes of a record, and the value of each field that can be read of it. `sizes`: bytes of a field, if not 1 or
    those of its value; `stop`: the end by its length."""

    data: bytes
    values: dict[str, Any]
    stop: int | None
    fault: FieldFault | None = None
    of_last: bool = False
    sizes: Mapping[str, int] = MappingProxyType({})
    padded: tuple[str, ...] = ()


RECORDS = {
    "key and value": Case(
        b"\x12" + PLAIN + b"\x02k\x04vw\x00",
        {"length": 9} | GOOD | {"key_length": 1, "key": b"k", "value_length": 2, "value": b"vw", "header_count": 0},
        10,
    ),
    "null and empty": Case(
        b"\x0c" + PLAIN + b"\x01\x00\x00",
        {"length": 6} | GOOD | {"key_length": -1, "value_length": 0, "value": b"", "header_count": 0},
        7,
    ),
    "any negative length is null": Case(
        b"\x0c" + PLAIN + b"\x03\x05\x00",
        {"length": 6} | GOOD | {"key_length": -2, "value_length": -3, "header_count": 0},
        7,
    ),
    "headers": Case(
        b"\x16" + PLAIN + b"\x01\x01\x04\x02h\x01\x00\x00",
        {"length": 11}
        | NULLS
        | {"header_count": 2}
        | {"headers[0].key_length": 1, "headers[0].key": b"h", "headers[0].value_length": -1}
        | {"headers[1].key_length": 0, "headers[1].key": b"", "headers[1].value_length": 0, "headers[1].value": b""},
        12,
    ),
    "bytes of the next record": Case(
        b"\x0c" + PLAIN + b"\x01\x01\x00\xff\xff",
        {"length": 6} | NULLS | {"header_count": 0},
        7,
    ),
    "varints of several bytes": Case(
        b"\x2a\x00" + b"\xff" * 9 + b"\x01" + b"\xfe\xff\xff\xff\x0f" + b"\x81\x00\x01\x80\x00",
        {"length": 21, "attributes": 0, "timestamp_delta": -(2**63), "offset_delta": 2**31 - 1}
        | {"key_length": -1, "value_length": -1, "header_count": 0},
        22,
        sizes={"timestamp_delta": 10, "offset_delta": 5, "key_length": 2, "header_count": 2},
        padded=("key_length", "header_count"),
    ),
    "no bytes": Case(b"", {}, None, FieldFault("message_truncated", 1, 0, "a varint continues beyond the end")),
    "a varint that the batch cuts": Case(
        b"\x80\x80", {}, None, FieldFault("message_truncated", 3, 2, "a varint continues beyond the end")
    ),
    "a varint that the record cuts": Case(
        b"\x08" + PLAIN + b"\x80\x00\x00",
        {"length": 4} | GOOD,
        5,
        FieldFault("message_truncated", 2, 1, "a varint continues beyond the end"),
    ),
    "an impossible varint": Case(
        b"\x14\x00\x02\xff\xff\xff\xff\xff\x00\x00\x00",
        {"length": 10, "attributes": 0, "timestamp_delta": 1},
        11,
        FieldFault("varint_too_long", detail="no end within 5 bytes"),
    ),
    "an impossible varlong": Case(
        b"\x1a\x00" + b"\xff" * 10 + b"\x00\x00",
        {"length": 13, "attributes": 0},
        14,
        FieldFault("varint_too_long", detail="no end within 10 bytes"),
    ),
    "a length varint without an end": Case(
        b"\xff" * 6, {}, None, FieldFault("varint_too_long", detail="no end within 5 bytes")
    ),
    "a length beyond the batch": Case(
        b"\x0e" + PLAIN + b"\x01\x01\x00", {"length": 7}, None, FieldFault("record_length_invalid", 6, 7), True
    ),
    "a negative length": Case(b"\x01" + PLAIN, {"length": -1}, None, FieldFault("record_length_invalid", 3, -1), True),
    "a length of 0": Case(b"\x00\x00", {"length": 0}, 1, FieldFault("message_truncated", 1, 0)),
    "a key beyond the record": Case(
        b"\x0c" + PLAIN + b"\x08k\x00k",
        {"length": 6} | GOOD | {"key_length": 4},
        7,
        FieldFault("key_length_invalid", 2, 4),
        True,
    ),
    "a value beyond the record": Case(
        b"\x0c" + PLAIN + b"\x01\x04v\x00",
        {"length": 6} | GOOD | {"key_length": -1, "value_length": 2},
        7,
        FieldFault("value_length_invalid", 1, 2),
        True,
    ),
    "more headers than bytes": Case(
        b"\x10" + PLAIN + b"\x01\x01\x04\x00\x00",
        {"length": 8} | NULLS | {"header_count": 2},
        9,
        FieldFault("header_count_invalid", 1, 2),
        True,
    ),
    "a negative header count": Case(
        b"\x0c" + PLAIN + b"\x01\x01\x01",
        {"length": 6} | NULLS | {"header_count": -1},
        7,
        FieldFault("header_count_invalid", 0, -1),
        True,
    ),
    "a header key of null": Case(
        b"\x10" + PLAIN + b"\x01\x01\x02\x01\x01",
        {"length": 8} | NULLS | {"header_count": 1, "headers[0].key_length": -1},
        9,
        FieldFault("header_key_invalid", 1, -1),
        True,
    ),
    "a header value beyond the record": Case(
        b"\x12" + PLAIN + b"\x01\x01\x02\x02h\x04",
        {"length": 9}
        | NULLS
        | {"header_count": 1}
        | {"headers[0].key_length": 1, "headers[0].key": b"h", "headers[0].value_length": 2},
        10,
        FieldFault("header_value_invalid", 0, 2),
        True,
    ),
    "bytes after the headers": Case(
        b"\x10" + PLAIN + b"\x01\x01\x00\x00\x00",
        {"length": 8} | NULLS | {"header_count": 0},
        9,
        FieldFault("record_structure_invalid", 8, 6),
    ),
}


def check(read: Fields, values: dict[str, Any], at: int, sizes: Mapping[str, int]) -> None:
    """Compares the fields, and where each begins and ends; `sizes`: of those whose value does not say it."""
    assert read.values() == values
    ends = [at, *(end for _, end, *_ in read.fields)]
    found = {name: b - a for (name, *_), (a, b) in zip(read.fields, pairwise(ends), strict=True)}
    assert found == {n: sizes.get(n, len(v) if isinstance(v, bytes) else 1) for n, v in values.items()}


@pytest.mark.parametrize("before", [b"", b"\x80\x00"])
@pytest.mark.parametrize("case", RECORDS.values(), ids=RECORDS)
def test_a_record_is_read_up_to_its_fault(case: Case, before: bytes) -> None:
    at, data = len(before), before + case.data
    read = single_fields.record(memoryview(data + b"\x00" * 20), at, len(data))  # 20 bytes after the batch
    check(read, case.values, at, case.sizes)
    assert read.stop == (None if case.stop is None else case.stop + at)
    assert (read.fault, read.of_last) == (case.fault, case.of_last)
    assert tuple(name for name, _, _, padded in read.fields if padded) == case.padded


@pytest.mark.parametrize("name", [name for name, case in RECORDS.items() if not case.fault])
def test_a_record_that_is_cut_anywhere_has_a_fault(name: str) -> None:
    case = RECORDS[name]
    assert case.stop is not None
    for stop in range(case.stop):
        read = single_fields.record(memoryview(case.data), 0, stop)
        assert read.fault and read.values().items() <= case.values.items()


HEADER = layout.V2Header(7, 49, 3, 2, 2**32 - 1, -1, -2, -(2**63), 2**63 - 1, 5, -1, -1, 0)
HEADER_SIZES = [8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4]


@pytest.mark.parametrize("size", range(layout.V2_OVERHEAD + 1))
def test_a_header_is_read_up_to_the_field_that_is_cut(size: int) -> None:
    ends = list(accumulate(HEADER_SIZES))
    whole = sum(end <= size for end in ends)
    read = single_fields.header(memoryview(layout.V2.pack(*HEADER)), size)
    assert read.values() == dict(list(HEADER._asdict().items())[:whole])
    assert [end for _, end, *_ in read.fields] == ends[:whole]
    assert (read.stop, read.of_last) == (size, False)
    cut = None
    if whole < len(ends):
        cut = FieldFault("message_truncated", HEADER_SIZES[whole], size - sum(HEADER_SIZES[:whole]))
    assert read.fault == cut


@pytest.mark.parametrize(
    ("size", "names"),
    [
        (8, ["base_offset"]),
        (12, ["base_offset", "batch_length"]),
        (16, ["base_offset", "batch_length"]),
        (17, ["base_offset", "batch_length", "crc_or_leader_epoch", "magic"]),
        (60, ["base_offset", "batch_length", "crc_or_leader_epoch", "magic"]),
    ],
)
def test_the_start_of_any_batch(size: int, names: list[str]) -> None:
    read = single_fields.start(memoryview(struct.pack(">qiIb", 7, 5, 2**32 - 1, -3) + bytes(60))[:size])
    assert read.values() == {
        name: {"base_offset": 7, "batch_length": 5, "crc_or_leader_epoch": 2**32 - 1, "magic": -3}[name]
        for name in names
    }
    assert bool(read.fault) == (size < 12)


FIXED = {"offset": 8, "size": 4, "crc": 4, "magic": 1, "attributes": 1, "timestamp": 8}
LENGTH_SIZES = {"key_length": 4, "value_length": 4}


@pytest.mark.parametrize("magic", [0, 1, 2, 0xFF])
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("value", [None, b"", b"value"])
def test_a_message_is_read_up_to_the_field_that_is_cut(magic: int, key: bytes | None, value: bytes | None) -> None:
    data = bytearray(b"\xff" * 3 + builders.message(magic=bool(magic), offset=-9, key=key, value=value, attributes=8))
    data[3 + layout.MESSAGE_AT.magic] = magic
    numbers = struct.unpack_from(">qiIbbq" if magic else ">qiIbb", data, 3)
    values: dict[str, Any] = dict(zip(FIXED, numbers, strict=False))
    for name, blob in (("key", key), ("value", value)):
        values |= {f"{name}_length": -1} if blob is None else {f"{name}_length": len(blob), name: blob}
    whole = single_fields.message(memoryview(data), 3, len(data))
    check(whole, values, 3, FIXED | LENGTH_SIZES)
    assert list(whole.values()) == list(values)
    assert (whole.stop, whole.fault) == (len(data), None)
    for stop in range(3, len(data)):
        read = single_fields.message(memoryview(data), 3, stop)
        known = read.values()
        assert read.fields == whole.fields[: len(known)]
        assert read.fault is not None and read.fault.reason == "message_truncated"
        assert read.of_last == (list(known)[-1:] in (["key_length"], ["value_length"]) and read.fields[-1][2] > 0)


@pytest.mark.parametrize(
    ("changed", "last", "fault"),
    [
        ({"key_length": 9}, "key_length", FieldFault("message_truncated", 9, 6)),
        ({"value_length": 9}, "value_length", FieldFault("message_truncated", 9, 1)),
    ],
)
def test_a_length_beyond_its_message(changed: dict[str, int], last: str, fault: FieldFault) -> None:
    data = builders.message(**changed)  # type: ignore[arg-type]
    read = single_fields.message(memoryview(data + b"\x00" * 20), 0, len(data))
    assert (list(read.values())[-1], read.fault, read.of_last) == (last, fault, True)


def sized(size: int) -> bytes:
    return struct.pack(">qi", 3, size) + bytes(max(0, size))


@pytest.mark.parametrize(
    ("data", "ends", "fault"),
    [
        (b"", [], FieldFault("wrapper_empty", 1, 0)),
        (sized(14)[:25], [], FieldFault("wrapper_empty", 1, 0)),
        (sized(14) * 2, [26, 52], None),
        (sized(14) + sized(20)[:-1], [26], None),  # an incomplete one is dropped
        (sized(14) + bytes(11), [26], None),
        (sized(13), [], FieldFault("inner_size_too_small", 14, 13)),
        (sized(14) + sized(-1), [26], FieldFault("inner_size_too_small", 14, -1)),
        (sized(14) + sized(41), [26], FieldFault("limit_exceeded", 40, 41)),
    ],
)
def test_inner_messages_follow_each_other_by_their_sizes(
    data: bytes, ends: list[int], fault: FieldFault | None
) -> None:
    frames, found = single_fields.inner_messages(memoryview(data), 40)
    assert [(frame.start, frame.stop) for frame in frames] == list(pairwise([0, *ends]))
    assert found == fault


@pytest.mark.parametrize(
    ("magic", "offset", "inner", "shift", "fault"),
    [
        (0, 9, [7, 8, 9], 0, None),  # absolute
        (1, 9, [0, 1, 2], 7, None),
        (1, 2, [0, 1, 2], 0, None),
        (1, 0, [7, 8, 9], 0, None),
        (1, 1, [0, 1, 2], -1, FieldFault("wrapper_offset_too_small", 2, 1)),
        (1, 2**63 - 1, [-1], -(2**63), None),
        (1, 9, [], 0, None),
    ],
)
def test_what_is_added_to_the_inner_offsets(
    magic: int, offset: int, inner: list[int], shift: int, fault: FieldFault | None
) -> None:
    data = memoryview(b"".join(builders.message(magic=magic, offset=one) for one in inner))
    wrapper = layout.MessageHeader(offset, 0, 0, magic, 1)
    frames, _ = single_fields.inner_messages(data)
    assert single_fields.inner_shift(wrapper, data, frames) == (shift, fault)
