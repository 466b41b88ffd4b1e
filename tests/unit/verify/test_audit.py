"""The audit: what Kafka reads without an error and `verify` reports, batch by batch. test_verify has that of the
vectors."""

import struct

import builders
import lz4.frame
import plain_logs
import pytest
from builders import CODECS, batch, message, record, records, wrapper
from oracle_codecs import xxh32

import kafkarec
from kafkarec import codecs
from kafkarec._core import Source
from kafkarec.codecs import native
from kafkarec.ops.verify import batch_checks
from kafkarec.ops.verify.findings import Findings
from kafkarec.read.decode_options import request
from kafkarec.read.passes import read_chunks
from kafkarec.read.walk import walk

pytestmark = pytest.mark.core

ASKED = request(columns=["key"], control=True, errors="skip", check_crcs="all", restore=False)
AUDITED = ASKED._replace(options=ASKED.options._replace(audit=True))


def audited(data):
    """`kind at offset: detail` of each finding, and how often it was seen."""
    notes, found = Findings("file"), []
    for step in walk([data], AUDITED):
        batch_checks.add_audit_findings(step, notes)
    for one in notes:
        times = f", {one.count} in {1 + len(one.more)} places" if one.count > 1 else ""
        found.append(f"{one.kind} at {one.offset}: {one.detail}{times}")
    return found


def of_deltas(*deltas):
    """A batch with the offsets 10 to 12, whose records have others."""
    return batch([record(offset_delta=delta) for delta in deltas], base_offset=10, last_offset_delta=2)


def after_a_record(raw):
    """A batch with the offsets 10 and 11."""
    return batch([record(), raw], base_offset=10)


def spelled(*fields):
    """A record of these fields, which are behind its attributes."""
    return builders.sized(b"\0" + b"".join(fields))


def padded(number):
    """A number of one byte in two."""
    return bytes([number[0] | 0x80, 0])


def packed(codec, *borders, behind=b"", magic=2):
    """Two records or messages, compressed in a stream each up to these borders of their bytes."""
    content = b"".join(records(2)) if magic == 2 else message(magic=1) + message(magic=1, offset=1)
    parts = [content[low:high] for low, high in zip((0, *borders), (*borders, None), strict=True)]
    payload = b"".join(builders.compress(codec, part) for part in parts) + behind
    if magic == 2:
        return batch(records(2), codec=codec, payload=payload)
    return wrapper(b"", codec=codec, payload=payload, offset=1)


def in_lz4(size=None, wrong=False, magic=2):
    """A batch of two records, or a wrapper of a message, in an LZ4 frame: with another size in its header, with a wrong
    checksum of its content."""
    content = b"".join(records(2)) if magic == 2 else message(magic=1)
    frame = bytearray(lz4.frame.compress(content, block_linked=False, content_checksum=True))
    if size is not None:
        frame[6:14] = struct.pack("<Q", size)
        frame[14] = xxh32(bytes(frame[4:14])) >> 8 & 0xFF
    frame[-1] ^= wrong
    payload = bytes(frame)
    return batch(records(2), codec="lz4", payload=payload) if magic == 2 else wrapper(b"", codec="lz4", payload=payload)


def of_inner(*inner, behind=b"", magic=1, **fields):
    """A wrapper with the last offset 12 and inner messages of these fields."""
    made = [message(**({"offset": n, "magic": magic} | one)) for n, one in enumerate(inner)]
    return wrapper(b"".join(made) + behind, magic=magic, **({"offset": 12} | fields))


