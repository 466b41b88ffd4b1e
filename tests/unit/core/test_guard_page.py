"""No byte is read beyond the buffer: inaccessible pages are before and after the batch. The fast path of records and
codecs by pointer read ahead, and no more than there is."""

import pytest
import subprocesses

pytestmark = pytest.mark.core

SETUP = """
import ctypes, mmap, golden, kafkarec, builders, oracle
from long_run import fewer
from kafkarec.read.decode_options import request
from kafkarec.read.walk import walk
AUDITED = request(columns=["key"], control=True, errors="skip", restore=False).with_options(audit=True)
STEP = fewer(1, 7)             # every length, or every seventh from a first one that differs
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
def guarded(size):
    '''Memory between two pages that may not be touched.'''
    pages = -(-max(size, 1) // PAGE)
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for at in (start, start + (pages + 1) * PAGE):
        assert libc.mprotect(ctypes.c_void_p(at), PAGE, 0) == 0, ctypes.get_errno()
    return area, start + PAGE, start + (pages + 1) * PAGE
def read(view):
    for options in ({}, {"errors": "skip"}, {"check_crcs": False}, {"layout": "view"}):
        try:
            columns = kafkarec.decode(view, control=True, columns=COLUMNS, **options)
            columns.__arrow_c_stream__()
            for record in columns:
                record.key
        except kafkarec.KafkaRecordError:
            pass
    for step in walk([view], AUDITED):  # as verify reads
        step.rows.audit_notes()
    try:
        kafkarec.scan(view)
        for batch in kafkarec.batches(view):
            list(batch)
    except kafkarec.KafkaRecordError:
        pass
COLUMNS = ["offset", "timestamp", "key", "value", "headers", "sequence", "batch_position"]
area, low, high = guarded(128 * 1024)
def at_both_ends(data):
    for address in (low, high - len(data)):
        ctypes.memmove(address, data, len(data))
        view = (ctypes.c_char * len(data)).from_address(address)
        read(view)
    return view
def agrees(data):
    '''The values are the oracle's.'''
    view, wanted = at_both_ends(data), oracle.decode(data)
    try:
        found = [record.value for record in kafkarec.decode(view)]
    except kafkarec.KafkaRecordError:
        found = None
    assert found == (None if wanted.error else [record["value"] for record in wanted.records])
count = 0
"""
LOOPS = {
    "golden files": """
for case in golden.vectors() + golden.invalid():
    if len(case.bytes) < 100_000:
        at_both_ends(case.bytes); count += 1
assert count > 300
""",
    "cut at every byte": """
for case in golden.vectors() + golden.invalid():
    if len(case.bytes) <= 130:
        for length in range(count % STEP, len(case.bytes), STEP):
            at_both_ends(case.bytes[:length]); count += 1
assert count > 5000 // STEP
""",
    "records cut at every byte under a right checksum": """
headers = [(b"header", b"x" * 20), (b"h", None)]
body = b"".join(builders.records(3, key=b"k" * 70, value=b"v" * 130, headers=headers))
for length in range(0, len(body), fewer(1, 2)):
    for n in (0, 1, 2, 3, 2**31 - 1):
        at_both_ends(builders.batch(payload=body[:length], count=n)); count += 1
inner = builders.message(magic=1, key=b"key", value=b"value")
for length in range(18, len(inner)):
    cut = builders.patched(inner[:length], 8, (length - 12).to_bytes(4, "big"))
    at_both_ends(builders.with_legacy_crc(cut)); count += 1
assert count > 100
""",
    "varints and texts at the very end": """
for end in (b"\\x80", b"\\xff" * 4, b"\\xff" * 9, b"\\xff" * 10, b"\\x01\\x01\\x02", b"\\xf0\\x9f"):
    for pad in range(0, 70, fewer(1, 3)):
        body = builders.record(key=None, value=b"x" * pad)
        at_both_ends(builders.batch(payload=body + end, count=2))
        at_both_ends(builders.batch([builders.record(value=b"x" * pad, headers=[(b"a" * pad + end, None)])]))
        count += 1
""",
    "31 bytes ahead of a record, which the fast path reads": """
# a record of length 0 whose fields would be as long as they can: 1 + 10 + 4 * 5 bytes, none of them its own
far = b"\\0" + b"\\x80" * 9 + b"\\1" + b"\\x80" * 4 + b"\\1" + b"\\xc7\\x81\\x80\\x80\\0" * 2 + b"\\x80" * 4 + b"\\0"
assert len(far) == 31
for n in range(48):
    behind = (far + bytes(64))[:n]
    agrees(builders.batch(payload=b"\\0" + behind, count=2))
    # one byte of a field that is copied with 31 behind it
    filler = b"" if n < 7 else builders.record(key=None, value=b"x" * (n - 7))
    for headers in ((), [(b"h", b"v")]):
        record = builders.record(key=b"k", value=b"v", headers=headers)
        agrees(builders.batch([record, filler] if filler else [record]))
        agrees(builders.batch(payload=record + bytes(n), count=1))
# a record that ends anywhere, also in a varint
fields = b"\\0\\0\\0\\2k\\2v\\2\\2h\\2w"
for n in range(len(fields)):
    for begun in (b"", b"\\x80", b"\\x80\\x80"):
        agrees(builders.batch(payload=builders.sized(fields[:n] + begun), count=1))
""",
    "blocks of codecs called by pointer that are longer than their payload, and frames cut anywhere": """
parts = builders.records(30, value=b"a value that repeats, repeats %d")
raw = b"".join(parts)
stored = b"\\x04\\x22\\x4d\\x18\\x60\\x40\\x82" + (len(raw) | 1 << 31).to_bytes(4, "little") + raw + bytes(4)
from oracle_codecs import xxh32
checked = b"\\x04\\x22\\x4d\\x18\\x70\\x40" + bytes([xxh32(b"\\x70\\x40") >> 8 & 0xFF]) + stored[7:-4]
checked += xxh32(raw).to_bytes(4, "little") + bytes(4)
odd = stored[:7] + (len(raw) + 1 | 1 << 31).to_bytes(4, "little") + raw + bytes(5)
frames = [("lz4", frame) for frame in (stored, odd, checked, builders.lz4_frame(raw))]
for codec, frame in [*frames, ("zstd", builders.zstd_frame(raw))]:
    agrees(builders.batch(codec=codec, payload=frame, count=30))
    for end in (*range(1, 30), len(frame) // 2, *range(len(frame) - 12, len(frame))):
        agrees(builders.batch(codec=codec, payload=frame[:end], count=30))
    if codec == "lz4":
        for size in (len(frame), 5000, 65535, 65536):
            for bit in (0, 1 << 31):
                claims = builders.patched(frame, 7, (size | bit).to_bytes(4, "little"))
                agrees(builders.batch(codec="lz4", payload=claims, count=30))
""",
}


SLOW = {"golden files", "cut at every byte"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LOOPS]
)
def test_nothing_is_read_beyond(name):
    subprocesses.run(SETUP + LOOPS[name])
