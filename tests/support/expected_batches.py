"""Rows, and the batch or the messages that `builders` makes of them: what encode must write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import builders

Row = tuple[int, int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def stamp(row: Row) -> int:
    return -1 if row[1] is None else row[1]


def expected_batch(rows: Sequence[Row], **header: Any) -> bytes:
    """Return one batch of magic 2; base offset and base timestamp are those of the first row."""
    base, time = rows[0][0], stamp(rows[0])
    parts = [
        builders.record(
            offset_delta=row[0] - base,
            timestamp_delta=stamp(row) - time,
            key=row[2],
            value=row[3],
            headers=[(name.encode(), value) for name, value in row[4]],
        )
        for row in rows
    ]
    fields: dict[str, Any] = {
        "base_offset": base,
        "base_timestamp": time,
        "max_timestamp": max(map(stamp, rows)),
        "last_offset_delta": rows[-1][0] - base,
        "leader_epoch": -1,
    }
    return builders.batch(parts, **{**fields, **header})


def row(offset: int, timestamp: int | None = 1000, key: bytes | None = b"k", value: bytes | None = b"v") -> Row:
    return offset, timestamp, key, value, []


def messages(rows: Sequence[Row], magic: int, base: int = 0, **fields: Any) -> bytes:
    return b"".join(
        builders.message(magic=magic, offset=one[0] - base, timestamp=stamp(one), key=one[2], value=one[3], **fields)
        for one in rows
    )