SIZE = len(b"".join(records(2)))
FIELDS = b"\0", b"\2", b"\0", b"\0", b"\2", b"\0", b"\0"
"""Of a record: time, offset delta 1, an empty key and value, a header without key and value."""
FALLING = "record_offsets_unordered at 10: offset 12 after offset 12"
OUTSIDE = "record_offset_outside at 10: records with the offsets {} in a batch with the offsets 10 to 12"
BELOW, NOT_MINIMAL, ATTRIBUTES = (
    f"{kind} at 10: in a record of the batch at offset 10"
    for kind in ("length_below_minus_one", "varint_not_minimal", "record_attributes_unknown")
)
NOT_DECLARED = f"count_zero_with_payload at 0: no records declared, and {SIZE} bytes of records are there"
CHECKSUM, CONTENT = (
    f"payload_checksum_ignored at 0: lz4: {what}"
    for what in ("wrong content checksum", "the content does not have the size in the frame's header")
)
SKIPPABLE = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
CASES = [
    (of_deltas(0, 1, 2), []),
    (of_deltas(0, 2, 2, 1), [FALLING]),
    (of_deltas(-1, 2), [OUTSIDE.format("9 to 12")]),
    (of_deltas(3), [OUTSIDE.format("13 to 13")]),
    (of_deltas(0, 3), [OUTSIDE.format("10 to 13")]),
    (
        batch([record(offset_delta=n, headers=[(b"\xff", b""), ("é€".encode(), b"")] * n) for n in range(3)]),
        ["header_key_not_utf8 at 1: a header key at offset 1, 3 in 2 places"],
    ),
    (after_a_record(record(offset_delta=1, key=None, value=None, headers=[(b"h", None)])), []),
    (after_a_record(record(offset_delta=1, key=None, key_length=-2)), [BELOW]),
    (after_a_record(record(offset_delta=1, value=None, value_length=-(2**31))), [BELOW]),
    (after_a_record(record(offset_delta=1, headers=[(b"h", None)], header_value_length=-2)), [BELOW]),
    (after_a_record(record(offset_delta=1, attributes=1)), [ATTRIBUTES]),
    (batch([record(attributes=0x80), record(offset_delta=1)], base_offset=10), [ATTRIBUTES]),
    (after_a_record(b"\x90\0" + spelled(*FIELDS)[1:]), [NOT_MINIMAL]),
    *((after_a_record(spelled(*FIELDS[:at], padded(FIELDS[at]), *FIELDS[at + 1 :])), [NOT_MINIMAL]) for at in range(7)),
    *((batch(records(2), count=0, codec=codec), [NOT_DECLARED]) for codec in CODECS),
    *((batch([], codec=codec), []) for codec in CODECS),
    (batch([], payload=b"\0"), [NOT_DECLARED.replace(str(SIZE), "1")]),
    *((packed(codec), []) for codec in CODECS),
    (packed("gzip", 5), ["payload_several_streams at 0: gzip: 2 members in one payload"]),
    (packed("snappy", 0, 5), ["payload_several_streams at 0: snappy: 3 streams in one payload"]),
    (packed("zstd", 5), ["payload_several_streams at 0: zstd: 2 frames in one payload"]),
    (packed("zstd", behind=SKIPPABLE), ["payload_several_streams at 0: zstd: 2 frames in one payload"]),
    (packed("gzip", 5, magic=1), ["payload_several_streams at 1: gzip: 2 members in one payload"]),
    (packed("gzip", behind=b"x"), ["payload_trailing_bytes at 0: gzip: 1 bytes after the end of the stream"]),
    (packed("gzip", behind=bytes(30)), ["payload_trailing_bytes at 0: gzip: 30 bytes after the end of the stream"]),
    (packed("snappy", behind=b"abc"), ["payload_trailing_bytes at 0: snappy: 3 bytes after the end of the stream"]),
    (packed("lz4", behind=b"x"), ["payload_trailing_bytes at 0: lz4: 1 bytes after the end of the stream"]),
    (packed("lz4", behind=b"x", magic=1), ["payload_trailing_bytes at 1: lz4: 1 bytes after the end of the stream"]),
    (in_lz4(), []),
    (in_lz4(wrong=True), [CHECKSUM]),
    (in_lz4(wrong=True, magic=1), [CHECKSUM]),
    (in_lz4(size=0), []),
    (in_lz4(size=SIZE + 1), [CONTENT]),
    (in_lz4(size=SIZE + 1, wrong=True), [CONTENT]),
    *((message(magic=magic, offset=12, key=None, value=None), []) for magic in (0, 1)),
    (message(attributes=0x10), []),
    (message(key=None, value=None, key_length=-2), ["length_below_minus_one at 0: a length of -2"]),
    (message(magic=0, key=None, value=None, value_length=-9), ["length_below_minus_one at 0: a length of -9"]),
    (message(offset=12, trailing=b"x"), ["message_trailing_bytes at 12: 1 bytes after a message's value"]),
    (message(magic=0, value=None, trailing=b"xy"), ["message_trailing_bytes at 0: 2 bytes after a message's value"]),
    (wrapper([message()], trailing=b"x"), ["message_trailing_bytes at 0: 1 bytes after a message's value"]),
    (wrapper([message()], key_length=-3), ["length_below_minus_one at 0: a length of -3"]),
    (of_inner({}, {}, {}), []),
    (of_inner({}, {"trailing": b"x"}), ["message_trailing_bytes at 12: 1 bytes after a message's value"]),
    (of_inner({"attributes": 8}, {"attributes": 8}), []),
    (of_inner({}, {"attributes": 0x10}), ["attributes_unknown at 12: attribute bits 0x10 of an inner message"]),
    (
        of_inner({"attributes": 8}, {"attributes": 0x10, "offset": 12}, magic=0),
        ["attributes_unknown at 12: attribute bits 0x08 of an inner message, 2 in 2 places"],
    ),
    (of_inner({}, {"magic": 0}), ["inner_magic_differs at 12: inner message 1 has magic 0, its wrapper 1"]),
    (
        of_inner({"magic": 2, "attributes": 0x10}),
        ["inner_magic_differs at 12: inner message 0 has magic 2, its wrapper 1"],
    ),
    (of_inner({}, behind=b"x" * 11), ["inner_trailing_bytes at 12: 11 bytes after inner message 0"]),
    (
        of_inner({}, behind=struct.pack(">qi", 1, 14)),
        ["inner_truncated at 12: inner message 1 has a size of 14 bytes, but 0 are left"],
    ),
    (of_inner({"offset": 1}, {"offset": 1}), ["inner_offsets_unordered at 12: offset 12 after offset 12"]),
    (
        of_inner({"offset": 2}, {"offset": 1}, {"offset": 0}),
        [
            "inner_offsets_unordered at 12: offset 13 after offset 14",
            "inner_offset_above_wrapper at 12: inner offset 14 in a wrapper with offset 12",
        ],
    ),
    (
        of_deltas(0, 1, 2) + message(offset=13, trailing=b"x"),
        ["message_trailing_bytes at 13: 1 bytes after a message's value"],
    ),
    (of_deltas(0, 2, 2, 1) + of_deltas(0, 2, 2, 1), [FALLING + ", 2 in 2 places"]),
]


