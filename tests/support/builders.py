"""Encodes record batches byte by byte, one plain function per layer, so that a test can set exactly one field wrong.

A damage test takes the arguments of a good batch, replaces one of them (a count, a length, a varint of six bytes), and
lets `batch` or `message` compute a checksum that is right for the changed bytes.
Layouts after Kafka's DefaultRecordBatch, DefaultRecord and LegacyRecord.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence

import cramjam
import crc32c
import lz4.block
import zstandard
from oracle_codecs import xxh32

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_IDS = {name: number for number, name in enumerate(CODECS)}
NOW = 1_700_000_000_000
LOG_APPEND, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
Headers = Sequence[tuple[bytes | None, bytes | None]]


def raw_varint(raw: int, length: int | None = None) -> bytes:
    """Return the 7-bit groups of `raw`, padded with empty groups to `length` bytes."""
    out = bytearray()
    while raw > 0x7F or (length is not None and len(out) + 1 < length):
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def zigzag(value: int) -> int:
    return ((value << 1) ^ (value >> 63)) & (2**64 - 1)


def varint(value: int) -> bytes:
    """Return the zig-zag varint or varlong of any number of 64 bits."""
    return raw_varint(zigzag(value))


def sized(data: bytes | None, length: int | None = None) -> bytes:
    """Return a varint length and the bytes; `length` replaces the real length."""
    if length is None:
        length = -1 if data is None else len(data)
    return varint(length) + (data or b"")


def record_body(
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers = (),
    attributes: int = 0,
    key_length: int | None = None,
    value_length: int | None = None,
    header_count: int | None = None,
    header_key_length: int | None = None,
    header_value_length: int | None = None,
) -> bytes:
    """Return a magic 2 record without its length field; `*_length` and `*_count` replace the real values."""
    parts = [bytes([attributes & 0xFF]), varint(timestamp_delta), varint(offset_delta)]
    parts += [sized(key, key_length), sized(value, value_length)]
    parts.append(varint(len(headers) if header_count is None else header_count))
    for header_key, header_value in headers:
        parts += [sized(header_key, header_key_length), sized(header_value, header_value_length)]
    return b"".join(parts)


def record(*, length: int | None = None, **fields) -> bytes:
    return sized(record_body(**fields), length)


def records(count: int, *, value: bytes | None = b"value %d", **fields) -> list[bytes]:
    """Return `count` good records with offset and timestamp deltas 0, 1, 2..."""
    return [
        record(offset_delta=i, timestamp_delta=i, value=value and value.replace(b"%d", b"%d" % i), **fields)
        for i in range(count)
    ]


def record_of_size(size: int, fill: bytes = b"\0") -> bytes:
    """Return a record without a key of exactly `size` bytes."""
    made = (record(key=None, value=fill * max(size - less, 0)) for less in range(7, 16))
    return next(one for one in made if len(one) == size)


def gzip_member(data: bytes, flags: int = 0, extra: bytes = b"") -> bytes:
    """Return a gzip member with `extra` behind its header."""
    head, packer = struct.pack("<HBBIBB", 0x8B1F, 8, flags, 7, 2, 255), zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(data) + packer.flush()
    return head + extra + packed + struct.pack("<II", zlib.crc32(data), len(data))


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial_chunk(block: bytes) -> bytes:
    return struct.pack(">i", len(block)) + block


def xerial(data: bytes, chunk: int = 32 * 1024) -> bytes:
    chunks = (raw_snappy(data[i : i + chunk]) for i in range(0, len(data), chunk))
    return XERIAL_HEADER + b"".join(map(xerial_chunk, chunks))


def lz4_frame(data: bytes, *, broken_header_checksum: bool = False, block: int = 64 * 1024) -> bytes:
    """Return an LZ4 frame as Kafka's Lz4BlockOutputStream writes it: independent 64 KB blocks, no content checksum.

    KAFKA-3160: writers of magic 0 included the frame's magic number in the descriptor's checksum.
    """
    descriptor = b"\x60\x40"
    magic = b"\x04\x22\x4d\x18"
    hashed = magic + descriptor if broken_header_checksum else descriptor
    out = [magic, descriptor, bytes([(xxh32(hashed) >> 8) & 0xFF])]
    for start in range(0, len(data), block):
        raw = data[start : start + block]
        packed = lz4.block.compress(raw, store_size=False)
        if len(packed) < len(raw):
            out.append(struct.pack("<I", len(packed)) + packed)
        else:
            out.append(struct.pack("<I", len(raw) | 0x80000000) + raw)
    out.append(b"\x00\x00\x00\x00")
    return b"".join(out)


def zstd_frame(data: bytes) -> bytes:
    """Return a zstd frame without its content size, as the Java producer streams it."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def compress(codec: str | int, data: bytes, magic: int = 2) -> bytes:
    """Return the payload compressed by the named codec; an id leaves the bytes unchanged."""
    table = {
        "gzip": lambda: gzip.compress(data, 1, mtime=0),
        "snappy": lambda: xerial(data),
        "lz4": lambda: lz4_frame(data, broken_header_checksum=magic == 0),
        "zstd": lambda: zstd_frame(data),
    }
    return table[codec]() if codec in table else data


