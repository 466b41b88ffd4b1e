"""A slow, simple reader of magic 3 and of header-first batches, as docs/explanation/magic-3.md describes them.

Plain Python, no code shared with kafkarec: only the helpers of the oracle for magic 2.
"""

from __future__ import annotations

import struct

import crc32c
import oracle
from oracle_codecs import Refused, decompress, open_only


def decode(data: bytes, *, header_first: bool = False) -> oracle.Verdict:
    """Return all batches with their records, or the first error."""
    verdict = oracle.Verdict(*oracle.frames(data, magics=(3,)))
    for batch in verdict.batches:
        try:
            _read_batch(batch, header_first)
        except Refused as refusal:
            verdict.error = str(refusal)
            break
    else:
        if verdict.remaining and verdict.error is None:
            verdict.error = "the last batch is cut"
    return verdict


def _read_batch(batch: oracle.Batch, header_first: bool):
    raw = batch.raw
    if len(raw) < 44:
        raise Refused("batch below 44 bytes")
    (crc,) = struct.unpack_from(">I", raw, 17)
    if crc != crc32c.crc32c(raw[21:]):
        raise Refused("crc")
    attributes, pid, producer_epoch, base_sequence, count = struct.unpack_from(">hqhii", raw, 21)
    if bool(attributes & 0x100) != header_first:
        raise Refused("the other form")
    last_delta, at = oracle.varint(raw, 41, 5)
    base_timestamp, at = oracle.varint(raw, at, 10)
    max_delta, at = oracle.varint(raw, at, 10)
    max_timestamp = oracle.wrap(base_timestamp + max_delta, 64)
    # the columns are those of the magic 2 header with the same fields
    header = raw[:21] + struct.pack(
        ">hiqqqhii", attributes, last_delta, base_timestamp, max_timestamp, pid, producer_epoch, base_sequence, count
    )
    batch.columns = oracle.batch_columns(header, batch.position) | {"size_in_bytes": len(raw)}
    fields = _fields(raw[at:], attributes, count, header_first)
    batch.records = [oracle.record_columns(header, *one) for one in fields]


def _fields(payload: bytes, attributes: int, count: int, header_first: bool) -> list[tuple]:
    codec = attributes & 7
    if codec > 4 or count < 0:
        raise Refused("codec or count")
    if count == 0:
        open_only(codec, payload, 2)
        return []
    if not header_first:
        return _read(decompress(codec, payload, 2), None, attributes, count)
    if not attributes & 0x200:
        content = decompress(codec, payload, 2)
        return _read(content, _after_fields(content, attributes, count), attributes, count)
    length, at = oracle.varint(payload, 0, 5)
    if not 0 <= length <= len(payload) - at:
        raise Refused("first frame")
    first = decompress(codec, payload[at : at + length], 2)
    return _read(first + decompress(codec, payload[at + length :], 2), len(first), attributes, count)


def _after_fields(content: bytes, attributes: int, count: int) -> int:
    """Where the fields of header-first records end."""
    at = 0
    for _ in range(count):
        _, at = oracle.varint(content, at, 5)
        at += not attributes & 0x80
        for longest in (10, 5, 5, 5):
            _, at = oracle.varint(content, at, longest)
        headers, at = oracle.varint(content, at, 5)
        if headers < 0 or headers > len(content):
            raise Refused("header count")
        for _ in range(2 * headers):
            _, at = oracle.varint(content, at, 5)
    return at


def _read(content: bytes, data_at: int | None, attributes: int, count: int) -> list[tuple]:
    """The fields of all records. data_at: where keys, values and headers begin; None: between the other fields."""
    data = data_at
    fields_end = len(content) if data is None else data
    at, found = 0, []

    def take():
        """A length, and what has it."""
        nonlocal at, data
        length, at = oracle.varint(content[:end], at, 5)
        if length < 0:
            return None
        start = at if data is None else data
        if length > (end if data is None else len(content)) - start:
            raise Refused("length overruns")
        if data is None:
            at += length
        else:
            data += length
        return content[start : start + length]

    for _ in range(count):
        length, at = oracle.varint(content[:fields_end], at, 5)
        if length < 0:
            raise Refused("record length")
        begin, begin_data = at, data
        end = min(at + length, fields_end)
        at += not attributes & 0x80
        timestamp_delta, at = oracle.varint(content[:end], at, 10)
        offset_delta, at = oracle.varint(content[:end], at, 5)
        key, value = take(), take()
        header_count, at = oracle.varint(content[:end], at, 5)
        if not 0 <= header_count <= len(content):
            raise Refused("header count")
        headers = []
        for _ in range(header_count):
            name = take()
            if name is None:
                raise Refused("header key is null")
            headers.append((name, take()))
        if at - begin + (0 if data is None else data - begin_data) != length:
            raise Refused("record size differs")
        found.append((timestamp_delta, offset_delta, key, value, headers))
    if at != fields_end or (data is not None and data != len(content)):
        raise Refused("bytes behind the last record")
    return found
