"""The headers that the writer reads itself: those of `scan`, and none where `scan` or a checksum finds fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from paths import SEGMENTS

import kafkarec
from kafkarec._verbs import headers_of_good_batches

COLUMNS = (
    *("position", "size_in_bytes", "magic", "crc", "base_offset", "last_offset", "max_timestamp"),
    *("partition_leader_epoch", "is_control", "is_transactional", "producer_id", "producer_epoch", "base_sequence"),
    *("last_sequence", "compression", "record_count"),
)
LOGS = sorted(SEGMENTS.glob("*/*.log"))


def by_scan(data: bytes) -> list[tuple[object, ...]] | None:
    try:
        kafkarec.decode(data, control=True, columns=[])
    except kafkarec.KafkaRecordError:
        return None
    table = kafkarec.scan(data)
    return None if table.remaining else list(zip(*map(table.column, COLUMNS), strict=True))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_headers_are_those_of_scan(path: Path) -> None:
    data = path.read_bytes()
    expected = by_scan(data)
    assert expected is not None, "the log of a test is damaged"
    assert headers_of_good_batches(data, check_crcs=True) == expected
    for size in {len(data) - 1, len(data) // 2, 16, 8, 1}:
        assert headers_of_good_batches(data[:size], check_crcs=True) == by_scan(data[:size])


def test_a_changed_byte_is_found_unless_no_checksum_covers_it() -> None:
    data = kafkarec.encode([(n, 1000 + n, b"k", b"v", ()) for n in range(3)])
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        found = headers_of_good_batches(changed, check_crcs=True)
        assert found == by_scan(bytes(changed)), position
        assert (found is not None) == (position < 8 or 12 <= position < 16)
    assert headers_of_good_batches(b"", check_crcs=True) == []


def test_checksums_are_optional() -> None:
    data = bytearray(kafkarec.encode([(0, 1, b"k", b"v", ())]))
    data[-1] ^= 1
    assert headers_of_good_batches(data, check_crcs=True) is None
    assert [header[4:6] for header in headers_of_good_batches(data, check_crcs=False) or ()] == [(0, 0)]
