"""The encoder's compressed payloads: the same bytes as by the libraries' Python functions, at each level and magic;
tests/unit/codecs/test_compress.py compares those with Kafka's.

A writer keeps its compression context from batch to batch, so every case has several batches.
"""

import itertools
import random

import pytest
from allocations import class_of

import kafkarec
from kafkarec import codecs, release_memory

pytestmark = pytest.mark.core

BLOCK = 64 << 10


def texts(sizes):
    """Return texts of which every second compresses well, the others not at all."""
    words = b"".join(b"word-%d," % (n * n % 97) for n in range(40_000))
    noise = random.Random(11).randbytes(300_000)
    return [(noise if n % 2 else words)[:size] for n, size in enumerate(sizes)]


def payloads(data, magic):
    overhead = (26, 34, 61)[magic]
    table = kafkarec.scan(data)
    return [
        data[at + overhead : at + size]
        for at, size in zip(table.column("position"), table.column("size_in_bytes"), strict=True)
    ]


def contents(values, magic):
    """Return the uncompressed payloads of batches with one record each."""
    if magic == 2:
        return payloads(kafkarec.encode([(n, 5, None, v, ()) for n, v in enumerate(values)], batch_size=0), 2)
    plain = [kafkarec.encode([(0 if magic else n, 5, None, v, ())], magic=magic) for n, v in enumerate(values)]
    assert [len(one) - len(v) for one, v in zip(plain, values, strict=True)] == [26 if magic == 0 else 34] * len(values)
    return plain


def sizes_around_a_block(magic):
    """Return payload sizes around one and two blocks: one byte less, exact, one more; and short sizes."""
    head = len(contents([bytes(65_000)], magic)[0]) - 65_000
    around = [BLOCK - head + more for more in (-1, 0, 1)] + [2 * BLOCK - head + more for more in (-1, 0, 1)]
    return [size for one in [0, 3, 500, *around] for size in (one, one)]


def assert_as_in_python(codec, sizes, magic, level):
    """The encoder's payloads are those of `codecs.compress`; a record's value has each size."""
    values = texts(sizes)
    rows = [(n, 5, None, v, ()) for n, v in enumerate(values)]
    data = kafkarec.encode(rows, magic=magic, compression=codec, level=level, batch_size=0)
    of = codecs.BY_NAME[codec].id
    wanted = [codecs.compress(of, content, level, magic) for content in contents(values, magic)]
    assert payloads(data, magic) == wanted, (codec, magic, level)


def test_lz4_equals_the_library_block_by_block():
    for magic, level in [(0, None), (0, 3), (1, None), (1, 3), *itertools.product([2], (None, 1, 3, 9, 12, 17))]:
        sizes = sizes_around_a_block(magic) if level in (None, 3) else [700, 500, BLOCK + 90, 600, 90]
        assert_as_in_python("lz4", sizes, magic, level)


def test_zstd_equals_the_library_at_every_level():
    for level in (None, -5, 1, 2, 3, 4, 6, 9, 12, 15):
        large = [20_000 if level != 15 else 300, 1, 150_000 if level in (None, 6) else 40]
        assert_as_in_python("zstd", [900, 900, 5000, 0, *large], 2, level)


def room_for(codec, size):
    """Return the upper bound. LZ4: header, end mark, all blocks stored. Zstandard: ZSTD_COMPRESSBOUND of zstd.h."""
    if codec == "lz4":
        return 7 + 4 + size + 4 * (size // BLOCK + 1)
    return size + (size >> 8) + (((128 << 10) - size) >> 11 if size < 128 << 10 else 0)


@pytest.mark.recycled
def test_output_buffers_fit_incompressible_payloads():
    """Exactly as much as the codec may need: payloads at the border of a buffer's size class, and one byte above."""
    slack = 64
    for codec, magic, head in (("lz4", 0, 26), ("lz4", 1, 34), ("lz4", 2, 61), ("zstd", 2, 61)):
        for border in (8192, 5 << 14, 7 << 15, 1 << 18):
            sizes = [n for n in range(border - 2000, border) if head + room_for(codec, n) + slack == border]
            for size in (sizes[-1] - 1, sizes[-1], sizes[-1] + 1):
                value = random.Random(size).randbytes(size - len(contents([b"v" * (size - 40)], magic)[0]) + size - 40)
                release_memory()
                data = kafkarec.encode([(0, 5, None, value, ())], magic=magic, compression=codec)
                needed = head + room_for(codec, size) + slack
                buffers = class_of(size + slack) + class_of(needed)
                assert 0 <= release_memory() - buffers < 1024, (codec, magic, size)  # and some small ones
                assert kafkarec.decode(data).column("value") == [value]
                assert len(contents([value], magic)[0]) == size
