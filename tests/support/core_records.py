"""The fields of a magic 2 record as bytes, and bodies of records that are refused."""

from __future__ import annotations

from builders import varint
from core_reading import INT_MAX, INT_MIN

# field of a record, in the order of its bytes -> those of a good one
GOOD = {
    "attributes": b"\x00",
    "timestamp_delta": varint(5),
    "offset_delta": varint(3),
    "key_length": varint(3),
    "key": b"key",
    "value_length": varint(5),
    "value": b"value",
    "header_count": varint(1),
    "header_key_length": varint(2),
    "header_key": b"hk",
    "header_value_length": varint(3),
    "header_value": b"hv!",
}
LENGTHS = {"key_length": 3, "value_length": 5, "header_count": 1, "header_key_length": 2, "header_value_length": 3}


def body(**spoiled: bytes) -> bytes:
    return b"".join({**GOOD, **spoiled}.values())


def near(exact: int) -> set[int]:
    others = (INT_MIN, -100, -2, -1, 0, 1, 63, 64, 8191, 8192, INT_MAX - 1, INT_MAX)
    return {*others, *range(exact - 1, exact + 3)}


# reason: (bytes after the record's length field, expected, found); without refusals of the record's own length
REFUSED: dict[str, list[tuple[bytes, int | None, int | None]]] = {
    "key_length_invalid": [
        (b"\0\0\0" + varint(2) + b"k", 1, 2),
        (b"\0\0\0" + varint(1), 0, 1),
        (b"\0\0\0" + varint(INT_MAX) + b"\1\0", 2, INT_MAX),
    ],
    "value_length_invalid": [
        (b"\0\0\0\1" + varint(2) + b"v", 1, 2),
        (b"\0\0\0\1" + varint(1), 0, 1),
        (b"\0\0\0\1" + varint(INT_MAX) + b"v\0", 2, INT_MAX),
    ],
    "header_count_invalid": [
        (b"\0\0\0\1\1" + varint(-1), 0, -1),
        (b"\0\0\0\1\1" + varint(1), 0, 1),
        (b"\0\0\0\1\1" + varint(1) + b"\0", 0, 1),
        (b"\0\0\0\1\1" + varint(2) + b"\0\1\0", 1, 2),
        (b"\0\0\0\1\1" + varint(INT_MAX) + b"\0\1\0\1", 2, INT_MAX),
    ],
    "header_key_invalid": [
        (b"\0\0\0\1\1\2" + varint(-1) + b"\1", 1, -1),
        (b"\0\0\0\1\1\2" + varint(2) + b"h", 1, 2),
        (b"\0\0\0\1\1\2" + varint(INT_MAX) + b"\1", 1, INT_MAX),
    ],
    "header_value_invalid": [
        (b"\0\0\0\1\1\2\0" + varint(1), 0, 1),
        (b"\0\0\0\1\1\2\0" + varint(2) + b"h", 1, 2),
        (b"\0\0\0\1\1\2\0" + varint(INT_MAX), 0, INT_MAX),
        (b"\0\0\0\1\1\6\0\1\0\1\0" + varint(9), 0, 9),
    ],
    "record_structure_invalid": [(b"\0\0\0\1\1\0" + b"!", 7, 6), (b"\0\0\0\1\1\2\0\1" + b"!!", 10, 8)],
    "varint_too_long": [
        (b"\0" + b"\x80" * 10 + b"\0\0\1\1\0", None, None),
        (b"\0\0" + b"\x80" * 5 + b"\0\1\1\0", None, None),
        (b"\0\0\0" + b"\x80" * 5 + b"\0\1\0", None, None),
        (b"\0\0\0\1" + b"\x80" * 5 + b"\0\0", None, None),
        (b"\0\0\0\1\1" + b"\x80" * 5 + b"\0", None, None),
        (b"\0\0\0\1\1\2" + b"\x80" * 5 + b"\0\1", None, None),
        (b"\0\0\0\1\1\2\0" + b"\x80" * 5 + b"\1", None, None),
    ],
    "message_truncated": [
        *((b"\0\0\0\1\1\0"[:size], 1, 0) for size in range(6)),
        (b"\0\0\0\1\1\2\x80\x80", 1, 0),
        (b"\0\0\0\1\1\2\0\x80", 1, 0),
    ],
}
