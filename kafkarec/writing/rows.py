"""Rows of Python as the desk takes them: tuples (offset, timestamp in ms, key, value, headers) of exact types.

    offset        int or None                     timestamp    int ms, an aware datetime, None
    key, value    bytes or another buffer, None   headers      pairs (str or UTF-8 bytes, bytes or None), or a mapping
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from kafkarec.records import Record

NAMES = ("offset", "timestamp", "key", "value", "headers")
_BESIDE = {"topic", "partition"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LEAST, _MOST = -(2**63), 2**63 - 1
_PAIR = 2

Row = tuple[int | None, int | None, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


_NUMBER = {int, type(None)}
_DATA = {bytes, type(None)}


def row_of(record: Any, number: int, careful: bool = False) -> Row:
    """Any record as a row; TypeError and ValueError name the record and the field, never their content.

    `careful`: numbers are looked at too; the desk asks again so when one does not fit.
    """
    offset, timestamp, key, value, headers = _fields(record, number)
    if not careful and not headers and {type(offset), type(timestamp)} <= _NUMBER and {type(key), type(value)} <= _DATA:
        return offset, timestamp, key, value, ()
    where = f"record {number}"
    return (
        _whole(offset, f"{where}: the offset"),
        _milliseconds(timestamp, f"{where}: the timestamp"),
        _bytes(key, f"{where}: the key"),
        _bytes(value, f"{where}: the value"),
        _headers(headers, where),
    )


def _fields(record: Any, number: int) -> tuple[Any, ...]:
    if isinstance(record, Record):
        if record.is_control:
            raise ValueError(f"record {number} is a control record: give the columns that it is in, or the builder")
        return record.offset, record.timestamp, record.key, record.value, record.headers
    if isinstance(record, tuple) and len(record) == len(NAMES):
        return tuple(record)
    if isinstance(record, Mapping):
        unknown = sorted(map(str, record.keys() - {*NAMES, *_BESIDE}))
        if unknown:
            raise ValueError(f"record {number}: unknown {', '.join(unknown)}; a record has {', '.join(NAMES)}")
        return tuple(record.get(name) for name in NAMES)
    raise TypeError(
        f"record {number}: a Record, a dict or a tuple ({', '.join(NAMES)}) is needed, not {type(record).__name__}"
    )


def _whole(number: Any, what: str) -> int | None:
    if number is None:
        return None
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} is an int or None, not {type(number).__name__}")
    found = index(number)
    if not _LEAST <= found <= _MOST:
        raise ValueError(f"{what} does not fit 64 bits")
    return found


def _milliseconds(time: Any, what: str) -> int | None:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"{what} is a datetime without a time zone; use an aware one or ms")
        return (time - _EPOCH) // _MS
    return _whole(time, what)


def _bytes(data: Any, what: str) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        raise TypeError(f"{what} is bytes or None, not str; text is encoded by the caller")
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"{what} is bytes or None, not {type(data).__name__}") from None


def _headers(headers: Any, where: str) -> tuple[tuple[bytes, bytes | None], ...]:
    if headers is None:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return tuple(_pair(pair, f"{where}, header {place}") for place, pair in enumerate(pairs))
    except TypeError as error:
        if str(error).startswith(where):
            raise
        raise TypeError(f"{where}: the headers are pairs (key, value), not {type(headers).__name__}") from None


def _pair(pair: Any, where: str) -> tuple[bytes, bytes | None]:
    if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != _PAIR:
        raise TypeError(f"{where} is no pair (key, value)")
    key, value = pair
    if key is None:
        raise ValueError(f"{where}: a key is not null")
    if isinstance(key, str):
        try:
            key = key.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{where}: the key is no Unicode text (an unpaired surrogate)") from None
    found = _bytes(key, f"{where}: the key")
    assert found is not None
    return found, _bytes(value, f"{where}: the value")
