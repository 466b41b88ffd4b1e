"""A slow, simple decoder that the engine must agree with. It follows Kafka's memory path line by line:

MemoryRecords.batches (ByteBufferLogInputStream), batch.ensureValid, streamingIterator, then key, value and
headers of every record. Plain Python integers, one object per record, no code shared with kafkarec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Container
from dataclasses import dataclass, field

import crc32c
from java_text import java_utf8
from oracle_codecs import Refused, decompress, open_only

INT_MAX = 2**31 - 1
LEGACY_OVERHEAD = 14
BATCH_OVERHEAD = 61
LARGEST_INNER = 128 << 20
CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass
class Batch:
    position: int
    raw: bytes
    magic: int
    columns: dict[str, object]
    records: list[dict[str, object]] = field(default_factory=list)


@dataclass
class Verdict:
    """`error` is None where Kafka accepts; `stage`: which step refused; `remaining`: bytes of the tail."""

    batches: list[Batch]
    remaining: int
    error: str | None = None
    stage: str | None = None

    @property
    def records(self) -> list[dict[str, object]]:
        return [record for batch in self.batches for record in batch.records]


def wrap(value: int, bits: int) -> int:
    """Return the value after Java's two's complement overflow."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def absent(value: int) -> int | None:
    return None if value == -1 else value


def increment_sequence(sequence: int, increment: int) -> int:
    """Return DefaultRecordBatch.incrementSequence, with its int overflows."""
    if sequence > wrap(INT_MAX - increment, 32):
        return wrap(increment - (INT_MAX - sequence) - 1, 32)
    return wrap(sequence + increment, 32)


def decode(data: bytes, *, check_crcs: bool = True) -> Verdict:
    """Return all batches with their records, or the first error in the order batches, ensureValid, iterate."""
    batches, remaining, error = frames(data)
    verdict = Verdict(batches, remaining)
    if error is not None:
        verdict.error, verdict.stage = error, "batches"
        return verdict
    stages = {"ensureValid": ensure_valid, "iterator": read_records}
    if not check_crcs:
        stages["ensureValid"] = ensure_size
    for stage, step in stages.items():
        for batch in batches:
            try:
                step(batch)
            except Refused as refusal:
                verdict.error, verdict.stage = str(refusal), stage
                return verdict
    return verdict


def frames(data: bytes, magics: Container[int] = range(3)) -> tuple[list[Batch], int, str | None]:
    batches = []
    at = 0
    while len(data) - at >= 12:
        left = len(data) - at
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < LEGACY_OVERHEAD:
            return batches, left, "size below the minimum"
        if size > INT_MAX - 12:
            return batches, left, "size overflows"
        if left < 17:
            break
        (magic,) = struct.unpack_from(">b", data, at + 16)
        if magic not in magics:
            return batches, left, "unknown magic"
        if left < 12 + size:
            break
        raw = data[at : at + 12 + size]
        columns = legacy_columns(raw, at) if magic < 2 else batch_columns(raw, at)
        batches.append(Batch(at, raw, magic, columns))
        at += len(raw)
    return batches, len(data) - at, None


def batch_columns(raw: bytes, position: int) -> dict[str, object]:
    if len(raw) < BATCH_OVERHEAD:
        return {}  # ensureValid refuses it
    base_offset, length, epoch, magic, crc = struct.unpack_from(">qiibI", raw)
    attributes, last_delta, base_ts, max_ts, pid, pepoch, base_seq, count = struct.unpack_from(">hiqqqhii", raw, 21)
    last_offset = wrap(base_offset + last_delta, 64)
    last_sequence = -1 if base_seq == -1 else increment_sequence(base_seq, last_delta)
    return {
        "position": position,
        "base_offset": base_offset,
        "last_offset": last_offset,
        "next_offset": wrap(last_offset + 1, 64),
        "batch_length": length,
        "size_in_bytes": len(raw),
        "partition_leader_epoch": absent(epoch),
        "magic": magic,
        "crc": crc,
        "attributes": attributes,
        "compression": CODEC_NAMES.get(attributes & 7),
        "timestamp_type": attributes >> 3 & 1,
        "is_transactional": bool(attributes & 0x10),
        "is_control": bool(attributes & 0x20),
        "delete_horizon_ms": base_ts if attributes & 0x40 else None,
        "base_timestamp": absent(base_ts),
        "max_timestamp": absent(max_ts),
        "producer_id": absent(pid),
        "producer_epoch": absent(pepoch),
        "base_sequence": absent(base_seq),
        "last_sequence": absent(last_sequence),
        "record_count": count,
    }


