"""Each golden payload, good or damaged, through `kafkarec.codecs` alone: verdict and content. The fence has reasons."""

from __future__ import annotations

import struct
from typing import NamedTuple

import golden
import oracle_codecs
import pytest

from kafkarec import codecs
from kafkarec.errors import REASONS

pytestmark = [pytest.mark.core, pytest.mark.python]

LIMIT = 4 << 20


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
    pytest.param(payload, id=f"{case.name}-{index}")
    for case in golden.vectors() + golden.invalid()
    for index, payload in enumerate(payloads(case.bytes))
]


def outcome(read):
    """Return whether it is refused, and the content."""
    try:
        return False, read()
    except codecs.CodecError as error:
        assert error.reason in REASONS and str(error).isascii()
    except oracle_codecs.Refused:
        pass
    return True, None


@pytest.mark.parametrize("payload", CASES)
def test_golden_payload_has_kafkas_verdict_and_content(payload):
    """By C functions, and by the codec's module, which decompresses every payload where notes are taken."""
    codec, magic, data = payload
    wanted = outcome(lambda: oracle_codecs.decompress(codec, data, magic))
    for seen in (None, codecs.StreamNotes()):
        found = outcome(lambda seen=seen: bytes(codecs.decompress(codec, memoryview(data), LIMIT, magic, seen)))
        assert found == wanted


@pytest.mark.parametrize("payload", CASES)
def test_golden_payload_of_no_declared_records(payload):
    """Only what Kafka's stream constructor checks can be refused."""
    codec, magic, data = payload
    wanted = outcome(lambda: oracle_codecs.open_only(codec, data, magic))
    assert outcome(lambda: codecs.check_stream_start(codec, memoryview(data), LIMIT, magic)) == wanted
