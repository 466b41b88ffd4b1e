"""Each golden payload, good or damaged, through `kafkarec.codecs` alone: verdict, reason, content."""

from __future__ import annotations

import struct
from typing import NamedTuple

import golden
import oracle_codecs
import pytest

from kafkarec import codecs

pytestmark = [pytest.mark.core, pytest.mark.python]

LIMIT = 4 << 20

# Refused by Kafka's decompressing stream itself, whatever the records. All others must decompress.
REFUSED = {
    "v0-gzip-corrupt": "payload_checksum_mismatch",
    "v0-gzip-null-value": "payload_empty",
    "v0-lz4-corrupt": "payload_corrupt",
    "v0-lz4-null-value": "payload_empty",
    "v0-lz4-truncated": "payload_truncated",
    "v0-snappy-empty-value": "payload_empty",
    "v1-gzip-corrupt": "payload_corrupt",
    "v1-gzip-empty-value": "payload_empty",
    "v1-gzip-null-value": "payload_empty",
    "v1-gzip-truncated": "payload_truncated",
    "v1-lz4-corrupt": "payload_corrupt",
    "v1-lz4-empty-value": "payload_empty",
    "v1-lz4-old-header-checksum": "payload_checksum_mismatch",
    "v1-snappy-corrupt": "payload_corrupt",
    "v1-snappy-empty-value": "payload_empty",
    "v1-snappy-null-value": "payload_empty",
    "v2-gzip-first-byte-wrong": "payload_header_invalid",
    "v2-gzip-isize-wrong": "payload_checksum_mismatch",
    "v2-gzip-method-9": "payload_unsupported",
    "v2-gzip-middle-overwritten": "payload_corrupt",
    "v2-gzip-no-payload": "payload_empty",
    "v2-gzip-no-payload-count-zero": "payload_empty",
    "v2-gzip-no-trailer": "payload_truncated",
    "v2-gzip-truncated-1": "payload_truncated",
    "v2-gzip-truncated-half": "payload_truncated",
    "v2-lz4-bd-reserved": "payload_header_invalid",
    "v2-lz4-block-checksum-wrong": "payload_checksum_mismatch",
    "v2-lz4-block-size-3": "payload_header_invalid",
    "v2-lz4-block-size-too-large": "payload_corrupt",
    "v2-lz4-end-mark-cut": "payload_truncated",
    "v2-lz4-labelled-zstd": "payload_header_invalid",
    "v2-lz4-linked-blocks": "payload_unsupported",
    "v2-lz4-middle-overwritten": "payload_corrupt",
    "v2-lz4-no-end-mark": "payload_truncated",
    "v2-lz4-no-payload": "payload_empty",
    "v2-lz4-no-payload-count-zero": "payload_empty",
    "v2-lz4-old-header-checksum": "payload_checksum_mismatch",
    "v2-lz4-raw-block": "payload_header_invalid",
    "v2-lz4-reserved-bit": "payload_unsupported",
    "v2-lz4-truncated-1": "payload_truncated",
    "v2-lz4-truncated-5": "payload_truncated",
    "v2-lz4-truncated-half": "payload_truncated",
    "v2-none-labelled-gzip": "payload_header_invalid",
    "v2-none-labelled-snappy": "payload_corrupt",
    "v2-none-labelled-zstd": "payload_header_invalid",
    "v2-snappy-bad-copy-offset": "payload_corrupt",
    "v2-snappy-block-length-huge": "limit_exceeded",
    "v2-snappy-chunk-size-huge": "payload_corrupt",
    "v2-snappy-chunk-size-too-small": "payload_corrupt",
    "v2-snappy-chunk-size-zero": "payload_truncated",
    "v2-snappy-first-byte-wrong": "payload_corrupt",
    "v2-snappy-garbage-behind": "payload_corrupt",
    "v2-snappy-header-cut": "payload_corrupt",
    "v2-snappy-labelled-lz4": "payload_header_invalid",
    "v2-snappy-no-payload": "payload_empty",
    "v2-snappy-no-payload-count-zero": "payload_empty",
    "v2-snappy-truncated-1": "payload_truncated",
    "v2-snappy-truncated-5": "payload_truncated",
    "v2-snappy-truncated-half": "payload_truncated",
    "v2-snappy-zeros-behind": "payload_truncated",
    "v2-zstd-checksum-missing": "payload_truncated",
    "v2-zstd-first-byte-wrong": "payload_header_invalid",
    "v2-zstd-labelled-gzip": "payload_header_invalid",
    "v2-zstd-magic-only": "payload_truncated",
    "v2-zstd-reserved-bit": "payload_header_invalid",
    "v2-zstd-truncated-1": "payload_truncated",
    "v2-zstd-truncated-5": "payload_truncated",
    "v1-codec-4": "payload_header_invalid",
}
# Refused by the stream's constructor already, so also for a batch of 0 declared records.
REFUSED_AT_ONCE = {
    name
    for name, reason in REFUSED.items()
    if ("zstd" not in name or name == "v2-zstd-labelled-gzip")
    and name not in ("v1-codec-4", "v2-lz4-labelled-zstd")
    and (reason in ("payload_empty", "payload_header_invalid", "payload_unsupported") or "checksum" in name)
    and "block-checksum" not in name
} | {"v2-none-labelled-snappy", "v2-snappy-first-byte-wrong", "v2-snappy-header-cut"}


