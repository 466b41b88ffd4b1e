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
    batch.records = [oracle.record_columns(header, *one) for one in _fields(raw[at:], attributes, count)]


def _fields(payload: bytes, attributes: int, count: int) -> list[tuple]:
    codec = attributes & 7
    if codec > 4 or count < 0:
        raise Refused("codec or count")
    if count == 0:
        open_only(codec, payload, 2)
        return []
    has_attributes = not attributes & 0x80
    if not attributes & 0x100:
        content = decompress(codec, payload, 2)
    elif not attributes & 0x200:
        content = _as_one(decompress(codec, payload, 2), count, has_attributes)
    else:
        length, at = oracle.varint(payload, 0, 5)
        if not 0 <= length <= len(payload) - at:
            raise Refused("first frame")
        fields, data = (decompress(codec, frame, 2) for frame in (payload[at : at + length], payload[at + length :]))
        content = _as_one(fields + data, count, has_attributes, len(fields))
    return oracle.record_fields(content, count, has_attributes=has_attributes)


def _as_one(content: bytes, count: int, has_attributes: bool, fields_end: int | None = None) -> bytes:
    """Header-first records with each key, value, header key and header value behind its length, as in other batches.
    fields_end: where the fields must end."""
    at = 0
    lengths = []  # (position behind it, length)

    def number(longest: int = 5) -> int:
        nonlocal at
        value, at = oracle.varint(content, at, longest)
        return value

    for _ in range(count):
        number()
        at += has_attributes
        number(10)
        number()
        for _ in ("key", "value"):
            length = number()
            lengths.append((at, length))
        for _ in range(2 * number()):
            length = number()
            lengths.append((at, length))
    if fields_end not in (None, at):
        raise Refused("the first frame has not all fields, or more")
    parts, begin, data = [], 0, at
    for behind, length in lengths:
        if length > len(content) - data:
            raise Refused("length overruns")
        parts += [content[begin:behind], content[data : data + max(length, 0)]]
        begin, data = behind, data + max(length, 0)
    return b"".join([*parts, content[begin:at], content[data:]])
