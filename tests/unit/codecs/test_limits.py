"""Payloads that claim or contain far more than the limit: a clean error, and peak memory of limit + constant."""

import pytest
from subprocesses import PEAK, run, run_each

MIB = 1 << 20
# Python itself, a library's own buffers (lz4: 4 MiB blocks), the payload, and growth by an eighth
CONSTANT = 24 * MIB

MAKE = """
import gzip, struct, sys, zlib
import cramjam, lz4.frame, zstandard
from kafkarec import codecs
MIB = 1 << 20
ZEROS = bytes(MIB)
XERIAL = b"\\x82SNAPPY\\0" + struct.pack(">ii", 1, 1)

def gzip_zeros():
    c = zlib.compressobj(9, 8, 31)
    return 1, b"".join(c.compress(ZEROS) for _ in range(300)) + c.flush()

def gzip_many_members():
    return 1, gzip.compress(ZEROS) * 300

def gzip_many_tiny_members():
    return 1, gzip.compress(bytes(500)) * 60_000

def snappy_zeros():
    block = bytes(cramjam.snappy.compress_raw(ZEROS))
    return 2, XERIAL + (struct.pack(">i", len(block)) + block) * 300

def snappy_claim():
    return 2, XERIAL + struct.pack(">i", 30) + b"\\xff\\xff\\xff\\xff\\x07" + bytes(25)

def snappy_chunk_claim():
    return 2, XERIAL + struct.pack(">i", 0x7FFFFFFF) + bytes(25)

def lz4_zeros():
    frame = lz4.frame.compress(bytes(4 * MIB), block_size=7, store_size=False)
    return 3, frame[:7] + frame[7:-4] * 75 + bytes(4)

def lz4_claim():
    frame = bytearray(lz4.frame.compress(b"abc", block_linked=False))
    frame[6:14] = b"\\xff" * 7 + b"\\x7f"
    from kafkarec.codecs.lz4 import header_checksum
    frame[14] = header_checksum(bytes(frame[4:14]))
    return 3, bytes(frame)

def zstd_zeros():
    return 4, zstandard.compress(bytes(300 * MIB))

def zstd_zeros_unsized():
    c = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return 4, b"".join(c.compress(ZEROS) for _ in range(300)) + c.flush()

def repeated(blocks, header):
    block = (131072 << 3 | 2).to_bytes(3, "little") + b"a"
    last = (131072 << 3 | 3).to_bytes(3, "little") + b"a"
    return b"\\x28\\xb5\\x2f\\xfd" + header + block * (blocks - 1) + last

def zstd_repeated_bytes():
    return 4, repeated(300 * 8, b"\\0\\x38")

def zstd_claim():
    return 4, repeated(12, b"\\xc0\\x38" + (1 << 40).to_bytes(8, "little"))

def zstd_claim_below_the_limit():
    return 4, b"\\x28\\xb5\\x2f\\xfd\\x80\\x38" + (15 * MIB).to_bytes(4, "little") + b"\\x19\\0\\0abc"

def zstd_many_tiny_frames():
    return 4, zstandard.compress(bytes(400)) * 60_000
"""
MEASURE = """
codec, payload = {name}()
for _ in range(2):
    good = {{1: gzip.compress(b"a"), 2: b"\\1\\0a", 4: zstandard.compress(b"a")}}
    good[3] = lz4.frame.compress(b"a", block_linked=False)
    for other in good:
        assert bytes(codecs.decompress(other, good[other], 1)) == b"a"
begin()
if {limited}:
    limit_memory({limit} + 2 * {constant})
try:
    verdict = f"ok {{len(codecs.decompress(codec, memoryview(payload), {limit}))}}"
except codecs.CodecError as error:
    verdict = error.reason
assert verdict == {verdict!r}, verdict
assert peak() <= {limit} + {constant}, peak()
"""
LIMIT = 16 * MIB
BOMBS = {
    "gzip_zeros": "limit_exceeded",
    "gzip_many_members": "limit_exceeded",
    "gzip_many_tiny_members": "limit_exceeded",
    "snappy_zeros": "limit_exceeded",
    "snappy_claim": "limit_exceeded",
    "snappy_chunk_claim": "payload_corrupt",
    "lz4_zeros": "limit_exceeded",
    "lz4_claim": "ok 3",
    "zstd_zeros": "limit_exceeded",
    "zstd_zeros_unsized": "limit_exceeded",
    "zstd_repeated_bytes": "limit_exceeded",
    "zstd_claim": "payload_corrupt",
    "zstd_claim_below_the_limit": "payload_corrupt",
    "zstd_many_tiny_frames": "limit_exceeded",
}


def measure_each(verdicts, limit, limited):
    fixed = {"limit": limit, "limited": limited, "constant": CONSTANT}
    codes = {name: MEASURE.format(name=name, verdict=verdict, **fixed) for name, verdict in verdicts.items()}
    run_each(PEAK + MAKE, codes)


@pytest.mark.parametrize("limited", [False, True], ids=["peak", "address-space"])
def test_bombs_stay_within_the_limit(limited):
    """`address-space`: with no more address space than the limit and a constant, the result is the same."""
    measure_each(BOMBS, LIMIT, limited)


def test_content_within_the_limit_is_in_memory_once():
    names = ("gzip_zeros", "snappy_zeros", "lz4_zeros", "zstd_zeros", "zstd_zeros_unsized")
    measure_each(dict.fromkeys(names, f"ok {300 * MIB}"), 320 * MIB, limited=False)


@pytest.mark.parametrize(
    "module, codec, pip_name",
    [("cramjam", 2, "cramjam"), ("lz4", 3, "lz4"), ("zstandard", 4, "zstandard")],
)
def test_missing_library_is_named_with_its_pip_name(module, codec, pip_name):
    code = f"""
import sys
sys.modules[{module!r}] = None
from kafkarec import codecs
for _ in range(2):
    try:
        codecs.decompress({codec}, b"\\x1f\\x8b\\x08\\0" + bytes(20), 100)
    except codecs.MissingCodec as error:
        print(error.reason, "pip install {pip_name}" in error.detail)
"""
    assert run(code).splitlines() == ["missing_codec True"] * 2


def test_gzip_is_read_without_its_library():
    code = """
import gzip, sys
sys.modules["isal"] = None
from kafkarec import codecs
print(bytes(codecs.decompress(1, gzip.compress(b"content"), 100)))
"""
    assert run(code).strip() == "b'content'"


def test_a_library_that_cannot_be_loaded_is_told_apart(tmp_path):
    """As in a process whose memory is limited."""
    (tmp_path / "cramjam.py").write_text("raise ImportError('cramjam.so: failed to map segment')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from kafkarec import codecs
try:
    codecs.decompress(2, b"\\4abc", 100)
except codecs.MissingCodec as error:
    print(error)
"""
    told = "missing_codec: snappy needs cramjam, which cannot be loaded: cramjam.so: failed to map segment"
    assert run(code).strip() == told


def test_no_library_is_imported_before_its_first_use():
    names = ("isal", "cramjam", "lz4", "zstandard")
    code = f"import sys; from kafkarec import codecs; print([name for name in {names} if name in sys.modules])"
    assert run(code).strip() == "[]"
