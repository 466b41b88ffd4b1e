"""Damaged payloads, one kind of damage per test: the verdicts are those of Kafka's JVM streams."""

import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import lz4.frame
import pytest
import zstandard
from builders import XERIAL_HEADER as XERIAL
from builders import flipped, gzip_member, raw_snappy, xerial_chunk

from kafkarec import codecs
from kafkarec.codecs import lz4 as our_lz4
from kafkarec.errors import REASONS

LIMIT = 1 << 20
TEXT = b"".join(b'{"id":%d,"name":"abc","n":%d}' % (i, i * i) for i in range(300))
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def chunk(data):
    return xerial_chunk(raw_snappy(data))


def lz4_frame(data, **options):
    return lz4.frame.compress(data, **{"store_size": False, "block_linked": False, "block_size": 4, **options})


def zstd_frame(data, *, size=False, checksum=False):
    """Return a zstd frame; `size=False`: as the Java producer writes it, with no content size."""
    return zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum).compress(data)


def read(codec, payload, *, limit=LIMIT, magic=2):
    return bytes(codecs.decompress(codec, memoryview(payload), limit, magic))


def refused(codec, payload, why, **options):
    with pytest.raises(codecs.CodecError, match=why) as caught:
        read(codec, payload, **options)
    assert isinstance(caught.value, codecs.Truncated) == (why == CUT)


CUT = " cut| left|missing"


GOOD = {
    "gzip": (GZIP, gzip_member(TEXT)),
    "gzip-named": (GZIP, gzip_member(TEXT, 8, b"name\0")),
    "gzip-two-members": (GZIP, gzip_member(TEXT[:5000]) + gzip_member(TEXT[5000:])),
    "snappy-xerial": (SNAPPY, XERIAL + chunk(TEXT)),
    "snappy-three-chunks": (SNAPPY, XERIAL + chunk(TEXT[:100]) + chunk(TEXT[100:9000]) + chunk(TEXT[9000:])),
    "snappy-raw": (SNAPPY, raw_snappy(TEXT)),
    "lz4": (LZ4, lz4_frame(TEXT)),
    "lz4-size": (LZ4, lz4_frame(TEXT, store_size=True)),
    "lz4-checksums": (LZ4, lz4_frame(TEXT, content_checksum=True, block_checksum=True)),
    "zstd": (ZSTD, zstd_frame(TEXT)),
    "zstd-size": (ZSTD, zstd_frame(TEXT, size=True)),
    "zstd-checksum": (ZSTD, zstd_frame(TEXT, checksum=True)),
}
# Kafka's streams ignore these: a cut after the first member, chunk or frame is not an error.
ENDS_IN_SILENCE = {
    "gzip-two-members": {len(gzip_member(TEXT[:5000])) + n for n in range(19)},
    "snappy-xerial": {16, 17, 18, 19},
    "snappy-three-chunks": {
        end + n
        for end in (16, 16 + len(chunk(TEXT[:100])), 16 + len(chunk(TEXT[:100])) + len(chunk(TEXT[100:9000])))
        for n in range(4)
    },
    "zstd": {0},
    "zstd-size": {0},
    "zstd-checksum": {0},
}


@pytest.mark.parametrize("name", GOOD)
def test_truncated_at_every_byte(name):
    codec, payload = GOOD[name]
    silent = set()
    for end in range(len(payload)):
        try:
            content = read(codec, payload[:end])
        except codecs.CodecError:
            continue
        silent.add(end)
        assert TEXT.startswith(content)
    assert silent == ENDS_IN_SILENCE.get(name, set())


@pytest.mark.parametrize("name", GOOD)
def test_limit_is_exact(name):
    codec, payload = GOOD[name]
    by_module = codecs.CODECS[codec].decompress(payload, len(TEXT), 2, None)
    assert read(codec, payload, limit=len(TEXT)) == bytes(by_module) == TEXT
    for limit in (len(TEXT) - 1, 1, 0):
        with pytest.raises(codecs.LimitReached) as caught:
            read(codec, payload, limit=limit)
        assert str(limit) in caught.value.detail


