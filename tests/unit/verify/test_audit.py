"""The audit finds what a slow walk over the bytes of each batch finds, in all golden and in random batches."""

import random
from dataclasses import replace

import audit_oracle
import builders
import golden
import odd_batches
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_run import LONG, fewer

import kafkarec
from kafkarec import codecs
from kafkarec._core import Source
from kafkarec.codecs import native
from kafkarec.format import layout
from kafkarec.format.checksum import batch_checksums
from kafkarec.ops.verify import batch_checks
from kafkarec.ops.verify.findings import Findings
from kafkarec.read.decode_options import request
from kafkarec.read.passes import read_chunks
from kafkarec.read.walk import walk

pytestmark = pytest.mark.core

ASKED = request(columns=["key"], control=True, errors="skip", check_crcs="all", restore=False)
AUDITED = ASKED._replace(options=ASKED.options._replace(audit=True))
ROUNDS = 100_000 if LONG else fewer(3000, 600)


def audited(data):
    """The audit's findings, and the positions of the good batches."""
    notes, positions = Findings("file"), []
    for step in walk([data], AUDITED):
        batch_checks.add_audit_findings(step, notes)
        positions += step.column("position")
    return sorted(map(plainly, notes), key=str), positions


def plainly(one):
    """Without why a payload cannot be decompressed, for which each library has its own words."""
    return replace(one, detail=one.detail.split(":")[0]) if one.kind == "count_zero_with_payload" else one


def walked(data, positions):
    """The oracle's findings about the batches at these positions."""
    notes = Findings("file")
    for position in positions:
        batch = one_batch(data, position)
        for one in audit_oracle.anomalies(batch):
            notes.add(one.kind, one.detail, position, one.offset, count=one.count)
    return sorted(map(plainly, notes), key=str)


def one_batch(data, position):
    size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    ([batch], _, _) = oracle.frames(data[position : position + size])
    return batch


def agree(data):
    found, positions = audited(data)
    assert found == walked(data, positions)
    return found


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid() + golden.segment_files(), ids=str)
def test_golden_bytes(case):
    agree(case.bytes)


def test_random_batches_have_every_kind():
    """Each batch by itself, and all together, where the findings of many are joined."""
    rng = random.Random(24)
    kinds = {}
    some = []
    for _ in range(ROUNDS):
        data = odd_batches.odd_batch(rng)
        for one in agree(data):
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
        some.append(data)
        if len(some) == 50:
            agree(b"".join(some))
            some.clear()
    assert set(kinds) == {kind for kind, _ in batch_checks._FINDINGS}


def with_trailing_bytes(magic, count):
    """A plain message with bytes after its value."""
    data = bytearray(kafkarec.encode([(0, 5, b"k", b"v", [])], magic=magic)) + bytes(count)
    data[layout.MESSAGE_AT.size : layout.LOG_OVERHEAD] = (len(data) - layout.LOG_OVERHEAD).to_bytes(4, "big")
    data[layout.MESSAGE_AT.crc : layout.MESSAGE_AT.magic] = batch_checksums(data, magic)[1].to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
def test_bytes_after_a_message_are_found_from_the_first_one_on(magic, count):
    assert [one.kind for one in agree(with_trailing_bytes(magic, count))] == ["message_trailing_bytes"]


def test_each_chunk_has_its_own_notes():
    odd = with_trailing_bytes(1, 1)
    data = b"".join((odd, kafkarec.encode([(0, 0, None, bytes(1 << 20), [])]))) * 3
    assert len(list(read_chunks(AUDITED, Source(data)))) > 1
    assert [one.count for one in agree(data)] == [3]


@given(st.integers(0, 2**64))
def test_batches_of_any_seed(seed):
    agree(odd_batches.odd_batch(random.Random(seed)))


@pytest.mark.parametrize(
    "magic, codec",
    [(magic, codec) for magic in (1, 2) for codec in builders.CODECS if (magic, codec) != (1, "zstd")],
)
def test_each_payload_is_decompressed_once(magic, codec, tmp_path, monkeypatch):
    """By the codec's Python function, or without one by a function pointer."""
    inner = builders.message(magic=1)
    one = builders.good_batch(3, codec=codec) if magic == 2 else builders.wrapper([inner], codec=codec)
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
