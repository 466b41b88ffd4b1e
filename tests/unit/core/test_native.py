"""gzip, lz4 and zstd by C pointer, snappy by a C function of ours: which payloads are, which are left to the Python
calls, and the same rows in both cases.

Every frame is hand-made with one odd field. The oracle decides whether it is good; `by_pointer`: how it must be read.
Odd frames of gzip and zstd, which libraries read in both cases: tests/unit/codecs/test_damage.py.
"""

import ctypes
import random
import struct
from concurrent.futures import ThreadPoolExecutor

import builders
import isal.igzip_lib
import lz4.block
import lz4.frame
import oracle_codecs
import pytest
import subprocesses
import zstandard
from builders import raw_snappy, raw_varint
from core_reading import decode_error, error_as_oracle
from oracle_codecs import xxh32

import kafkarec
from kafkarec import codecs
from kafkarec._checksum import extension_file
from kafkarec.codecs import native, snappy, zstd

pytestmark = pytest.mark.core

PARTS = builders.records(12, value=b"a value that repeats, repeats %d")
CONTENT = b"".join(PARTS)
SIZE = len(CONTENT)
LZ4_MAGIC, ZSTD_MAGIC = b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"
SIZED, CHECKED, BLOCK_CHECKED = 0x08, 0x04, 0x10
STORED = 1 << 31
END_MARK = bytes(4)


def exports(name):
    """Return whether the installed library exports the functions that the engine calls."""
    if name == "snappy":
        return True
    if name == "gzip":
        return hasattr(ctypes.CDLL(isal.igzip_lib.__file__), "isal_inflate_stateless")
    if name == "lz4":
        return hasattr(ctypes.CDLL(lz4.frame._frame.__file__), "LZ4_decompress_safe")
    return hasattr(ctypes.CDLL(extension_file("zstandard", "_cffi")), "ZSTD_decompressDCtx")


@pytest.fixture
def calls(monkeypatch):
    """Return the codec ids of payloads that were decompressed by the Python calls."""
    for name in ("gzip", "lz4", "snappy", "zstd"):
        native.install(name)
        if name not in native.in_use:
            assert not exports(name), f"{name} could be called by pointer"
            pytest.skip(f"the installed {name} has no functions to call by pointer")
    seen = []
    decompress = codecs.decompress_by_module

    def counted(codec, *rest):
        seen.append(codec)
        return decompress(codec, *rest)

    monkeypatch.setattr(codecs, "decompress_by_module", counted)
    return seen


@pytest.fixture
def by_pointer(calls):
    """Return a function that tells whether the engine decompressed a payload itself, and asserts the oracle's verdict
    in both cases."""

    def judged(codec, payload, count=12, magic=2):
        calls.clear()
        if magic == 2:
            error_as_oracle(builders.batch(codec=codec, payload=payload, count=count))
        else:
            error_as_oracle(builders.wrapper(b"", magic=magic, codec=codec, payload=payload, offset=count - 1))
        return not calls

    return judged


def cut(content, size):
    return [content[at : at + size] for at in range(0, len(content), size)]


def packed(piece):
    raw = lz4.block.compress(piece, store_size=False)
    return struct.pack("<I", len(raw)) + raw


def stored(piece):
    return struct.pack("<I", len(piece) | STORED) + piece


def checked(block, wrong=0):
    return block + struct.pack("<I", xxh32(block[4:]) ^ wrong)


def lz4_frame(blocks, flags=0x60, sizes=0x40, *, end=END_MARK, size=None, wrong=0):
    """Return a frame with a right header checksum unless `wrong`, and a content size if the flags have one."""
    head = bytes([flags, sizes])
    if flags & SIZED:
        head += struct.pack("<Q", SIZE if size is None else size)
    return b"".join([LZ4_MAGIC, head, bytes([xxh32(head) >> 8 & 0xFF ^ wrong]), *blocks, end])