@pytest.mark.parametrize("name", GOOD)
def test_good_payload_after_a_damaged_one(name):
    """Contexts and buffers are reused; LZ4 1.9.4 keeps state over a reset."""
    codec, payload = GOOD[name]
    for at in range(0, len(payload), 7):
        try:
            read(codec, flipped(payload, at, 0x55))
        except codecs.CodecError as error:
            assert error.reason in REASONS
        assert read(codec, payload) == TEXT


@pytest.mark.parametrize("name", GOOD)
def test_threads_do_not_share_buffers(name):
    codec, payload = GOOD[name]
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: read(codec, payload), range(400))) == {TEXT}


HEADER_CHECKSUM = struct.pack("<H", zlib.crc32(gzip_member(b"", 2)[:10]) & 0xFFFF)
SIZED, CHECKED = lz4_frame(TEXT, store_size=True), lz4_frame(TEXT, content_checksum=True)
EMPTY_BLOCK = b"\x01\0\0\0\0"  # its size, and a last sequence without literals
SKIPPABLE = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"


def claiming(size):
    """Return an LZ4 frame with this content size, and a right header checksum."""
    head = SIZED[4:6] + struct.pack("<Q", size)
    return SIZED[:4] + head + bytes([our_lz4.header_checksum(head)]) + SIZED[15:]


# What Kafka's streams read, odd as it is.
READ = {
    # with the reserved bits
    "gzip, every header field": (GZIP, gzip_member(TEXT, 4 | 8 | 16 | 0xE0, b"\x03\0abcname\0comment\0")),
    "gzip, header checksum": (GZIP, gzip_member(TEXT, 2, HEADER_CHECKSUM)),
    **{
        f"gzip, {len(more)} bytes that are no member": (GZIP, gzip_member(TEXT) + more)
        for more in (b"\0", b"x" * 17, bytes(40), b"garbage" * 9, gzip_member(b"a")[:18])
    },
    "snappy, versions little-endian as of Redpanda": (SNAPPY, XERIAL[:8] + struct.pack("<ii", 1, 1) + chunk(TEXT)),
    "snappy, concatenated": (SNAPPY, XERIAL + chunk(TEXT[:50]) + XERIAL + XERIAL + chunk(TEXT[50:])),
    **{f"lz4, content size {size}": (LZ4, claiming(size)) for size in (0, 1, 2**64 - 1)},
    "lz4, any content checksum": (LZ4, CHECKED[:-4] + b"????"),
    **{
        f"lz4, {len(more)} bytes after the end mark": (LZ4, lz4_frame(TEXT) + more)
        for more in (b"x", bytes(9), lz4_frame(b"second"))
    },
    # Kafka masks the bit before it compares with 0; the C library would continue reading.
    "lz4, end mark with the top bit": (LZ4, lz4_frame(TEXT)[:-4] + b"\0\0\0\x80" + lz4_frame(b"more")[7:]),
    **{
        f"lz4, {what} after a block without content": (LZ4, frame[:-4] + EMPTY_BLOCK + more)
        for frame in (lz4_frame(TEXT), claiming(0))
        for what, more in {"nothing": b"", "the end mark": bytes(4), "blocks": lz4_frame(b"more")[7:]}.items()
    },
    "lz4, no checksum after a block without content": (LZ4, CHECKED[:-8] + EMPTY_BLOCK),
    "zstd, frames between skippable ones": (
        ZSTD,
        SKIPPABLE + zstd_frame(TEXT[:70]) + SKIPPABLE + zstd_frame(TEXT[70:], size=True, checksum=True) + SKIPPABLE,
    ),
}


@pytest.mark.parametrize("name", READ)
def test_odd_payloads_are_read(name):
    assert read(*READ[name]) == TEXT