class Payload(NamedTuple):
    codec: int
    magic: int
    data: bytes


def payloads(data):
    """Return the compressed payload of each batch or wrapper message."""
    result, at = [], 0
    while len(data) - at >= 17:
        (size,) = struct.unpack_from(">i", data, at + 8)
        end, magic = at + 12 + size, data[at + 16]
        if size < 14 or end > len(data) or magic > 2:
            break
        if magic == 2:
            codec, payload = data[at + 22] & 7, data[at + 61 : end]
        else:
            codec, key_at = data[at + 17] & 7, at + 18 + 8 * magic
            value_at = key_at + 4 + max(0, struct.unpack_from(">i", data, key_at)[0])
            if value_at + 4 > end:
                break
            payload = data[value_at + 4 : value_at + 4 + max(0, struct.unpack_from(">i", data, value_at)[0])]
        if codec in (1, 2, 3, 4):
            result.append(Payload(codec, magic, payload))
        at = end
    return result


CASES = [
    pytest.param(case.name, payload, id=f"{case.name}-{index}")
    for case in golden.vectors() + golden.invalid()
    for index, payload in enumerate(payloads(case.bytes))
]


def outcome(payload, seen):
    """`seen`: with one, the codec's module decompresses every payload, without one C functions the usual ones."""
    try:
        return bytes(codecs.decompress(payload.codec, memoryview(payload.data), LIMIT, payload.magic, seen))
    except codecs.CodecError as error:
        assert error.reason in codecs.REASONS
        assert str(error).isascii()
        return error.reason


@pytest.mark.parametrize("name, payload", CASES)
def test_golden_payload_has_kafkas_verdict_and_content(name, payload):
    for seen in (None, codecs.StreamNotes()):
        result = outcome(payload, seen)
        if name in REFUSED:
            assert result == REFUSED[name]
            continue
        assert isinstance(result, bytes), f"refused as {result}, Kafka's stream reads it"
        assert result == oracle_codecs.decompress(payload.codec, payload.data, payload.magic)


@pytest.mark.parametrize("name, payload", CASES)
def test_golden_payload_of_no_declared_records(name, payload):
    """Only what Kafka's stream constructor checks can be refused."""
    if name in REFUSED_AT_ONCE:
        with pytest.raises(codecs.CodecError) as caught:
            codecs.check_stream_start(payload.codec, memoryview(payload.data), LIMIT, payload.magic)
        assert caught.value.reason == REFUSED[name]
    else:
        codecs.check_stream_start(payload.codec, memoryview(payload.data), LIMIT, payload.magic)


def test_every_refused_name_is_a_golden_file():
    assert set(REFUSED) <= {str(parameters.id).rpartition("-")[0] for parameters in CASES}
