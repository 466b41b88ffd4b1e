"""Golden bytes spoiled systematically: every bit, every length, every byte of a payload; the oracle decides."""

import random

import builders
import golden
import oracle
import plain_logs
import pytest
from core_reading import assert_agree, decode_error
from long_run import LONG, fewer

import kafkarec

SMALL = [case for case in golden.vectors() if 0 < case.bin_path.stat().st_size <= 260]
MEDIUM = [case for case in golden.vectors() + golden.invalid() if 0 < case.bin_path.stat().st_size <= 1500]
ROUNDS = 400 if LONG else fewer(8, 2)
CODECS = builders.CODECS[1:]
# zstd needs magic 2: every such wrapper is refused because of its codec.
PAYLOADS = [(codec, legacy) for codec in CODECS for legacy in (None, 0, 1) if codec != "zstd" or legacy is None]


def covered(case):
    """The positions that a checksum covers, and those of the stored checksum."""
    positions = []
    for batch in oracle.frames(case.bytes)[0]:
        first = 17 if batch.magic == 2 else 12
        positions += [batch.position + at for at in range(first, len(batch.raw))]
    return positions


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_flipped_bits_outside_of_the_checksum_read_as_kafka_reads_them(case):
    """Base offset, length, leader epoch, magic: no checksum covers them, so any verdict of Kafka's reader is
    possible."""
    data = bytearray(case.bytes)
    for at in sorted(set(range(len(data))) - set(covered(case))):
        for bit in (0, 3, 7)[at % fewer(1, 3) :: fewer(1, 3)]:
            data[at] ^= 1 << bit
            assert_agree(bytes(data), deep=False)
            data[at] ^= 1 << bit


@pytest.mark.parametrize("case", [c for c in MEDIUM if c.json.get("exception") is None], ids=str)
def test_a_cut_at_any_byte_is_a_tail_and_no_error(case):
    borders = [batch.position + len(batch.raw) for batch in oracle.frames(case.bytes)[0]]
    for length in range(0, len(case.bytes), fewer(1, 3)):
        whole = max((border for border in borders if border <= length), default=0)
        assert kafkarec.decode(case.bytes[:length]).remaining == length - whole


@pytest.mark.parametrize("codec, legacy", PAYLOADS)
def test_changed_payloads_are_judged_as_by_the_oracle(codec, legacy):
    """Cut at any byte; with bytes around it: the whole payload or an error, never more lenient than Kafka; with a bit
    changed."""
    payload, count, build = payload_of(codec, legacy)
    changed = [payload[:length] for length in range(len(payload))]
    for junk in (b"\0" * 4, b"\0" * 40, b"\xff" * 4, b"garbage", b"garbage " * 10, payload, payload[:20]):
        changed += [payload + junk, junk + payload]
    rng = random.Random(codec)
    for _ in range(60 * ROUNDS):
        at = rng.randrange(len(payload))
        changed.append(builders.flipped(payload, at, 1 << rng.randrange(8)))
    for one in changed:
        assert_agree(build(one, count), deep=False)


def payload_of(codec, legacy):
    """A compressed payload, its record count, and a function that wraps such a payload with a right checksum."""
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


def test_no_bytes_of_an_earlier_batch_show_up():
    """CVE-2025-66566: decode a secret, then payloads that declare a larger size than they hold, in the same process."""
    secret = b"TOP-SECRET-" * 6000
    for codec in CODECS:
        kafkarec.decode(plain_logs.batch(0, 1, codec=codec, value=secret))
        claims = [
            b"\x80\x80\x04" + b"\x00a",
            b"\xff\x7f\x00a",
            builders.XERIAL_HEADER + b"\0\0\0\x03\x90\x4e\x00",
        ]
        body = builders.record(value=b"public" * 50)
        claims += [builders.compress(codec, body)[:-n] for n in (1, 5, 9, 20)]
        for payload in claims:
            raw = builders.batch(codec=codec, payload=payload, count=1)
            error = decode_error(raw)
            if error is None:
                assert all(b"SECRET" not in (record.value or b"") for record in kafkarec.decode(raw))
            else:
                assert "SECRET" not in str(error)
