"""What Kafka reads without an error and verify reports: slow walks over the bytes of one good batch.

anomalies(batch)   the findings about one batch that `oracle` accepts, in plain Python, with no code of the product
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import builders
import oracle
import oracle_codecs
import zstandard
from oracle_codecs import XERIAL_MAGIC, Refused, xxh32

NO_STREAM = "no records declared, but a payload that cannot be decompressed"


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


def _of_offsets(batch: oracle.Batch, base: object, last: int) -> Iterator[Anomaly]:
    mine = [int(record["offset"]) for record in batch.records]  # type: ignore[call-overload]
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
        keys = [key for key, _ in record["raw_headers"]]  # type: ignore[attr-defined]
        bad = sum(key.decode(errors="ignore").encode() != key for key in keys)
        at = int(record["offset"])  # type: ignore[call-overload]
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
    yield from of_stream(codec, payload)
    kinds: set[str] = set()
    walk(oracle_codecs.decompress(codec, payload, 2), count, kinds)
    base = struct.unpack_from(">q", batch.raw)[0]
    for kind in sorted(kinds):
        yield kind, f"in a record of the batch at offset {base}"


def _of_no_records(codec: int, payload: bytes) -> Iterator[Plain]:
    if not payload:
        return
    try:
        size = len(oracle_codecs.decompress(codec, payload, 2))
    except Refused:
        yield "count_zero_with_payload", NO_STREAM
        return
    if size:
        yield "count_zero_with_payload", f"no records declared, and {size} bytes of records are there"


def walk(payload: bytes, count: int, found: set[str]) -> None:
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
    yield from _of_message(batch.raw)
    codec = batch.raw[17] & 7
    if codec == 0:
        return
    value = oracle._value(batch.raw[12:])
    assert value is not None
    yield from of_stream(codec, value)
    content = oracle_codecs.decompress(codec, value, batch.magic)
    at = number = 0
    while len(content) - at >= 12:
        (claimed,) = struct.unpack_from(">i", content, at + 8)
        left = len(content) - at - 12
        if claimed > left:
            yield "inner_truncated", f"inner message {number} has a size of {claimed} bytes, but {left} are left"
            return
        message = content[at : at + 12 + claimed]
        magic = message[16]
        if magic != batch.magic:
            yield "inner_magic_differs", f"inner message {number} has magic {magic}, its wrapper {batch.magic}"
        if magic in _USED_BITS:
            if message[17] & ~_USED_BITS[magic]:
                yield "attributes_unknown", f"attribute bits {message[17]:#04x} of an inner message"
            yield from _of_message(message)
        at += len(message)
        number += 1
    if at < len(content):
        yield "inner_trailing_bytes", f"{len(content) - at} bytes after inner message {number - 1}"


def _of_message(message: bytes) -> Iterator[Plain]:
    at = 26 if message[16] else 18
    for _ in range(2):
        (length,) = struct.unpack_from(">i", message, at)
        if length < -1:
            yield "length_below_minus_one", f"a length of {length}"
        at += 4 + max(length, 0)
    if at < len(message):
        yield "message_trailing_bytes", f"{len(message) - at} bytes after a message's value"


# ---- compressed streams


def of_stream(codec: int, payload: bytes) -> list[Plain]:
    walks = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
    return list(walks[codec](payload)) if codec else []


def _trailing(codec: str, left: int) -> Iterator[Plain]:
    if left:
        yield "payload_trailing_bytes", f"{codec}: {left} bytes after the end of the stream"


def _several(codec: str, what: str, count: int) -> Iterator[Plain]:
    if count > 1:
        yield "payload_several_streams", f"{codec}: {count} {what} in one payload"


def _gzip(payload: bytes) -> Iterator[Plain]:
    members, at = 0, oracle_codecs._gzip_header(payload, 0)
    while True:
        inflater = zlib.decompressobj(-15)
        inflater.decompress(payload[at:])
        end = len(payload) - len(inflater.unused_data) + 8
        members += 1
        try:
            if len(payload) - end <= 18:
                break
            at = oracle_codecs._gzip_header(payload, end)
        except Refused:
            break
    yield from _several("gzip", "members", members)
    yield from _trailing("gzip", len(payload) - end)


def _snappy(payload: bytes) -> Iterator[Plain]:
    if not oracle_codecs._has_xerial_header(payload):
        return
    at, streams, content, ended_at = 16, 1, 0, 0
    while len(payload) - at >= 4:
        head = payload[at : at + 8]
        if head[:4] == XERIAL_MAGIC[:4]:
            if head != XERIAL_MAGIC:
                if content == ended_at:
                    break
                ended_at = content
            streams += 1
            at += 16
            continue
        size = int.from_bytes(head[:4], "big")
        content += len(oracle_codecs._snappy_block(payload[at + 4 : at + 4 + size]))
        at += 4 + size
    yield from _several("snappy", "streams", streams)
    yield from _trailing("snappy", len(payload) - at)


def _lz4(payload: bytes) -> Iterator[Plain]:
    at, flags, _ = oracle_codecs._lz4_header(payload, check=False)
    while True:
        size = struct.unpack_from("<I", payload, at)[0] & 0x7FFFFFFF
        at += 4
        if size == 0:
            break
        at += size + (4 if flags & 0x10 else 0)
    content = oracle_codecs.lz4_stream(payload, check_header=False)
    declared = struct.unpack_from("<Q", payload, 6)[0] if flags & 0x08 else 0
    stored = struct.unpack_from("<I", payload, at)[0] if flags & 0x04 else None
    if declared not in (0, len(content)):
        yield "payload_checksum_ignored", "lz4: the content does not have the size in the frame's header"
    elif stored is not None and stored != xxh32(content):
        yield "payload_checksum_ignored", "lz4: wrong content checksum"
    yield from _trailing("lz4", len(payload) - at - (4 if flags & 0x04 else 0))


def _zstd(payload: bytes) -> Iterator[Plain]:
    frames = 0
    while payload:
        frames += 1
        if payload[:4] == b"\x28\xb5\x2f\xfd":
            frame = zstandard.ZstdDecompressor().decompressobj()
            frame.decompress(payload)
            payload = frame.unused_data
        else:
            payload = payload[8 + struct.unpack_from("<I", payload, 4)[0] :]
    yield from _several("zstd", "frames", frames)
