"""Converts Python records to rows for the writer: tuples (offset, timestamp in ms, key, value, headers) of exact types.

offset        int or None                     timestamp    int ms, an aware datetime, None
key, value    bytes or another buffer, None   headers      pairs (str or UTF-8 bytes, bytes or None), dicts
                                              with "key" and "value", or a mapping
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkarec.tables.records import Record

from .fields import content, fitting, header_pair, timestamp_of

NAMES = ("offset", "timestamp", "key", "value", "headers")
_IGNORED_NAMES = {"topic", "partition"}
Row = tuple[int | None, int | None, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


def row_of(record: Any, number: int) -> Row:
    """A record of any supported type as a row. A TypeError or ValueError names the record and the field."""
    offset, timestamp, key, value, headers = _fields(record, number)
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    if not isinstance(pairs, Iterable):
        raise TypeError(f"record {number}: headers are pairs (key, value), not {type(headers).__name__}")
    try:
        return (
            None if offset is None else fitting("offset", offset, 64),
            timestamp_of(timestamp),
            content("key", key),
            content("value", value),
            tuple(map(header_pair, pairs)),
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"record {number}: {error}") from None


def _fields(record: Any, number: int) -> tuple[Any, ...]:
    if isinstance(record, Record):
        if record.is_control:
            raise ValueError(f"record {number} is a control record: pass RecordColumns, or use a RecordBatchBuilder")
        return record.offset, record.timestamp, record.key, record.value, record.headers
    if isinstance(record, tuple) and len(record) == len(NAMES):
        return tuple(record)
    if isinstance(record, Mapping):
        unknown = sorted(map(str, record.keys() - {*NAMES, *_IGNORED_NAMES}))
        if unknown:
            raise ValueError(f"record {number}: unknown {', '.join(unknown)}; a record has {', '.join(NAMES)}")
        return tuple(record.get(name) for name in NAMES)
    raise TypeError(
        f"record {number}: a Record, a dict or a tuple ({', '.join(NAMES)}) is needed, not {type(record).__name__}"
    )


_SLOTS = tuple(vars(Record)[name] for name in ("offset", "timestamp", "key", "value", "_pairs", "is_control"))

RECORD_CONVERSION = (row_of, Record, _SLOTS, (*NAMES, *sorted(_IGNORED_NAMES)))
"""For the compiled writer: how to convert any record; the slots of Record and names of dicts that it reads itself."""