def legacy_columns(raw: bytes, position: int) -> dict[str, object]:
    offset, size, crc, magic, attributes = struct.unpack_from(">qiIbb", raw)
    timestamp = struct.unpack_from(">q", raw, 18)[0] if magic == 1 else -1
    columns = dict.fromkeys(
        (
            "partition_leader_epoch",
            "delete_horizon_ms",
            "base_timestamp",
            "producer_id",
            "producer_epoch",
            "base_sequence",
            "last_sequence",
            "record_count",
        )
    )
    return columns | {
        "position": position,
        "base_offset": None if attributes & 7 else offset,
        "last_offset": offset,
        "next_offset": wrap(offset + 1, 64),
        "batch_length": size,
        "size_in_bytes": len(raw),
        "magic": magic,
        "crc": crc,
        "attributes": attributes,
        "compression": CODEC_NAMES.get(attributes & 7),
        "timestamp_type": None if magic == 0 else attributes >> 3 & 1,
        "is_transactional": False,
        "is_control": False,
        "max_timestamp": absent(timestamp),
    }


def ensure_size(batch: Batch):
    if batch.magic == 2 and len(batch.raw) < BATCH_OVERHEAD:
        raise Refused("batch below 61 bytes")


def ensure_valid(batch: Batch):
    ensure_size(batch)
    if batch.magic == 2:
        (stored,) = struct.unpack_from(">I", batch.raw, 17)
        computed = crc32c.crc32c(batch.raw[21:])
    else:
        (stored,) = struct.unpack_from(">I", batch.raw, 12)
        computed = zlib.crc32(batch.raw[16:])
    if stored != computed:
        raise Refused("crc")


def read_records(batch: Batch):
    batch.records = batch_records(batch) if batch.magic == 2 else message_records(batch.raw)


# magic 2


def batch_records(batch: Batch) -> list[dict[str, object]]:
    raw = batch.raw
    (count,) = struct.unpack_from(">i", raw, 57)
    codec = raw[22] & 7
    if count < 0:
        raise Refused("record count below 0")
    if count == 0:
        open_only(codec, raw[61:], 2)  # no record is read, so the bytes after the codec's header are never read
        return []
    fields = record_fields(decompress(codec, raw[61:], 2), count)
    return [record_columns(raw, *each) for each in fields]


def record_fields(payload: bytes, count: int, *, has_attributes: bool = True) -> list[tuple]:
    """Return timestamp delta, offset delta, key, value and headers of each record."""
    out = []
    at = 0
    for _ in range(count):
        length, at = varint(payload, at, 5)
        end = at + length
        if length < 0 or end > len(payload):
            raise Refused("record length")
        if has_attributes and at >= len(payload):
            raise Refused("no attributes")
        ts_delta, pos = varint(payload, at + has_attributes, 10)
        offset_delta, pos = varint(payload, pos, 5)
        key, pos = sized(payload, pos)
        value, pos = sized(payload, pos)
        header_count, pos = varint(payload, pos, 5)
        if header_count < 0 or header_count > len(payload) - pos:
            raise Refused("header count")
        headers = []
        for _ in range(header_count):
            header_key, pos = sized(payload, pos)
            if header_key is None:
                raise Refused("header key is null")
            header_value, pos = sized(payload, pos)
            headers.append((header_key, header_value))
        if pos != end:
            raise Refused("record size differs")
        out.append((ts_delta, offset_delta, key, value, headers))
        at = end
    if at != len(payload):
        raise Refused("bytes behind the last record")
    return out


def record_columns(
    header: bytes,
    ts_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[bytes, bytes | None]],
) -> dict[str, object]:
    (base_offset,) = struct.unpack_from(">q", header)
    attributes, _, base_ts, max_ts, _, _, base_seq, _ = struct.unpack_from(">hiqqqhii", header, 21)
    return {
        "offset": wrap(base_offset + offset_delta, 64),
        "timestamp": absent(max_ts if attributes & 8 else wrap(base_ts + ts_delta, 64)),
        "timestamp_type": attributes >> 3 & 1,
        "key": key,
        "value": value,
        "headers": tuple((java_utf8(k), v) for k, v in headers),
        "raw_headers": tuple(headers),
        "sequence": absent(increment_sequence(base_seq, offset_delta)) if base_seq >= 0 else None,
    }


