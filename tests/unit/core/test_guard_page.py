"""No byte is read beyond the buffer: an inaccessible page follows the batch."""

import pytest
import subprocesses

pytestmark = pytest.mark.core

SETUP = """
import ctypes, mmap, golden, kafkarec, builders
from long_run import fewer
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
    try:
        kafkarec.scan(view)
        for batch in kafkarec.batches(view):
            list(batch)
    except kafkarec.KafkaRecordError:
        pass
COLUMNS = ["offset", "timestamp", "key", "value", "headers", "sequence", "batch_position"]
area, low, high = guarded(128 * 1024)
def at_both_ends(data):
    for address in (high - len(data), low):
        ctypes.memmove(address, data, len(data))
        read((ctypes.c_char * len(data)).from_address(address))
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
}


IN_CORE = {"records cut at every byte under a right checksum", "varints and texts at the very end"}


@pytest.mark.parametrize(
    "name", [name if name in IN_CORE else pytest.param(name, marks=pytest.mark.slow) for name in LOOPS]
)
def test_nothing_is_read_beyond(name):
    subprocesses.run(SETUP + LOOPS[name])