def test_plain_lz4_frames_are_decompressed_by_pointer(by_pointer):
    for code in (4, 7):
        for piece in (SIZE, 100):
            for flags in (0x60, 0x60 | SIZED, 0x60 | CHECKED, 0x60 | BLOCK_CHECKED, 0x60 | SIZED | CHECKED, 0x7C):
                for make in (packed, stored):
                    blocks = [make(part) for part in cut(CONTENT, piece)]
                    if flags & BLOCK_CHECKED:
                        blocks = [checked(block) for block in blocks]
                    end = END_MARK + (b"any!" if flags & CHECKED else b"")
                    frame = lz4_frame(blocks, flags, code << 4, end=end)
                    assert by_pointer("lz4", frame), (code, piece, flags)
                    assert by_pointer("lz4", frame + b"behind"), "Kafka reads nothing behind the end"
    for claimed in (0, 1, 2**63, 2**64 - 1):
        assert by_pointer("lz4", lz4_frame([packed(CONTENT)], 0x68, size=claimed))


def test_other_lz4_frames_are_left_to_the_library(by_pointer):
    for blocks in ([packed(b""), packed(CONTENT)], [packed(CONTENT), packed(b"")]):
        assert not by_pointer("lz4", lz4_frame(blocks)), "a block of nothing"
    blocks = [packed(CONTENT)]
    for bit in range(8):
        flags = 0x60 ^ 1 << bit
        frame = lz4_frame([checked(blocks[0])] if bit == 4 else blocks, flags, end=END_MARK + bytes(4))
        assert by_pointer("lz4", frame) == (bit in (2, 3, 4)), bit
    for sizes in range(256):
        good = sizes in (0x40, 0x50, 0x60, 0x70)
        assert by_pointer("lz4", lz4_frame(blocks, sizes=sizes)) == good, sizes
    for bit in range(8):
        for flags in (0x60, 0x68):
            assert not by_pointer("lz4", lz4_frame(blocks, flags, wrong=1 << bit))
            inner = b"".join(builders.message(magic=1, offset=n, value=b"v" * 90) for n in range(3))
            for magic in (0, 1):
                payload = lz4_frame([packed(inner)], flags, wrong=1 << bit)
                assert by_pointer("lz4", payload, 3, magic) == (magic == 0), "KAFKA-3160"
    for at in range(4):
        frame = lz4_frame(blocks)
        assert not by_pointer("lz4", builders.flipped(frame, at))
    assert not by_pointer("lz4", bytes(20), 1), "no magic, and then what would be the end mark"
    assert not by_pointer("lz4", lz4_frame(blocks, end=struct.pack("<I", STORED))), "Kafka takes that for the end"
    ended = lz4_frame([*blocks, struct.pack("<I", STORED), packed(CONTENT)])
    assert not by_pointer("lz4", ended), "and reads nothing behind it"
    for wrong in (1, 1 << 31):
        assert not by_pointer("lz4", lz4_frame([checked(blocks[0], wrong)], 0x70))


def test_lz4_blocks_at_their_maximum(by_pointer):
    """A stored block has at most 64 KiB, and so has a decompressed block."""
    for code, most in ((4, 64 << 10), (5, 256 << 10)):
        for size in (most - 1, most, most + 1):
            for make in (packed, stored):
                for sizes in ([size], [300, size], [size, 300]):
                    content = b"".join(builders.record_of_size(n) for n in sizes)
                    pieces = [content[: sizes[0]], content[sizes[0] :]]
                    frame = lz4_frame([make(piece) for piece in pieces if piece], sizes=code << 4)
                    good = size <= most
                    assert by_pointer("lz4", frame, len(sizes)) == good, (code, size, sizes)
    broken = struct.pack("<I", 9) + b"\xff" * 9
    assert not by_pointer("lz4", lz4_frame([broken]))


# ---- snappy


def xerial(*contents, blocks=()):
    """Return a stream of these contents and blocks."""
    return snappy.WRITTEN_HEADER + b"".join(map(builders.xerial_chunk, [*map(raw_snappy, contents), *blocks]))


def literal(piece, width=0):
    """Return the element, with its size in `width` bytes behind the tag."""
    size = len(piece) - 1
    return bytes([(59 + width if width else size) << 2]) + (size.to_bytes(width, "little") if width else b"") + piece


