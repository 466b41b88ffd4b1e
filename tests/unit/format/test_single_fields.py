"""Where the fields of any batch begin, and which messages a wrapper has; explain and dump show all other fields."""

from __future__ import annotations

import struct
from itertools import pairwise

import builders
import pytest

from kafkarec.format import layout, single_fields
from kafkarec.format.single_fields import FieldFault


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
