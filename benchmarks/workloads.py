"""The workloads of the benchmarks, made from a seed: the same bytes on every machine.

Each is a run of magic 2 batches as a broker stores them (KIP-98), JSON-like values, 8-digit keys. The seven:

| name | batches x records | value | headers |
|---|---|---|---|
| none, lz4, snappy, zstd, gzip | 1000 x 100 | 100 bytes | none |
| none_h3 | 1000 x 100 | 100 bytes | 3 a record |
| none_small | 1000 x 1000 | 10 bytes, null key | none |

Payloads are framed as one-shot library calls frame them, which is what Python producers send: a zstd frame with its
content size, lz4 blocks with checksums. With `java` as Kafka's Java producer does it: a streamed zstd frame without a
size, 64 KiB lz4 blocks without checksums. gzip and snappy (xerial blocks of 32 KiB) are the same from both.

AXES varies one property of `none` (or of the codecs) at a time, with 100,000 records or 10 MB of values in each.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import cramjam
import crc32c
import lz4.frame
import zstandard

SEED = 20240917
BASE_TIMESTAMP = 1_700_000_000_000
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
# what the checksum covers before the records: attributes .. record count
CHECKED_HEADER = struct.Struct(">hiqqqhii")
UNCHECKED_HEADER = struct.Struct(">qiibI")

WORDS = (  # noqa: SIM905 (a list of literals would fill the page)
    "order user click purchase page session item cart price event stream topic trace region country status "
    "amount device browser referrer campaign true false null 2026 utc eu us asia"
).split()


class Workload(NamedTuple):
    """One run of batches; `codec` is the id in the batch attributes. random: values of random bytes. java: payloads are
    framed as by Kafka's Java producer."""

    name: str
    codec: int = 0
    batches: int = 1000
    records: int = 100
    value_bytes: int = 100
    headers: int = 0
    keys: bool = True
    random: bool = False
    java: bool = False


WORKLOADS = (
    Workload("none"),
    Workload("none_h3", headers=3),
    Workload("none_small", records=1000, value_bytes=10, keys=False),
    Workload("lz4", 3),
    Workload("snappy", 2),
    Workload("zstd", 4),
    Workload("gzip", 1),
)
BY_NAME = {work.name: work for work in WORKLOADS}
MIDDLE, LZ4, SNAPPY, ZSTD, GZIP = (BY_NAME[name] for name in ("none", "lz4", "snappy", "zstd", "gzip"))
# axis -> label -> workload
AXES: dict[str, dict[str, Workload]] = {
    "Records per batch": {
        "1": Workload("batch_1", batches=100_000, records=1),
        "10": Workload("batch_10", batches=10_000, records=10),
        "100": MIDDLE,
        "1000": Workload("batch_1000", batches=100, records=1000),
    },
    "Bytes per value": {
        "10": Workload("value_10", value_bytes=10),
        "100": MIDDLE,
        "1000": Workload("value_1000", batches=300, value_bytes=1000),
        "10,000": Workload("value_10000", batches=30, value_bytes=10_000),
    },
    "Headers per record": {
        "0": MIDDLE,
        "1": Workload("headers_1", headers=1),
        "3": BY_NAME["none_h3"],
        "10": Workload("headers_10", headers=10),
    },
    "Codec, and whose framing": {
        "none": MIDDLE,
        "gzip": GZIP,
        "snappy": SNAPPY,
        "lz4, Python client": LZ4,
        "lz4, Java producer": LZ4._replace(name="lz4_java", java=True),
        "zstd, Python client": ZSTD,
        "zstd, Java producer": ZSTD._replace(name="zstd_java", java=True),
    },
    "Compressible or random values": {
        "lz4, JSON-like": LZ4,
        "lz4, random": LZ4._replace(name="lz4_random", random=True),
        "zstd, JSON-like": ZSTD,
        "zstd, random": ZSTD._replace(name="zstd_random", random=True),
    },
}


def xerial(payload: bytes, block: int) -> bytes:
    """snappy-java's stream: a header, then blocks, each after its compressed size."""
    out = [XERIAL_HEADER]
    for start in range(0, len(payload), block):
        packed = bytes(cramjam.snappy.compress_raw(payload[start : start + block]))
        out += [struct.pack(">i", len(packed)), packed]
    return b"".join(out)


def gzip(payload: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(payload) + packer.flush()


def zstd_streamed(payload: bytes) -> bytes:
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return packer.compress(payload) + packer.flush()


Packer = Callable[[bytes], bytes]

# codec id -> how a Python client frames it, how Kafka's Java producer frames it
CLIENT: dict[int, Packer] = {
    0: lambda payload: payload,
    1: gzip,
    2: lambda payload: xerial(payload, 32 * 1024),
    3: lambda payload: bytes(lz4.frame.compress(payload, block_checksum=True)),
    4: lambda payload: zstandard.ZstdCompressor(level=3).compress(payload),
}
JAVA: dict[int, Packer] = {
    **CLIENT,
    3: lambda payload: bytes(
        lz4.frame.compress(payload, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
    ),
    4: zstd_streamed,
}


def varint(number: int) -> bytes:
    """Zigzag, 7 bits per byte, the lowest first."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


SMALL_VARINTS = [varint(number) for number in range(4096)]


def json_like(rng: random.Random, size: int) -> bytes:
    text = "{"
    while len(text) < size:
        text += f'"{rng.choice(WORDS)}":{rng.randrange(10**6)},'
    return text[:size].encode()


def payload_of(work: Workload, rng: random.Random) -> bytes:
    """The records of one batch, uncompressed."""
    headers = varint(work.headers) + b"".join(
        varint(2) + b"h%d" % number + varint(8) + b"abcdefgh" for number in range(work.headers)
    )
    out = []
    for delta in range(work.records):
        key = varint(8) + b"%08d" % rng.randrange(10**8) if work.keys else varint(-1)
        value = rng.randbytes(work.value_bytes) if work.random else json_like(rng, work.value_bytes)
        body = b"".join((b"\x00", SMALL_VARINTS[delta], SMALL_VARINTS[delta], key, varint(len(value)), value, headers))
        out += [varint(len(body)), body]
    return b"".join(out)


def batch(work: Workload, payload: bytes, base_offset: int, timestamp: int) -> bytes:
    last = work.records - 1
    checked = CHECKED_HEADER.pack(work.codec, last, timestamp, timestamp + last, -1, -1, -1, work.records)
    checked += payload
    checksum = crc32c.crc32c(checked)
    length = len(checked) + UNCHECKED_HEADER.size - 12
    return UNCHECKED_HEADER.pack(base_offset, length, 0, 2, checksum) + checked


def batches(work: Workload) -> Iterator[bytes]:
    rng = random.Random(SEED)
    packer = (JAVA if work.java else CLIENT)[work.codec]
    for number in range(work.batches):
        payload = packer(payload_of(work, rng))
        yield batch(work, payload, number * work.records, BASE_TIMESTAMP + number * 1000)


def build(work: Workload) -> bytes:
    return b"".join(batches(work))


def make(folder: Path) -> list[Path]:
    """A file of each of the seven in a folder; made once."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for work in WORKLOADS:
        path = folder / f"{work.name}.log"
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_bytes(build(work))
            part.replace(path)
        paths.append(path)
    return paths