def batch(
    parts: Iterable[bytes] = (),
    *,
    codec: str | int = "none",
    base_offset: int = 0,
    leader_epoch: int = 0,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = NOW,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    length: int | None = None,
    payload: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """Return a magic 2 batch of encoded records, its CRC-32C computed last.

    `payload` replaces the records' bytes; `attributes` are or-ed with the codec's id; `count`,
    `length` and `crc` replace the right values.
    """
    parts = list(parts)
    codec_id = CODEC_IDS[codec] if isinstance(codec, str) else codec
    if payload is None:
        payload = compress(codec, b"".join(parts))
    if last_offset_delta is None:
        last_offset_delta = max(len(parts) - 1, 0)
    if max_timestamp is None:
        max_timestamp = max(min(base_timestamp + last_offset_delta, 2**63 - 1), -(2**63))
    checked = struct.pack(
        ">Hiqqqhii",
        (attributes | codec_id) & 0xFFFF,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(parts) if count is None else count,
    )
    checked += payload
    if crc is None:
        crc = crc32c.crc32c(checked)
    size = 4 + 1 + 4 + len(checked) if length is None else length
    return struct.pack(">qiibI", base_offset, size, leader_epoch, magic, crc) + checked


def message(
    *,
    magic: int = 1,
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    timestamp: int = NOW,
    attributes: int = 0,
    key_length: int | None = None,
    value_length: int | None = None,
    size: int | None = None,
    crc: int | None = None,
    trailing: bytes = b"",
) -> bytes:
    """Return a magic 0 or 1 message with offset, size and a CRC-32 that is right for what was written."""
    checked = bytes([magic & 0xFF, attributes & 0xFF])
    if magic != 0:
        checked += struct.pack(">q", timestamp)
    for data, length in ((key, key_length), (value, value_length)):
        if length is None:
            length = -1 if data is None else len(data)
        checked += struct.pack(">i", length) + (data or b"")
    checked += trailing
    if crc is None:
        crc = zlib.crc32(checked)
    size = 4 + len(checked) if size is None else size
    return struct.pack(">qiI", offset, size, crc) + checked


def wrapper(
    inner: Sequence[bytes] | bytes,
    *,
    magic: int = 1,
    codec: str | int = "gzip",
    offset: int = 0,
    attributes: int = 0,
    payload: bytes | None = None,
    **fields,
) -> bytes:
    """Return a wrapper: a compressed magic 0 or 1 message that contains encoded messages."""
    codec_id = CODEC_IDS[codec] if isinstance(codec, str) else codec
    inside = inner if isinstance(inner, bytes) else b"".join(inner)
    packed = compress(codec, inside, magic) if payload is None else payload
    fields.setdefault("key", None)
    return message(magic=magic, offset=offset, value=packed, attributes=attributes | codec_id, **fields)


def end_marker(
    base_offset: int,
    producer_id: int,
    *,
    commit: bool,
    producer_epoch: int = 0,
    coordinator_epoch: int = 5,
    **fields,
) -> bytes:
    """Return a COMMIT or ABORT control batch as the transaction coordinator writes it."""
    marker = record(key=struct.pack(">hh", 0, int(commit)), value=struct.pack(">hi", 0, coordinator_epoch))
    return batch(
        [marker],
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        **fields,
    )


def with_crc(raw: bytes) -> bytes:
    """Return the same magic 2 batch with its checksum computed again."""
    return raw[:17] + struct.pack(">I", crc32c.crc32c(raw[21:])) + raw[21:]


def with_legacy_crc(raw: bytes) -> bytes:
    """Return the same magic 0 or 1 message with its checksum computed again."""
    return raw[:12] + struct.pack(">I", zlib.crc32(raw[16:])) + raw[16:]


def patched(raw: bytes, position: int, new: bytes) -> bytes:
    return raw[:position] + new + raw[position + len(new) :]


def flipped(raw: bytes, position: int = -1, bits: int = 1) -> bytes:
    """The bytes with bits of one of them flipped."""
    return patched(raw, position % len(raw), bytes([raw[position] ^ bits]))
