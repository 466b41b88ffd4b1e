"""codecs.compress: every level of every codec in Kafka's framing, which Kafka's own streams read;
tests/unit/core/test_compress.py compares the bytes with those of the encoder."""

import itertools
import json
import random
import struct

import golden
import lz4.block
import pytest

from kafkarec import codecs

LIMIT = 4 << 20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LEVELS = {
    0: [None],
    GZIP: [None, -1, *range(1, 10)],
    SNAPPY: [None],
    LZ4: [None, *range(1, 18)],
    ZSTD: [None, -131072, -100, -1, 0, *range(1, 23)],
}
MAGICS = {0: [2], GZIP: [2], SNAPPY: [2], LZ4: [0, 1, 2], ZSTD: [2]}


def rows(size, seed=1):
    """Return typical content of batches: repetitive JSON."""
    dice = random.Random(seed)
    out = bytearray()
    while len(out) < size:
        row = {"id": dice.getrandbits(40), "name": dice.choice(["alice", "bob", "carol"]), "amount": dice.random()}
        out += json.dumps(row).encode()
    return bytes(out[:size])


CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "a run": b"q" * 300_000,
    "rows": rows(14_000),
    "noise": random.Random(2).randbytes(14_000),
    **{f"{size} of rows": rows(size) for size in (32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 131_072)},
    **{f"{size} of noise": random.Random(size).randbytes(size) for size in (65_535, 65_536, 65_537)},
}


@pytest.mark.parametrize(
    "codec, level, words",
    [
        (GZIP, 0, "gzip has the levels 1 to 9 and -1, not 0"),
        (GZIP, -2, "gzip has the levels 1 to 9 and -1, not -2"),
        (GZIP, 10, "gzip has the levels 1 to 9 and -1, not 10"),
        (LZ4, 0, "lz4 has the levels 1 to 17, not 0"),
        (LZ4, 18, "lz4 has the levels 1 to 17, not 18"),
        (ZSTD, 23, "zstd has the levels -131072 to 22, not 23"),
        (ZSTD, -131073, "zstd has the levels -131072 to 22, not -131073"),
        (SNAPPY, 1, "snappy has no compression levels; leave out level 1"),
        (0, 1, "none has no compression levels; leave out level 1"),
    ],
)
def test_levels_that_kafka_refuses(codec, level, words):
    with pytest.raises(ValueError) as refused:
        codecs.compress(codec, b"", level)
    assert str(refused.value) == words


def test_default_levels_are_kafkas():
    """Levels 3 and 4 of zstd give nearly the same bytes."""
    levels = {codec.name: codec.default_level for codec in codecs.CODECS}
    assert levels == {"none": None, "gzip": -1, "snappy": None, "lz4": 9, "zstd": 3}


def test_wrong_arguments():
    for codec in (-1, 5, 7):
        with pytest.raises(ValueError, match="0 to 4"):
            codecs.compress(codec, b"")
    for level in (True, 1.0, "1"):
        with pytest.raises(TypeError):
            codecs.compress(GZIP, b"", level)


def test_lz4_levels_are_those_of_the_library():
    """Kafka's level 9 is the fast compressor; the others are the high one's, of which 12 is the highest."""
    content = rows(14_000)
    for level in (1, 8, 10, 12, 17):
        high = lz4.block.compress(content, mode="high_compression", compression=min(level, 12), store_size=False)
        packed = codecs.compress(LZ4, content, level)
        assert high in packed and len(packed) < len(codecs.compress(LZ4, content, 9))


def test_lz4_of_magic_0_has_the_wrong_header_checksum():
    """KAFKA-3160: clients of 0.8 included the frame's magic number."""
    content = rows(1000)
    old, new = codecs.compress(LZ4, content, None, 0), codecs.compress(LZ4, content, None, 1)
    assert old[6] != new[6] and old[:6] + old[7:] == new[:6] + new[7:]
    wrapper = golden.vector("v0-lz4").bytes
    assert wrapper[wrapper.index(new[:6]) + 6] == old[6], "as Kafka wrote it"
    with pytest.raises(codecs.CodecError):
        codecs.decompress(LZ4, old, LIMIT, 1)


def test_snappy_is_a_xerial_stream_of_32_kib():
    packed = codecs.compress(SNAPPY, rows(32_768 + 1))
    assert packed[:16].hex() == "82534e4150505900" + "00000001" * 2
    (first,) = struct.unpack_from(">I", packed, 16)
    (second,) = struct.unpack_from(">I", packed, 20 + first)
    assert 24 + first + second == len(packed)
    assert packed[24 + first :].startswith(b"\x01"), "one byte is left for the second chunk"
    assert len(codecs.compress(SNAPPY, b"")) == 16


def test_gzip_header_is_javas():
    magic, deflate, no_flags, no_time, no_extra_flags, unknown_system = "1f8b", "08", "00", "00000000", "00", "ff"
    expected = magic + deflate + no_flags + no_time + no_extra_flags + unknown_system
    for level in (None, 1, 9):  # zlib's own header has extra flags by the level, and the system
        assert codecs.compress(GZIP, b"x", level)[:10].hex() == expected


def test_zstd_frames_have_a_content_size():
    """A single segment with the content size: readers allocate once, without a window of 2 MiB."""
    for content, head in ((rows(14_000), "60b035"), (b"abc" * 50, "2096")):
        assert codecs.compress(ZSTD, content)[:7].hex().startswith("28b52ffd" + head)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_kafkas_streams_read_compressed_payloads(codec, kafka, tmp_path):
    packed, content_back = tmp_path / "packed", tmp_path / "content"
    name = codecs.CODECS[codec].name
    for (case, content), level, magic in itertools.product(CONTENTS.items(), LEVELS[codec], MAGICS[codec]):
        packed.write_bytes(codecs.compress(codec, content, level, magic))
        assert bytes(codecs.decompress(codec, packed.read_bytes(), LIMIT, magic)) == content, (case, level, magic)
        if content or codec != ZSTD:
            answer = kafka.ask("unpack", name, magic, packed, content_back)
            assert answer.status == 0, (case, level, magic, answer.err)
            assert content_back.read_bytes() == content, (case, level, magic)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_levels_have_kafkas_meaning(codec, kafka, tmp_path):
    """Sizes differ a little between library versions; another level or window would differ by more."""
    source, packed = tmp_path / "content", tmp_path / "packed"
    for content in (rows(14_000), rows(131_072, 7)):
        source.write_bytes(content)
        for level in LEVELS[codec]:
            answer = kafka.ask("pack", codecs.CODECS[codec].name, "-" if level is None else level, 2, source, packed)
            assert answer.status == 0, answer.err
            theirs = packed.read_bytes()
            assert bytes(codecs.decompress(codec, theirs, LIMIT)) == content
            ours = codecs.compress(codec, content, level)
            apart = 0.1 if codec == LZ4 and level in (1, 2) else 0.01  # liblz4 1.10 has a new compressor at this level
            assert abs(len(ours) - len(theirs)) <= 12 + apart * len(theirs), (level, len(ours), len(theirs))
