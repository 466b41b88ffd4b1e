"""What Kafka reads without an error and verify reports: slow walks over the bytes of one good batch.

anomalies(batch)   the findings about one batch that `oracle` accepts, in plain Python, with no code of the product
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import NamedTuple

import builders
import oracle
import oracle_codecs
from oracle_codecs import Refused


class Anomaly(NamedTuple):
    """One finding about one batch: `offset` is that of its place, `count` how many times it counts."""

    kind: str
    detail: str
    offset: int
    count: int = 1


def anomalies(batch: oracle.Batch) -> list[Anomaly]:
    """All of them, in the order of the batch's bytes."""
    oracle.read_records(batch)
    base, last = batch.columns["base_offset"], batch.columns["last_offset"]
    assert isinstance(last, int)
    offset = base if isinstance(base, int) else last
    plain = _of_batch(batch) if batch.magic == 2 else _of_messages(batch)
    return [*_of_offsets(batch, base, last), *_of_header_keys(batch), *(Anomaly(*one, offset) for one in plain)]


def _of_offsets(batch: oracle.Batch, base, last: int) -> Iterator[Anomaly]:
    mine = [int(record["offset"]) for record in batch.records]
    if not mine:
        return
    at = base if isinstance(base, int) else last
    which = "record" if batch.magic == 2 else "inner"
    falling = [(after, before) for before, after in itertools.pairwise(mine) if after <= before]
    if falling:
        yield Anomaly(f"{which}_offsets_unordered", "offset {} after offset {}".format(*falling[0]), at)
    low, high = min(mine), max(mine)
    if isinstance(base, int) and not base <= low <= high <= last:
        span = f"records with the offsets {low} to {high} in a batch with the offsets {base} to {last}"
        yield Anomaly("record_offset_outside", span, at)
    if base is None and high > last:
        yield Anomaly("inner_offset_above_wrapper", f"inner offset {high} in a wrapper with offset {last}", at)


def _of_header_keys(batch: oracle.Batch) -> Iterator[Anomaly]:
    for record in batch.records:
        keys = [key for key, _ in record["raw_headers"]]
        bad = sum(key.decode(errors="ignore").encode() != key for key in keys)
        at = int(record["offset"])
        if bad:
            yield Anomaly("header_key_not_utf8", f"a header key at offset {at}", at, bad)


# ---- magic 2

Plain = tuple[str, str]


def _of_batch(batch: oracle.Batch) -> Iterator[Plain]:
    payload = batch.raw[oracle.BATCH_OVERHEAD :]
    (count,) = struct.unpack_from(">i", batch.raw, 57)
    codec = batch.raw[22] & 7
    if count == 0:
        yield from _of_no_records(codec, payload)
        return
    stream = oracle_codecs.stream(codec, payload, 2)
    yield from _of_stream(codec, stream)
    kinds = set()
    _walk(stream.content, count, kinds)
    base = struct.unpack_from(">q", batch.raw)[0]
    for kind in sorted(kinds):
        yield kind, f"in a record of the batch at offset {base}"


def _of_no_records(codec: int, payload: bytes) -> Iterator[Plain]:
    if not payload:
        return
    try:
        size = len(oracle_codecs.decompress(codec, payload, 2))
    except Refused:
        yield "count_zero_with_payload", "no records declared, but a payload that cannot be decompressed"
        return
    if size:
        yield "count_zero_with_payload", f"no records declared, and {size} bytes of records are there"


def _walk(payload: bytes, count: int, found: set[str]):
    """Adds the kinds of what is odd in the records of a payload."""
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
        assert at == end


def _field(payload: bytes, at: int, found: set[str]) -> int:
    length, at = _varint(payload, at, found)
    if length < -1:
        found.add("length_below_minus_one")
    return at + max(length, 0)


def _varint(payload: bytes, at: int, found: set[str], longest: int = 5) -> tuple[int, int]:
    value, end = oracle.varint(payload, at, longest)
    if payload[at:end] != builders.varint(value):
        found.add("varint_not_minimal")
    return value, end


# ---- magic 0 and 1

_USED_BITS = {0: 0x07, 1: 0x0F}


def _of_messages(batch: oracle.Batch) -> Iterator[Plain]:
    yield from _of_message(batch.raw[12:])
    codec = batch.raw[17] & 7
    if codec == 0:
        return
    value = oracle._value(batch.raw[12:])
    stream = oracle_codecs.stream(codec, value, batch.magic)
    yield from _of_stream(codec, stream)
    left = len(stream.content)
    inner = oracle.inner_messages(stream.content)
    for number, (_, message) in enumerate(inner):
        left -= 12 + len(message)
        magic, attributes = message[4], message[5]
        if magic != batch.magic:
            yield "inner_magic_differs", f"inner message {number} has magic {magic}, its wrapper {batch.magic}"
        if magic in _USED_BITS:
            if attributes & ~_USED_BITS[magic]:
                yield "attributes_unknown", f"attribute bits {attributes:#04x} of an inner message"
            yield from _of_message(message)
    if left >= 12:
        (claimed,) = struct.unpack_from(">i", stream.content, len(stream.content) - left + 8)
        words = f"inner message {len(inner)} has a size of {claimed} bytes, but {left - 12} are left"
        yield "inner_truncated", words
    elif left:
        yield "inner_trailing_bytes", f"{left} bytes after inner message {len(inner) - 1}"


def _of_message(message: bytes) -> Iterator[Plain]:
    """Of what is behind offset and size."""
    at = oracle._key_at(message)
    for _ in range(2):
        (length,) = struct.unpack_from(">i", message, at)
        if length < -1:
            yield "length_below_minus_one", f"a length of {length}"
        at += 4 + max(length, 0)
    if at < len(message):
        yield "message_trailing_bytes", f"{len(message) - at} bytes after a message's value"


# ---- compressed streams

_CODECS = {1: ("gzip", "members"), 2: ("snappy", "streams"), 3: ("lz4", "frames"), 4: ("zstd", "frames")}


def _of_stream(codec: int, stream: oracle_codecs.Stream) -> Iterator[Plain]:
    if codec == 0:
        return
    name, parts = _CODECS[codec]
    if stream.ignored:
        yield "payload_checksum_ignored", f"{name}: {stream.ignored}"
    if stream.parts > 1:
        yield "payload_several_streams", f"{name}: {stream.parts} {parts} in one payload"
    if stream.left:
        yield "payload_trailing_bytes", f"{name}: {stream.left} bytes after the end of the stream"
