"""Payloads decompressed piece by piece: the same content as in one piece, and no more than was asked for."""

import contextlib
import itertools
import random

import builders
import pytest

from kafkarec import codecs
from kafkarec.codecs.packed_stream import pieces

pytestmark = [pytest.mark.core, pytest.mark.python]
RANDOM = random.Random(2)
CONTENTS = [b"", b"x", b"abc" * 100_000, RANDOM.randbytes(300_000), bytes(1 << 20)]


def joined(name, payload, limit=1 << 30):
    return b"".join(bytes(piece.content) for piece in pieces(name, memoryview(payload), limit))


@pytest.mark.parametrize("name", builders.CODECS[1:])
def test_all_pieces_are_the_content(name):
    codec_id = codecs.BY_NAME[name].id
    for content in CONTENTS:
        for payload in (codecs.compress(codec_id, content), builders.compress(name, content)):
            assert joined(name, payload) == content
            reads = [piece.read for piece in pieces(name, memoryview(payload), 1 << 30)]
            assert reads == sorted(reads) and all(0 < read <= len(payload) for read in reads)


def test_snappy_streams_one_after_another_are_read_as_in_one_piece():
    two = codecs.compress(2, CONTENTS[2]) + codecs.compress(2, b"more")
    assert joined("snappy", two) == bytes(codecs.decompress(2, two, 1 << 20))


@pytest.mark.parametrize("name", builders.CODECS[1:])
def test_the_limit_is_kept(name):
    payload = codecs.compress(codecs.BY_NAME[name].id, bytes(64 << 20))
    total = 0
    with pytest.raises(codecs.LimitReached):
        for piece in pieces(name, memoryview(payload), 5 << 20):
            total += len(piece.content)
    assert total <= 5 << 20
    small = codecs.compress(codecs.BY_NAME[name].id, bytes(1000))
    assert joined(name, small, 1000) == bytes(1000)
    with pytest.raises(codecs.LimitReached):
        joined(name, small, 999)


@pytest.mark.parametrize("name", builders.CODECS[1:])
def test_every_truncation_and_many_flips_raise_codec_errors_only(name):
    content = RANDOM.randbytes(3000) + bytes(3000)
    payload = codecs.compress(codecs.BY_NAME[name].id, content)
    for size in itertools.chain(range(60), range(60, len(payload), 7)):
        try:
            assert content.startswith(joined(name, payload[:size]))
        except codecs.CodecError:
            continue
        assert size == 0 or name in ("snappy", "zstd"), size  # their streams may end between two blocks or frames
    for at in range(0, len(payload), 5):
        spoiled = builders.flipped(payload, at, 1 << at % 8)
        with contextlib.suppress(codecs.CodecError):
            joined(name, spoiled, 1 << 20)