MEMBER, THREE = gzip_member(TEXT), b"\x19\0\0abc"  # a last block of three bytes
REFUSED = {
    "lz4, no bytes": (LZ4, b"", "no bytes"),
    "gzip, header checksum": (GZIP, gzip_member(TEXT, 2, flipped(HEADER_CHECKSUM, 0)), "checksum|in the trailer"),
    "gzip, second member cut": (GZIP, (MEMBER * 2)[:-1], CUT),
    "gzip, second member": (GZIP, MEMBER + flipped(MEMBER, -1, 0x77), "checksum|in the trailer"),
    "gzip, crc in the trailer": (GZIP, flipped(MEMBER, -8), "checksum|in the trailer"),
    "snappy, concatenated header cut": (SNAPPY, XERIAL + chunk(TEXT) + XERIAL[:15], CUT),
    "snappy, concatenated version 0": (SNAPPY, XERIAL + chunk(TEXT) + XERIAL[:8] + bytes(8), "version 0"),
    "snappy, chunk size": (SNAPPY, XERIAL + struct.pack(">i", -1) + bytes(50), CUT),
    "snappy, more than can be encoded": (SNAPPY, b"\x80\x80\x04" + b"\xfe\x01\x00" * 10, "declares"),
    "snappy, shorter than its length": (SNAPPY, b"\x05\x00a", "cannot be decompressed"),
    "snappy, length of six bytes": (SNAPPY, b"\x80\x80\x80\x80\x80\x01" + bytes(30), "too long"),
    "lz4, no content checksum": (LZ4, CHECKED[:-4], CUT),
    "lz4, block checksum": (LZ4, flipped(lz4_frame(TEXT, block_checksum=True), -5), "checksum|in the trailer"),
    "lz4, checksum of a block without content": (
        LZ4,
        lz4_frame(TEXT, block_checksum=True)[:-4] + EMPTY_BLOCK + b"????",
        "checksum|in the trailer",
    ),
    "zstd, content checksum": (ZSTD, flipped(zstd_frame(TEXT, checksum=True), -1), "checksum|in the trailer"),
    **{
        f"zstd, window of 2^{exponent + 10}": (
            ZSTD,
            b"\x28\xb5\x2f\xfd\0" + bytes([exponent << 3]) + THREE,
            "too much memory",
        )
        for exponent in (18, 21)
    },
    "zstd, dictionary": (ZSTD, b"\x28\xb5\x2f\xfd\x01\x38\x07" + THREE, "Dictionary"),
    # the library returns b"" for such a frame without reading its blocks
    "zstd, content of size 0": (ZSTD, b"\x28\xb5\x2f\xfd\xa0\0\0\0\0" + THREE, "corruption"),
    "zstd, no content, and its size": (ZSTD, b"\x28\xb5\x2f\xfd\x20\x05\1\0\0", "5 bytes less"),
    "zstd, content size": (ZSTD, b"\x28\xb5\x2f\xfd\x80\x38" + struct.pack("<I", 900_000) + THREE, "corruption"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_payloads_are_refused(name):
    codec, payload, why = REFUSED[name]
    refused(codec, payload, why)


def test_lz4_header_checksum_computed_wrongly_is_read_in_magic_0_only():
    """KAFKA-3160: old writers included the magic number in the checksum."""
    for options in ({}, {"store_size": True}):
        frame = bytearray(lz4_frame(TEXT, **options))
        frame[14 if options else 6] ^= 0x5A
        assert read(LZ4, bytes(frame), magic=0) == TEXT
        refused(LZ4, bytes(frame), "checksum|in the trailer", magic=1)
        refused(LZ4, bytes(frame), "checksum|in the trailer", magic=2)


@pytest.mark.parametrize(
    "payload, content",
    [
        (b"", b""),
        (zstd_frame(b"", size=True), b""),
        (b"\x28\xb5\x2f\xfd\0" + bytes([17 << 3]) + THREE, b"abc"),  # a window of 128 MiB
        (b"\x28\xb5\x2f\xfd\x01\x38\x00" + THREE, b"abc"),  # of dictionary 0
    ],
)
def test_zstd_at_the_limits(payload, content):
    assert read(ZSTD, payload) == content