@pytest.mark.parametrize("data, found", CASES, ids=range(len(CASES)))
def test_findings_about_a_batch(data, found):
    assert audited(data) == found  # the last records of an input are read by the exact form
    assert audited(data + b"".join((batch(records(2), base_offset=20), batch([])))) == found


def test_each_chunk_has_its_own_notes():
    odd = message(trailing=b"x")
    data = b"".join((odd, kafkarec.encode([(0, 0, None, bytes(1 << 20), [])]))) * 3
    assert len(list(read_chunks(AUDITED, Source(data)))) > 1
    assert audited(data) == ["message_trailing_bytes at 0: 1 bytes after a message's value, 3 in 3 places"]


@pytest.mark.parametrize(
    "magic, codec",
    [(magic, codec) for magic in (1, 2) for codec in CODECS if (magic, codec) != (1, "zstd")],
)
def test_each_payload_is_decompressed_once(magic, codec, tmp_path, monkeypatch):
    """By the codec's Python function, or without one by a function pointer."""
    inner = message(magic=1)
    one = plain_logs.batch(0, 3, codec=codec) if magic == 2 else builders.wrapper([inner], codec=codec)
    calls = []
    native.install(codec)  # else the first payload of lz4 and zstd goes through Python
    for codec_id in range(1, len(codecs.CODECS)):
        monkeypatch.setattr(codecs, "CODECS", counted(codecs.CODECS, codec_id, calls))
    path = tmp_path / "segment"
    path.write_bytes(one)
    assert kafkarec.verify(path).total("batches") == 1
    assert calls == ([] if codec == "none" or codec in native.in_use else [builders.CODEC_IDS[codec]])


def counted(table, codec_id, calls):
    """The table of codecs, in which decompression by one of them is written down."""
    codec = table[codec_id]

    def decompress(*arguments):
        calls.append(codec_id)
        return codec.decompress(*arguments)

    return (*table[:codec_id], codec._replace(decompress=decompress), *table[codec_id + 1 :])