def size_of(content):
    """Return the varint at the beginning of a block."""
    return raw_varint(len(content))


def test_plain_snappy_payloads_are_decompressed_in_c(by_pointer):
    for size in (1, 7, 100, 10_000):
        assert by_pointer("snappy", xerial(*cut(CONTENT, size))), size
    assert by_pointer("snappy", raw_snappy(CONTENT))
    for width in (1, 2, 3, 4):
        payload = size_of(CONTENT) + literal(CONTENT[:99], width) + literal(CONTENT[99:], 2)
        assert by_pointer("snappy", payload), width
    inner = b"".join(builders.message(magic=1, offset=n, value=b"v" * 90) for n in range(3))
    assert by_pointer("snappy", builders.xerial(inner), 3, 1)


def test_snappy_copies_of_every_offset_and_size(calls):
    """A value that begins with `offset` different bytes and repeats them, by each kind of copy."""
    for kind in (1, 2, 3):
        for size in range(4, 12) if kind == 1 else range(1, 65):
            for offset in [*range(1, 34), 63, 64, 65, 200]:
                start = bytes(n % 251 for n in range(offset))
                value = (start * (size // offset + 2))[: offset + size]
                content = builders.record(key=None, value=value)
                head, tail = content[: -1 - size], content[-1:]
                if kind == 1:
                    copy = bytes([offset >> 8 << 5 | size - 4 << 2 | 1, offset & 255])
                else:
                    copy = bytes([size - 1 << 2 | kind]) + offset.to_bytes(2 * kind - 2, "little")
                payload = size_of(content) + literal(head, 2) + copy + literal(tail)
                calls.clear()
                (found,) = kafkarec.decode(builders.batch(codec="snappy", payload=payload, count=1))
                assert found.value == value and not calls, (kind, size, offset)


def test_other_snappy_payloads_are_left_to_the_library(by_pointer):
    stream, one = xerial(CONTENT[:90], CONTENT[90:]), raw_snappy(CONTENT)
    others = [stream + b"x", stream + bytes(4), stream + stream, stream[:16], one + b"x", one + b"\0x"]
    others += [size_of(CONTENT) + literal(CONTENT, 2)[:-1], size_of(CONTENT + b"x") + literal(CONTENT, 2)]
    others += [size_of(CONTENT[1:]) + literal(CONTENT, 2), b"\xff\xff\xff\xff\x0f" + literal(CONTENT, 2)]
    others += [xerial(blocks=[b""]), xerial(CONTENT, blocks=[b"\0"]), b"\x80\x00"]
    first, rest = literal(CONTENT[:20]), literal(CONTENT[20:], 2)
    for copy in (b"\1\0", b"\2\0\0", b"\3\0\0\0\0", b"\1\x15", b"\2\x15\0", b"\3\x15\0\0\0", b"\3\1\0\0\x80"):
        others.append(size_of(CONTENT) + first + copy + rest)
    for number, payload in enumerate(others):
        assert not by_pointer("snappy", payload), number
    for payload in (stream, one):
        for end in range(1, len(payload)):
            assert not by_pointer("snappy", payload[:end]) or end == len(xerial(CONTENT[:90])), end
    longer = builders.patched(size_of(CONTENT), len(size_of(CONTENT)) - 1, bytes([size_of(CONTENT)[-1] | 0x80])) + b"\0"
    assert not by_pointer("snappy", longer + literal(CONTENT, 2)), "a varint with a byte too many"


# ---- zstd


def raw_block(piece, *, last=False):
    return (len(piece) << 3 | last).to_bytes(3, "little") + piece


def zstd_frame(blocks, *, window=None, size=SIZE):
    """Return a frame with a content size of 8 bytes: a single segment, or with a window descriptor."""
    descriptor = b"\xe0" if window is None else bytes([0xC0, window])
    return b"".join([ZSTD_MAGIC, descriptor, struct.pack("<Q", size), *blocks])


def test_several_zstd_frames_and_large_ones_are_left_to_the_library(by_pointer):
    """More than eight mebibytes are."""
    frame = zstd_frame([raw_block(CONTENT, last=True)])
    for payload in (frame + frame, frame + b"x", b"x" + frame):
        assert not by_pointer("zstd", payload)
    for size in (8 << 20, (8 << 20) + 1):
        pieces = cut(builders.record_of_size(size), 100_000)
        large = zstd_frame([raw_block(piece, last=piece is pieces[-1]) for piece in pieces], size=size)
        assert by_pointer("zstd", large, 1) == (size == 8 << 20), size


def test_a_zstd_window_at_the_contents_size(by_pointer, calls):
    """The window's exponent has five bits, its mantissa three; content larger than its window is left to a stream."""
    for exponent in range(4):
        for eighths in range(8):
            window = (1 << 10 + exponent) // 8 * (8 + eighths)
            for size in (window - 1, window, window + 1):
                content = builders.record_of_size(size)
                pieces = cut(content, 1000)
                blocks = [raw_block(piece, last=piece is pieces[-1]) for piece in pieces]
                frame = zstd_frame(blocks, window=exponent << 3 | eighths, size=size)
                assert by_pointer("zstd", frame, 1) == (size <= window), (window, size)
    for exponent, good in ((15, True), (16, True), (17, False), (18, False), (31, False)):
        for eighths in (0, 7):
            frame = zstd_frame([raw_block(CONTENT, last=True)], window=exponent << 3 | eighths)
            calls.clear()
            error = decode_error(builders.batch(codec="zstd", payload=frame, count=len(PARTS)))
            assert (error is None) == ((exponent, eighths) <= (17, 0)), "128 MiB are the most"
            assert (not calls) == good, exponent


def test_a_new_process_calls_by_pointer(calls):
    """The pointers are passed on once, at the first payload of a codec."""
    subprocesses.run("""
import builders, kafkarec
from kafkarec import codecs
from kafkarec._checksum import extension_file
parts = builders.records(12, value=b"a value that repeats, repeats %d")
codecs_at = {0: "lz4", 12: "zstd", 24: "gzip", 36: "snappy"}
data = b"".join(builders.batch(parts, codec=codec, base_offset=at) for at, codec in codecs_at.items())
kafkarec.decode(data)
def refuse(*_):
    raise AssertionError("by a Python call")
codecs.decompress_by_module = refuse
assert [record.offset for record in kafkarec.decode(data)] == list(range(48))
""")


def beyond_its_window(chance, *, sized):
    """Return a frame that declares a window of 128 or 256 KiB and refers further back."""
    piece = chance.randbytes(chance.randrange(100_000, 400_000))
    content = piece + bytes(chance.randrange(300_000)) + piece[:5000] + chance.randbytes(60_000) + piece[-3000:]
    frame = zstandard.ZstdCompressor(write_content_size=sized, write_checksum=True).compress(content)
    if frame[4] & 0x20:  # a single segment: the same blocks with a window descriptor
        frame = frame[:4] + bytes([frame[4] & ~0x20]) + b"\0" + frame[5:]
    return builders.patched(frame, 5, bytes([chance.choice([0x38, 0x39, 0x3A, 0x40, 0x44])]))


def outcome(decompress, frame):
    try:
        return bytes(decompress(frame))
    except (codecs.CodecError, oracle_codecs.Refused):
        return None


def judged(frame):
    return outcome(lambda payload: zstd.decompress(payload, 4 << 20), frame)


def test_the_verdict_on_a_zstd_frame_depends_on_its_bytes_alone():
    """Not on what the thread decompressed before: a used context keeps a larger buffer, in which a reference
    beyond the window still finds its bytes. Kafka has a new stream for each batch."""
    chance = random.Random(11)
    before = builders.zstd_frame(chance.randbytes(3 << 20))
    refused = 0
    for number in range(24):
        frame = beyond_its_window(chance, sized=number % 2 == 0)
        wanted = outcome(lambda data: oracle_codecs.zstd_stream(data).content, frame)
        refused += wanted is None
        zstd.decompress(before, 4 << 20)
        assert judged(frame) == wanted
        with ThreadPoolExecutor(1) as new:  # a new thread has a new context
            assert new.submit(judged, frame).result() == wanted
    assert 3 < refused < 21, refused
