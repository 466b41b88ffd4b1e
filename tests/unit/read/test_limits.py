"""Memory depends on the input's size, never on a number in it (P2), and decompression has a true limit (P3).

Each row of a table runs in a separate process whose address space is limited and whose peak is measured: an error
after an allocation of 80 MB is no clean error (confluentinc/kcp #399).
"""

import gzip
import struct

import builders
import lz4.frame
import pytest
import subprocesses
import zstandard
from plain_logs import batch

import kafkarec

MB = 1 << 20
SETUP = (
    subprocesses.PEAK
    + """
import sys, time, builders, kafkarec, core_reading, struct
from plain_logs import batch
kafkarec.decode(b"".join(batch(0, 50, codec=codec) for codec in ("lz4", "zstd", "gzip", "snappy")))
core_reading.assert_agree(batch(0, 3))  # what it imports, each copy of the process would import again
limit_memory(600 << 20)
NUMBERS = [-2**31, -2, -1, 0, 1, 2, 63, 64, 100, 127, 128, 8191, 8192, 2**20, 10**8, 2**28, 2**31 - 1]
def near(left):
    return sorted({*NUMBERS, left - 1, left, left + 1})
"""
)
CRAFTED = {
    "record count": "builders.batch(builders.records(3), codec=codec, count=n)",
    "record length": "builders.batch([builders.record(length=n)], codec=codec)",
    "key length": "builders.batch([builders.record(key_length=n)], codec=codec)",
    "value length": "builders.batch([builders.record(value_length=n)], codec=codec)",
    "header count": "builders.batch([builders.record(headers=[(b'h', b'v')], header_count=n)], codec=codec)",
    "header key length": "builders.batch([builders.record(headers=[(b'h', b'v')], header_key_length=n)], codec=codec)",
    "header value length": (
        "builders.batch([builders.record(headers=[(b'h', b'v')], header_value_length=n)], codec=codec)"
    ),
    "batch length": "batch(0, 3, length=n)",
    "last offset delta": "batch(0, 3, last_offset_delta=n, codec=codec)",
}
MESSAGE = "builders.message(magic=magic{})".format
WRAPPER = "builders.wrapper({}, codec=codec, magic=magic{})".format
LEGACY = {
    "message size": MESSAGE(", size=n"),
    "message key length": MESSAGE(", key_length=n"),
    "message value length": MESSAGE(", value_length=n"),
    "inner key length": WRAPPER(MESSAGE(", key_length=n"), ""),
    "inner value length": WRAPPER(MESSAGE(", value_length=n"), ""),
    "inner size": WRAPPER(f"{MESSAGE(', size=n')} + {MESSAGE('')}", ""),
    "wrapper key length": WRAPPER(MESSAGE(""), ", key=b'k', key_length=n"),
    "wrapper value length": WRAPPER(MESSAGE(""), ", value_length=n"),
}
STREAMS = {
    "xerial chunk size": "builders.batch(codec='snappy', count=1, payload=builders.XERIAL_HEADER"
    " + struct.pack('>I', n & 0xffffffff) + b'abc')",
    "snappy block claim": "builders.batch(codec='snappy', count=1, payload=builders.raw_varint(n & 0xffffffff)"
    " + b'abc')",
    "lz4 block size": "builders.batch(codec='lz4', count=1, payload=builders.lz4_frame(b'')[:7]"
    " + struct.pack('<I', n & 0xffffffff) + b'abc')",
    "zstd content size": "builders.batch(codec='zstd', count=1, payload=b'\\x28\\xb5\\x2f\\xfd\\xe0'"
    " + struct.pack('<Q', (n & 0xffffffff) << 9) + b'\\x01\\x00\\x00')",
    "zstd skippable size": "builders.batch(codec='zstd', count=1, payload=b'\\x50\\x2a\\x4d\\x18'"
    " + struct.pack('<I', n & 0xffffffff) + b'abc')",
}


EACH_NUMBER = """
for codec in CODECS:
    for n in near(14):
        raw = MADE
        core_reading.assert_agree(raw, deep=False)
        begin()
        for options in ({}, {"errors": "skip"}):
            try:
                kafkarec.decode(raw, **options)
            except kafkarec.KafkaRecordError:
                pass
        grown = peak()
        assert grown < 24 << 20, f"{codec} {n}: {grown} bytes for an input of {len(raw)}"
"""


def check_each(table, codecs, magic=2):
    """Decode what each row of the table makes of each number, with each codec where it takes one."""
    codes = {
        field: EACH_NUMBER.replace("CODECS", repr(codecs if "codec=codec" in made else ["none"])).replace("MADE", made)
        for field, made in table.items()
    }
    subprocesses.run_each(f"{SETUP}magic = {magic}\n", codes)


def test_crafted_lengths_of_magic_2_take_no_memory():
    check_each(CRAFTED, ["none", "gzip", "zstd"])


@pytest.mark.parametrize("magic", [0, 1])
def test_crafted_lengths_of_magic_0_and_1_take_no_memory(magic):
    check_each(LEGACY, ["gzip", "snappy", "lz4"], magic)


def test_crafted_sizes_inside_the_codecs_take_no_memory():
    check_each(STREAMS, [])


BOMB = bytes(64 * MB)
BOMBS = {
    "gzip": lambda: ("gzip", gzip.compress(BOMB, 9)),
    "lz4": lambda: ("lz4", lz4.frame.compress(BOMB, block_linked=False, block_size=7)),
    "lz4, small blocks": lambda: ("lz4", builders.lz4_frame(BOMB)),
    "zstd": lambda: ("zstd", builders.zstd_frame(BOMB)),
    "zstd with content size": lambda: ("zstd", zstandard.compress(BOMB)),
    "snappy": lambda: ("snappy", builders.xerial(BOMB, 8 * MB)),
    "snappy, small chunks": lambda: ("snappy", builders.xerial(BOMB)),
    "snappy without a header": lambda: ("snappy", builders.xerial(BOMB, 64 * MB)[20:]),
    "many gzip members": lambda: ("gzip", gzip.compress(bytes(4 * MB), 9) * 16),
    "many zstd frames": lambda: ("zstd", builders.zstd_frame(bytes(4 * MB)) * 16),
}


