"""Random batches from a seed, with anomalies that Kafka reads without an error: most are good, some are damaged.

odd_batch(rng)   one batch of magic 2, or one message of magic 0 or 1
"""

from __future__ import annotations

import gzip
import random
import struct

import builders
import lz4.frame
from core_reading import varint_encodings
from oracle_codecs import xxh32

KEYS = (b"", b"k", b"key", "schlüssel".encode(), "\ufffd".encode(), b"\xff", b"\xc3(", b"\xed\xa0\x80", b"ok\xf0\x9f")
_ODD = 0.12


def odd_batch(rng: random.Random) -> bytes:
    return _batch(rng) if rng.random() < 0.65 else _message(rng)


def _is(rng: random.Random, share: float = _ODD) -> bool:
    return rng.random() < share


def _varint(rng: random.Random, value: int, longest: int = 5) -> bytes:
    """Now and then in more bytes than needed, with excess bits, or too long."""
    return rng.choice(list(varint_encodings(value, longest))) if _is(rng, 0.02) else builders.varint(value)


def _null(rng: random.Random) -> int:
    return rng.choice([-2, -3, -(2**31)]) if _is(rng) else -1


def _field(rng: random.Random, data: bytes | None) -> bytes:
    return _varint(rng, _null(rng) if data is None else len(data)) + (data or b"")


def _bytes(rng: random.Random) -> bytes | None:
    return None if _is(rng, 0.2) else rng.randbytes(rng.choice([0, 1, 3, 30, 70]))


def _record(rng: random.Random, number: int) -> bytes:
    delta = rng.choice([-1, 0, 1, number + 1, 40, 2**31 - 1, -(2**31)]) if _is(rng, 0.06) else number
    body = bytes([rng.choice([1, 0x80, 0xFF]) if _is(rng, 0.05) else 0])
    body += _varint(rng, rng.choice([number, -5, 2**40, -(2**63)]), 10) + _varint(rng, delta)
    body += _field(rng, _bytes(rng)) + _field(rng, _bytes(rng))
    headers = rng.choice([0, 0, 0, 1, 3])
    body += _varint(rng, headers)
    for _ in range(headers):
        body += _field(rng, rng.choice(KEYS)) + _field(rng, _bytes(rng))
    return _varint(rng, len(body)) + body


def _spoilt(rng: random.Random, data: bytes, share: float) -> bytes:
    """Now and then with a few bytes changed, put in, or taken out."""
    if not data or not _is(rng, share):
        return data
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(changed) + 1)
        changed[at : at + rng.choice([0, 1, 1, 1])] = rng.randbytes(rng.choice([0, 1, 1, 1]))
    return bytes(changed)


def _batch(rng: random.Random) -> bytes:
    count = rng.choice([0, 1, 1, 2, 3, 6])
    content = _spoilt(rng, b"".join(_record(rng, number) for number in range(count)), 0.1)
    codec = rng.choice(builders.CODECS)
    payload = _spoilt(rng, packed(rng, codec, content, 2), 0.05)
    last = count - 1 + rng.choice([-1, 1, 5]) if _is(rng, 0.05) else count - 1
    declared = rng.choice([0, count + 1, count - 1]) if _is(rng, 0.05) else count
    return builders.batch(
        codec=codec,
        payload=payload,
        count=declared,
        last_offset_delta=last,
        base_offset=rng.choice([0, 0, 7, 2**62, 2**63 - 3, -5]),
        attributes=builders.CONTROL if _is(rng) else 0,
    )