def varint(data: bytes, at: int, longest: int) -> tuple[int, int]:
    """As ByteUtils.readVarint (longest 5) and readVarlong (longest 10): excess bits are dropped."""
    raw = 0
    for i in range(longest):
        if at >= len(data):
            raise Refused("varint cut")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            bits = 32 if longest == 5 else 64
            raw &= (1 << bits) - 1
            return wrap(raw >> 1 ^ -(raw & 1), bits), at
    raise Refused("varint too long")


def sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes of a varint length and the position after them. Every negative length means null."""
    length, at = varint(data, at, 5)
    if length < 0:
        return None, at
    if length > len(data) - at:
        raise Refused("length overruns")
    return data[at : at + length], at + length


# magic 0 and 1


def message_records(raw: bytes) -> list[dict[str, object]]:
    offset = struct.unpack_from(">q", raw)[0]
    content = raw[12:]
    magic, attributes = struct.unpack_from(">bb", content, 4)
    codec = attributes & 7
    if codec == 0:
        return [legacy_record(offset, content, None)]
    if codec >= 4:
        raise Refused("codec of a magic 0 or 1 message")
    value = _value(content)
    if value is None:
        raise Refused("wrapper with null value")
    inner = inner_messages(decompress(codec, value, magic))
    if not inner:
        raise Refused("wrapper without inner messages")
    shift = 0
    if magic == 1 and offset != 0:
        if offset < inner[-1][0]:
            raise Refused("wrapper offset below the last inner offset")
        shift = wrap(offset - inner[-1][0], 64)
    wrapped_type = -1 if magic == 0 else attributes >> 3 & 1
    wrapped_timestamp = -1 if magic == 0 else struct.unpack_from(">q", content, 6)[0]
    out = []
    for inner_offset, inner_content in inner:
        if inner_content[5] & 7:
            raise Refused("inner message is compressed")
        out.append(legacy_record(wrap(inner_offset + shift, 64), inner_content, (wrapped_type, wrapped_timestamp)))
    return out


def inner_messages(data: bytes) -> list[tuple[int, bytes]]:
    """As DataLogInputStream: a cut last message ends the messages without an error."""
    out = []
    at = 0
    while len(data) - at >= 12:
        offset, size = struct.unpack_from(">qi", data, at)
        if size < LEGACY_OVERHEAD:
            raise Refused("inner size below the minimum")
        if size > LARGEST_INNER:
            raise Refused("inner size that the JVM allocates before it reads (docs/differences.md)")
        if size > len(data) - at - 12:
            break
        out.append((offset, data[at + 12 : at + 12 + size]))
        at += 12 + size
    return out


def legacy_record(offset: int, content: bytes, wrapped: tuple[int, int] | None) -> dict[str, object]:
    """Return LegacyRecord's accessors. `wrapped`: timestamp type and timestamp of the wrapper, for inner magic 1."""
    magic, attributes = struct.unpack_from(">bb", content, 4)
    timestamp, timestamp_type = -1, -1
    if magic != 0:
        timestamp = _at(">q", content, 6)
        timestamp_type = attributes >> 3 & 1
    if magic == 1 and wrapped is not None:
        timestamp_type = wrapped[0]
        if timestamp_type == 1:
            timestamp = wrapped[1]
    return {
        "offset": offset,
        "timestamp": absent(timestamp),
        "timestamp_type": absent(timestamp_type),
        "key": _size_delimited(content, _key_at(content)),
        "value": _value(content),
        "headers": (),
        "raw_headers": (),
        "sequence": None,
    }


def _at(layout: str, content: bytes, at: int) -> int:
    if at < 0 or at + struct.calcsize(layout) > len(content):
        raise Refused("field beyond the message")
    return struct.unpack_from(layout, content, at)[0]


def _key_at(content: bytes) -> int:
    return 6 if content[4] == 0 else 14


def _value(content: bytes) -> bytes | None:
    key_at = _key_at(content)
    return _size_delimited(content, key_at + 4 + max(0, _at(">i", content, key_at)))


def _size_delimited(content: bytes, at: int) -> bytes | None:
    size = _at(">i", content, at)
    if size < 0:
        return None
    if size > len(content) - at - 4:
        raise Refused("field overruns the message")
    return content[at + 4 : at + 4 + size]
