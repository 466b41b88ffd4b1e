"""Golden bytes spoiled by machine: every bit, every length, every byte of a payload; the oracle judges."""

from __future__ import annotations

import random

import builders
import golden
import oracle
import pytest
from agreement import assert_agree, engine_error, with_right_checksums
from long_run import LONG, fewer

import kafkarec

SMALL = [case for case in golden.vectors() if 0 < case.bin_path.stat().st_size <= 260]
MEDIUM = [case for case in golden.vectors() + golden.invalid() if 0 < case.bin_path.stat().st_size <= 1500]
ROUNDS = 400 if LONG else fewer(8, 2)
CODECS = ["gzip", "snappy", "lz4", "zstd"]
# zstd needs magic 2: every such wrapper is refused for its codec alone.
PAYLOADS = [(codec, legacy) for codec in CODECS for legacy in (None, 0, 1) if codec != "zstd" or legacy is None]


def covered(case: golden.Case) -> list[int]:
    """Positions that a checksum covers, the stored checksum included."""
    found = []
    for batch in oracle.frames(case.bytes)[0]:
        first = 17 if batch.magic == 2 else 12
        found += [batch.position + at for at in range(first, len(batch.raw))]
    return found


@pytest.mark.core
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_flipped_bit_under_a_checksum_is_noticed(case: golden.Case) -> None:
    data = bytearray(case.bytes)
    for at in covered(case):
        for bit in range(at % fewer(1, 8), 8, fewer(1, 8)):
            data[at] ^= 1 << bit
            assert engine_error(data) is not None, f"bit {bit} of byte {at}"
            data[at] ^= 1 << bit
    assert engine_error(data) is None


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_flipped_bits_outside_of_the_checksum_read_as_kafka_reads_them(case: golden.Case) -> None:
    """Base offset, length, leader epoch, magic: not covered, so the verdict is whatever the bytes say."""
    data = bytearray(case.bytes)
    for at in sorted(set(range(len(data))) - set(covered(case))):
        for bit in (0, 3, 7)[at % fewer(1, 3) :: fewer(1, 3)]:
            data[at] ^= 1 << bit
            assert_agree(bytes(data), deep=False)
            data[at] ^= 1 << bit


@pytest.mark.parametrize("case", [c for c in MEDIUM if c.json.get("exception") is None], ids=str)
def test_cut_at_every_byte_is_a_tail_never_an_error(case: golden.Case) -> None:
    borders = [batch.position + len(batch.raw) for batch in oracle.frames(case.bytes)[0]]
    for length in range(0, len(case.bytes), fewer(1, 3)):
        whole = max((border for border in borders if border <= length), default=0)
        assert kafkarec.decode(case.bytes[:length]).remaining == length - whole


@pytest.mark.parametrize("case", MEDIUM, ids=str)
def test_random_bytes_in_golden_files(case: golden.Case) -> None:
    chance = random.Random(case.name)
    for _ in range(ROUNDS):
        data = bytearray(case.bytes)
        for _ in range(chance.choice([1, 1, 2, 5])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        assert_agree(bytes(data), deep=False)
        assert_agree(with_right_checksums(bytes(data)), deep=False)


@pytest.mark.parametrize(("codec", "legacy"), PAYLOADS)
def test_payload_cut_at_every_byte(codec: str, legacy: int | None) -> None:
    payload, count, build = payload_of(codec, legacy)
    for length in range(len(payload)):
        assert_agree(build(payload[:length], count), deep=False)


@pytest.mark.parametrize(("codec", "legacy"), PAYLOADS)
def test_payload_with_bytes_after_it(codec: str, legacy: int | None) -> None:
    """All of the payload or an error, and never more leniency than Kafka has."""
    payload, count, build = payload_of(codec, legacy)
    for junk in (b"\0" * 4, b"\0" * 40, b"\xff" * 4, b"garbage", b"garbage " * 10, payload, payload[:20]):
        assert_agree(build(payload + junk, count), deep=False)
        assert_agree(build(junk + payload, count), deep=False)


@pytest.mark.parametrize(("codec", "legacy"), PAYLOADS)
def test_payload_bytes_changed(codec: str, legacy: int | None) -> None:
    payload, count, build = payload_of(codec, legacy)
    chance = random.Random(codec)
    for _ in range(60 * ROUNDS):
        data = bytearray(payload)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert_agree(build(bytes(data), count), deep=False)


def payload_of(codec: str, legacy: int | None):
    """A compressed payload, its record count, and what wraps such a payload with a right checksum."""
    if legacy is None:
        parts = builders.records(6, value=b"a value that repeats, a value that repeats %d")
        payload = builders.compress(codec, b"".join(parts))
        return payload, len(parts), lambda data, count: builders.batch(codec=codec, payload=data, count=count)
    inner = b"".join(builders.message(magic=legacy, offset=i, value=b"repeats, repeats %d" % i) for i in range(4))
    payload = builders.compress(codec, inner, legacy)
    return (
        payload,
        4,
        lambda data, _: builders.wrapper(b"", magic=legacy, codec=codec, payload=data, offset=9),
    )


def test_zstd_window_that_is_too_small() -> None:
    """A frame may not reach back further than its window: one-shot decompression would let it pass, streams do not."""
    chance = random.Random(7)
    refused = 0
    for _ in range(200):
        values = [chance.choice([chance.randbytes(chance.randrange(200)), bytes(70_000)]) for _ in range(30)]
        parts = [builders.record(offset_delta=i, value=value) for i, value in enumerate(values)]
        frame = bytearray(builders.zstd_frame(b"".join(parts)))
        frame[5] = chance.randrange(0x40)  # there is no content size, so the window descriptor is here
        verdict = assert_agree(builders.batch(codec="zstd", payload=bytes(frame), count=30), deep=False)
        refused += verdict.error is not None
    assert refused > 10


def test_no_bytes_of_an_earlier_batch_show_up() -> None:
    """CVE-2025-66566: decode a secret, then payloads that claim more than they hold, in the same process."""
    secret = b"TOP-SECRET-" * 6000
    for codec in CODECS:
        kafkarec.decode(builders.batch([builders.record(value=secret)], codec=codec))
        claims = [
            b"\x80\x80\x04" + b"\x00a",
            b"\xff\x7f\x00a",
            builders.XERIAL_HEADER + b"\0\0\0\x03\x90\x4e\x00",
        ]
        body = builders.record(value=b"public" * 50)
        claims += [builders.compress(codec, body)[:-n] for n in (1, 5, 9, 20)]
        for payload in claims:
            raw = builders.batch(codec=codec, payload=payload, count=1)
            error = engine_error(raw)
            if error is None:
                assert all(b"SECRET" not in (record.value or b"") for record in kafkarec.decode(raw))
            else:
                assert "SECRET" not in str(error)