def _message(rng: random.Random) -> bytes:
    magic = rng.choice([0, 1])
    codec = rng.choice(builders.CODECS[:4])
    offset = rng.choice([0, 3, 100, 2**63 - 1])
    plain = {"magic": magic, "offset": offset, "trailing": rng.randbytes(3) if _is(rng) else b""}
    if codec == "none":
        value = _bytes(rng)
        length = _null(rng) if value is None else None
        return builders.message(**plain, key=None, value=value, key_length=_null(rng), value_length=length)
    inner = [_inner(rng, magic, number) for number in range(rng.choice([1, 1, 2, 4]))]
    content = b"".join(inner)
    if _is(rng):
        cut = _inner(rng, magic, len(inner))
        content += cut[: rng.randrange(len(cut))]
    payload = _spoilt(rng, packed(rng, codec, _spoilt(rng, content, 0.05), magic), 0.05)
    return builders.wrapper(b"", codec=codec, payload=payload, key_length=_null(rng), **plain)


def _inner(rng: random.Random, outer: int, number: int) -> bytes:
    magic = rng.choice([0, 1, 1 - outer, 2, 0xFF]) if _is(rng, 0.05) else outer
    value = _bytes(rng)
    return builders.message(
        magic=magic,
        offset=rng.choice([0, 1, number + 1, 1 << 40]) if _is(rng, 0.1) else number,
        key=None,
        key_length=_null(rng),
        value=value,
        value_length=_null(rng) if value is None else None,
        attributes=rng.choice([0x08, 0x10, 0x80, 0xF8]) if _is(rng, 0.06) else 0,
        trailing=rng.randbytes(2) if _is(rng, 0.06) else b"",
    )


# ---- streams


def packed(rng: random.Random, codec: str, content: bytes, magic: int) -> bytes:
    """The content in one stream as writers make it, or in any that readers take."""
    streams = [content]
    if _is(rng) and codec in ("gzip", "snappy", "zstd"):
        middle = rng.randrange(len(content) + 1)
        streams = [content[:middle], content[middle:]]
    pack = {"none": _stored, "gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}[codec]
    payload = b"".join(pack(rng, stream, magic) for stream in streams)
    if codec != "none" and _is(rng, 0.08):
        payload += rng.choice([b"x", bytes(3), bytes(30), rng.randbytes(25), payload[:11]])
    return payload


def _stored(rng: random.Random, content: bytes, magic: int) -> bytes:
    return content


def _gzip(rng: random.Random, content: bytes, magic: int) -> bytes:
    if not _is(rng):
        return gzip.compress(content, 1, mtime=0)
    return builders.gzip_member(content, 0x18, b"name\0comment\0")


def _snappy(rng: random.Random, content: bytes, magic: int) -> bytes:
    stream = builders.xerial(content, rng.choice([20, 32 * 1024]))
    if _is(rng, 0.08):
        stream = b"\x82SNAPPZ\x00" + stream[8:]
    return stream


def _lz4(rng: random.Random, content: bytes, magic: int) -> bytes:
    plain = builders.lz4_frame(content, broken_header_checksum=magic == 0)
    if _is(rng, 0.6):
        return plain if not _is(rng, 0.05) else plain[:-4] + b"\0\0\0\x80"
    sized, checked = bool(content) and _is(rng, 0.5), _is(rng, 0.5)
    frame = bytearray(
        lz4.frame.compress(
            content, block_linked=False, store_size=sized, content_checksum=checked, block_checksum=_is(rng, 0.3)
        )
    )
    if sized and _is(rng, 0.4):
        frame[6:14] = struct.pack("<Q", rng.choice([0, 1, len(content) + 1, 2**64 - 1]))
        frame[14] = xxh32(bytes(frame[4:14])) >> 8 & 0xFF
    if checked and _is(rng, 0.4):
        frame[-1] ^= 0x40
    if magic == 0 and _is(rng):
        frame[14 if sized else 6] ^= 0x11
    return bytes(frame)


def _zstd(rng: random.Random, content: bytes, magic: int) -> bytes:
    frame = builders.zstd_frame(content, content_size=_is(rng, 0.3))
    if _is(rng):
        skipped = rng.randbytes(rng.choice([0, 5]))
        frame = b"\x5a\x2a\x4d\x18" + struct.pack("<I", len(skipped)) + skipped + frame
    return frame
