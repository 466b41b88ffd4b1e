"""validate: verdicts on the golden files, conversions as by a broker, and the result of accepted requests."""

from __future__ import annotations

import pickle
from typing import Any

import builders
import golden
import pytest
from builders import NOW
from validate_comparison import CODECS

import kafkarec
from kafkarec.ops.validate import ValidatedRecords, validate

pytestmark = pytest.mark.core

# ---- golden files


@pytest.mark.parametrize(
    "case", [case for case in golden.invalid() if case.json["raised_by"] == "ensureValid"], ids=str
)
def test_checksums_are_checked_unless_turned_off(case: golden.Case) -> None:
    with pytest.raises(kafkarec.CorruptRecordError) as caught:
        validate(case.bytes)
    assert caught.value.reason in ("crc_mismatch", "batch_too_small")


# ---- accepted requests


def test_the_result_is_bytes_with_kafkas_attributes() -> None:
    data = builders.good_batch(3, codec="lz4")
    made = validate(data, first_offset=100, partition_leader_epoch=4, now=NOW)
    assert isinstance(made, bytes) and len(made) == len(data)
    assert (made.log_append_time, made.max_timestamp, made.next_offset, made.size_changed) == (NOW, NOW + 2, 103, False)
    assert made.stats.records_converted == 0
    assert [row.offset for row in kafkarec.decode(made + made)] == [100, 101, 102] * 2
    assert "3 bytes" not in repr(made) and "next offset 103" in repr(made)


def test_a_result_can_be_sent_to_another_process() -> None:
    made = validate(builders.good_batch(2), compression="gzip", now=NOW)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is ValidatedRecords and again == made and again.stats == made.stats


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_callers_buffer_is_unchanged(kind: Any) -> None:
    data = builders.good_batch(3)
    given = kind(data)
    made = validate(given, first_offset=9, timestamp_type="log_append_time", now=1)
    assert bytes(given) == data != made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_each_codec_to_each_codec(codec: str, target: str) -> None:
    data = builders.good_batch(20, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    made = validate(data, compression=target, first_offset=7, now=NOW)
    [batch] = kafkarec.scan(made)
    assert batch["compression"] == target
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (5, 1, 3)
    assert made.size_changed == (codec != target)
    assert [row.value for row in kafkarec.decode(made)] == [row.value for row in kafkarec.decode(data)]
    assert made.stats.records_converted == (20 if codec != target else 0)


def test_the_level_is_the_targets() -> None:
    data = builders.batch(builders.records(300, value=b"some text, number %d, again and again"))
    fast, small = (validate(data, compression="zstd", level=level, now=NOW) for level in (-100, 19))
    assert len(small) < len(fast)
    with pytest.raises(ValueError, match="level"):
        validate(data, compression="gzip", level=0)


def test_a_cut_batch_at_the_end_is_left_out() -> None:
    data = builders.good_batch(2)
    assert len(validate(data + data[:40], now=NOW)) == len(data)


def test_header_keys_that_are_not_utf8_are_copied() -> None:
    # Kafka writes U+FFFD in their place: docs/differences.md
    data = builders.batch([builders.record(headers=[(b"\xff", b"x")])])
    made = validate(data, compression="lz4", now=NOW)
    assert next(iter(kafkarec.decode(made, header_keys="binary"))).headers[0][0] == b"\xff"