def bomb(name, magic):
    codec, payload = BOMBS[name]()
    if magic == 2:
        return builders.batch(codec=codec, payload=payload, count=1)
    return builders.wrapper(b"", magic=magic, codec=codec, payload=payload, offset=5)


STOPPED = """
data = open(PATH, "rb").read()
cap = 4 << 20
begin()
started = time.process_time()
for _ in range(2):
    try:
        kafkarec.decode(data, max_decompressed_bytes=cap)
    except kafkarec.LimitExceededError as error:
        assert "max_decompressed_bytes" in str(error), error
        assert error.reason == "limit_exceeded" and error.position == 0
    else:
        raise SystemExit("the bomb went through")
skipped = kafkarec.decode(data, max_decompressed_bytes=cap, errors="skip")
assert [damage.reason for damage in skipped.damage] == ["limit_exceeded"]
assert peak() < 2 * cap + (20 << 20), peak()
assert time.process_time() - started < 10
"""


@pytest.mark.parametrize("magic", [2, 1])
def test_a_bomb_stops_at_the_cap(magic, tmp_path):
    codes = {}
    for name in BOMBS:
        if magic == 2 or "zstd" not in name:  # zstd needs magic 2
            (tmp_path / name).write_bytes(bomb(name, magic))
            codes[name] = STOPPED.replace("PATH", repr(str(tmp_path / name)))
    subprocesses.run_each(SETUP, codes)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_cap_is_exact(codec):
    parts = builders.records(20, value=b"v" * 500)
    size = sum(map(len, parts))
    raw = builders.batch(parts, codec=codec)
    assert len(kafkarec.decode(raw, max_decompressed_bytes=size)) == 20
    with pytest.raises(kafkarec.LimitExceededError):
        kafkarec.decode(raw, max_decompressed_bytes=size - 1)


def test_uncompressed_payloads_have_no_cap():
    assert len(kafkarec.decode(batch(0, 50), max_decompressed_bytes=1)) == 50


EMPTY_FRAMES = [
    ("gzip", gzip.compress(b"", mtime=0)),
    ("zstd", zstandard.compress(b"")),
    ("zstd", b"\x50\x2a\x4d\x18\0\0\0\0"),
    ("snappy", builders.XERIAL_HEADER),
    ("snappy", struct.pack(">i", 1) + b"\0"),
]
IN_LINEAR_TIME = """
data = open(PATH, "rb").read()
begin()
started = time.process_time()
try:
    kafkarec.decode(data)
except kafkarec.KafkaRecordError:
    pass
assert time.process_time() - started < 8, time.process_time() - started
assert peak() < 40 << 20, peak()
"""


def test_many_empty_frames_take_linear_time(tmp_path):
    codes = {}
    for codec, piece in EMPTY_FRAMES:
        payload = piece * (2 * MB // len(piece))
        if codec == "snappy":
            payload = builders.XERIAL_HEADER + payload
        path = tmp_path / f"{codec} {piece.hex()}"
        path.write_bytes(builders.batch(codec=codec, payload=payload, count=1))
        codes[path.name] = IN_LINEAR_TIME.replace("PATH", repr(str(path)))
    subprocesses.run_each(SETUP, codes)


def test_crafted_lengths_do_not_make_resynchronisation_quadratic():
    """CRC work is limited to 8 times the input: thousands of headers that each claim all following bytes."""
    code = (
        SETUP
        + """
head = batch(0, 1)[:61]
n = 30_000
data = b"".join(
    struct.pack(">qi", i, (n - i) * 61 - 12) + head[12:] for i in range(n)
) + b"x" * 61
started = time.process_time()
skipped = kafkarec.decode(data, errors="skip")
assert len(skipped) == 0
assert time.process_time() - started < 8, time.process_time() - started
"""
    )
    subprocesses.run(code)


def test_too_little_memory_raises_limit_exceeded():
    """No MemoryError, and no damage: the bytes are good. The next decode works."""
    code = (
        SETUP.replace("limit_memory(600 << 20)", "")
        + """
raw = builders.batch([builders.record(value=bytes(96 << 20))])
limit_memory(40 << 20)
for errors in ("raise", "skip"):
    try:
        kafkarec.decode(raw, errors=errors)
    except kafkarec.LimitExceededError as error:
        assert error.reason == "out_of_memory" and error.position == 0, error
    else:
        raise SystemExit("96 MB fitted into 40")
assert len(kafkarec.decode(batch())) == 5
"""
    )
    subprocesses.run(code)


def test_too_little_memory_for_zstd_is_no_damage():
    """The library's error says it in words, as it says that a frame is damaged."""
    code = (
        SETUP.replace("limit_memory(600 << 20)", "")
        + """
import zstandard
stream = zstandard.ZstdCompressor().compressobj()  # its frame has a window of 2 MiB
raw = builders.batch(count=1, codec="zstd", payload=stream.compress(builders.record()) + stream.flush())
limit_memory(0)
held = []
try:
    while True:
        held.append(bytearray(128 << 10))
except MemoryError:
    pass
try:
    kafkarec.decode(raw)
except kafkarec.LimitExceededError as error:
    assert "out of memory before the limit" in str(error), error
else:
    raise SystemExit("there was memory")
assert len(kafkarec.decode(batch())) == 5
"""
    )
    subprocesses.run(code)
