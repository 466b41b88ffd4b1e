"""The fast path of records reads 31 bytes beyond a record and no more: an inaccessible page follows."""

import pytest
import subprocesses

pytestmark = pytest.mark.core

GUARDED = """
import ctypes, mmap, builders, kafkarec, oracle
libc = ctypes.CDLL(None, use_errno=True)
area = mmap.mmap(-1, 3 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
assert libc.mprotect(ctypes.c_void_p(start + 2 * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0, ctypes.get_errno()
def read(data):
    at = start + 2 * mmap.PAGESIZE - len(data)
    ctypes.memmove(at, data, len(data))
    try:
        found = [r.value for r in kafkarec.decode((ctypes.c_char * len(data)).from_address(at))]
    except kafkarec.KafkaRecordError:
        found = None
    wanted = oracle.decode(data)
    assert found == (None if wanted.error else [record["value"] for record in wanted.records])
"""
RECORDS = """
# a record of length 0 whose fields would be as long as they can: 1 + 10 + 4 * 5 bytes, none of them its own
far = b"\\0" + b"\\x80" * 9 + b"\\1" + b"\\x80" * 4 + b"\\1" + b"\\xc7\\x81\\x80\\x80\\0" * 2 + b"\\x80" * 4 + b"\\0"
assert len(far) == 31
for n in range(48):
    behind = (far + bytes(64))[:n]
    read(builders.batch(payload=b"\\0" + behind, count=2))
    # one byte of a field that is copied with 31 behind it
    filler = b"" if n < 7 else builders.record(key=None, value=b"x" * (n - 7))
    for headers in ((), [(b"h", b"v")]):
        record = builders.record(key=b"k", value=b"v", headers=headers)
        read(builders.batch([record, filler] if filler else [record]))
        read(builders.batch(payload=record + bytes(n), count=1))
# a record that ends anywhere, also in a varint
fields = b"\\0\\0\\0\\2k\\2v\\2\\2h\\2w"
for n in range(len(fields)):
    for begun in (b"", b"\\x80", b"\\x80\\x80"):
        read(builders.batch(payload=builders.sized(fields[:n] + begun), count=1))
"""
COMPRESSED = """
parts = builders.records(30, value=b"a value that repeats, repeats %d")
raw = b"".join(parts)
stored = b"\\x04\\x22\\x4d\\x18\\x60\\x40\\x82" + (len(raw) | 1 << 31).to_bytes(4, "little") + raw + bytes(4)
from oracle_codecs import xxh32
checked = b"\\x04\\x22\\x4d\\x18\\x70\\x40" + bytes([xxh32(b"\\x70\\x40") >> 8 & 0xFF]) + stored[7:-4]
checked += xxh32(raw).to_bytes(4, "little") + bytes(4)
odd = stored[:7] + (len(raw) + 1 | 1 << 31).to_bytes(4, "little") + raw + bytes(5)
frames = [("lz4", frame) for frame in (stored, odd, checked, builders.lz4_frame(raw))]
for codec, frame in [*frames, ("zstd", builders.zstd_frame(raw))]:
    read(builders.batch(codec=codec, payload=frame, count=30))
    for end in (*range(1, 30), len(frame) // 2, *range(len(frame) - 12, len(frame))):
        read(builders.batch(codec=codec, payload=frame[:end], count=30))
    if codec == "lz4":
        for size in (len(frame), 5000, 65535, 65536):
            for bit in (0, 1 << 31):
                claims = builders.patched(frame, 7, (size | bit).to_bytes(4, "little"))
                read(builders.batch(codec="lz4", payload=claims, count=30))
"""


def test_the_fast_path_reads_31_bytes_ahead_and_no_more():
    subprocesses.run(GUARDED + RECORDS)


def test_codecs_by_pointer_read_no_byte_after_their_payload():
    """Blocks longer than the payload, and frames cut at every byte."""
    subprocesses.run(GUARDED + COMPRESSED)
