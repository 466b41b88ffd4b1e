"""Checks of the records of good batches: offsets within their batch, UTF-8 header keys, minimal varints and unused
bits.

Offsets and header keys are decoded columns. The check of fields, `walk`, needs the bytes and takes some microseconds
per record: it is done with deep=True or for small inputs.


    record: length varint | attributes int8 | timestamp delta varlong | offset delta varint
            | key length varint, key | value length varint, value | header count varint
            | (key length varint, key | value length varint, value)*
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkarec.read.reader import decode
from kafkarec.tables.records import RecordColumns

from .batch_columns import BatchColumns
from .findings import FindingNotes, FindingPlace

COLUMNS = ("offset", "headers")
_REPLACED = "\ufffd".encode()


def runs(piece: RecordColumns) -> Iterator[tuple[int, int, int]]:
    """(row of the batch in `piece.batches`, start, stop of its records)."""
    at = before = 0
    for chunk, _, _ in piece._pieces:
        numbers = chunk.runs().cast("q").tolist()
        for batch, count in zip(numbers[::2], numbers[1::2], strict=True):
            yield before + batch, at, at + count
            at += count
        before += len(chunk.rows)


def check_offsets(piece: RecordColumns, rows: BatchColumns, notes: FindingNotes) -> None:
    """Checks the offsets of each batch's records against those of the batch."""
    offsets = piece.column("offset")
    bases, lasts = rows["base_offset"], rows["last_offset"]
    if _is_dense(rows) and offsets == list(range(bases[0], lasts[-1] + 1)):
        return
    for row, start, stop in runs(piece):
        base, last = bases[row], lasts[row]
        if base is not None and stop - start == last - base + 1:
            if offsets[start:stop] == list(range(base, last + 1)):
                continue
        elif stop == start:
            continue
        mine = offsets[start:stop]
        if mine != sorted(set(mine)):
            kind = "record_offsets_unordered" if rows["magic"][row] == 2 else "inner_offsets_unordered"
            at = next((i for i in range(1, len(mine)) if mine[i] <= mine[i - 1]), 0)
            notes.add(kind, f"offset {mine[at]} behind offset {mine[at - 1]}", rows.place(row))
        low, high = min(mine), max(mine)
        if base is not None and (low < base or high > last):
            detail = f"records of the offsets {low} to {high} in a batch of the offsets {base} to {last}"
            notes.add("record_offset_outside", detail, rows.place(row))
        elif base is None and high > last:
            detail = f"inner offset {high} in a wrapper of offset {last}"
            notes.add("inner_offset_above_wrapper", detail, rows.place(row))


def _is_dense(rows: BatchColumns) -> bool:
    """Whether each batch has as many records as offsets and follows the previous one without a gap: the usual case."""
    bases, lasts = rows["base_offset"], rows["last_offset"]
    if None in bases or list(bases[1:]) != list(rows["next_offset"][:-1]):
        return False
    return list(rows["record_count"]) == [last - base + 1 for base, last in zip(bases, lasts, strict=True)]


def check_header_keys(piece: RecordColumns, rows: BatchColumns, raw: Any, notes: FindingNotes) -> None:
    """For keys with U+FFFD, checks the stored bytes: U+FFFD was stored, or replaces invalid UTF-8."""
    if not any(_REPLACED in bytes(chunk.headers()[1]) for chunk, _, _ in piece._pieces if len(chunk)):
        return
    headers = piece.column("headers")
    for row, start, stop in runs(piece):
        if not any("\ufffd" in key for record in headers[start:stop] for key, _ in record):
            continue
        batch = raw(rows["position"][row], rows["size_in_bytes"][row])
        exact = decode(batch, columns=["offset", "headers"], control=True, header_keys="binary", check_crcs=False)
        for record in exact:
            bad = sum(not _is_utf8(key) for key, _ in record.headers)
            if bad:
                place = FindingPlace(rows["position"][row], record.offset)
                notes.add("header_key_not_utf8", f"a header key of offset {record.offset}", place, count=bad)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def walk(payload: Any, count: int) -> set[str]:
    """The kinds of anomalies in the records of a payload that was decoded without an error."""
    found: set[str] = set()
    at = 0
    for _ in range(count):
        length, at = _varint(payload, at, found)
        end = at + length
        if payload[at]:
            found.add("record_attributes_unknown")
        _, at = _varint(payload, at + 1, found, 10)
        _, at = _varint(payload, at, found)
        at = _field(payload, _field(payload, at, found), found)
        headers, at = _varint(payload, at, found)
        for _ in range(2 * headers):
            at = _field(payload, at, found)
        if at != end:
            return found  # not the bytes that were decoded: the file changes while it is read
    return found


def _field(payload: Any, at: int, found: set[str]) -> int:
    length, at = _varint(payload, at, found)
    if length < -1:
        found.add("length_below_minus_one")
    return at + max(length, 0)


def _varint(payload: Any, at: int, found: set[str], most: int = 5) -> tuple[int, int]:
    """(value, end position). Zig-zag; bits above the type's width are dropped, as in ByteUtils."""
    byte = payload[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift, begin = byte & 0x7F, 7, at - 1
    while byte >= 0x80 and at - begin < most:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    width = 32 if most == 5 else 64
    if byte == 0 or value >> width:
        found.add("varint_not_minimal")
    value &= (1 << width) - 1
    return (value >> 1) ^ -(value & 1), at
