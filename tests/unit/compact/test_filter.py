"""filter_to: what tests/jvm/test_compact.py cannot compare with Kafka's filter."""

from __future__ import annotations

import builders
import golden
import pytest
from compact_filter import Filtered, filter_to

import kafkarec
from kafkarec.ops.compact import BatchRecords, BatchRetention, BatchRetentionResult, SourceBatch


class Keeping:
    """Keeps records but those of some offsets, and deletes a batch by its last offset."""

    def __init__(self, removed: int, deleted: int) -> None:
        self.removed, self.deleted = removed, deleted

    def batch(self, batch: SourceBatch) -> BatchRetentionResult:
        gone = batch.last_offset == self.deleted
        return BatchRetentionResult(BatchRetention.DELETE if gone else BatchRetention.DELETE_EMPTY, False)

    def records(self, verdicts: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytes:
        return bytes(offset != self.removed for offset in rows.offsets)


def filtered(data: bytes, *, removed: int = -1, deleted: int = -1, check_crcs: bool = True) -> Filtered:
    keeping = Keeping(removed, deleted)
    return filter_to(data, keeping, now=0, delete_retention_ms=0, check_crcs=check_crcs)


def test_a_batch_kept_whole_is_copied_even_where_a_writer_would_write_other_bytes() -> None:
    odd = golden.invalid_case("v2-gzip-file-name").bytes
    assert filtered(odd) == odd


def test_a_negative_offset_is_refused_even_if_no_record_is_removed() -> None:
    with pytest.raises(kafkarec.InvalidRecordError, match="negative"):
        filtered(builders.good_batch(1, base_offset=-5))


def test_a_deleted_batch_is_not_read() -> None:
    broken = builders.batch([builders.record(key_length=100)], base_offset=1)
    first, last = builders.good_batch(1), builders.good_batch(2, base_offset=2)
    left = filtered(first + broken + last, deleted=1)
    assert left == first + last
    assert (left.stats.bytes_read, left.stats.messages_read) == (len(first + broken + last), 3)
    with pytest.raises(kafkarec.InvalidRecordError):
        filtered(first + broken + last, deleted=0)


def test_a_wrong_checksum_is_refused_even_in_a_deleted_batch() -> None:
    source = builders.good_batch(1) + builders.good_batch(1, base_offset=1, crc=1)
    with pytest.raises(kafkarec.CorruptRecordError):
        filtered(source, deleted=1)
    assert filtered(source, check_crcs=False) == source


def test_header_keys_keep_their_bytes() -> None:
    headers = [(b"\xff\xed\xa0\x80", b"x"), ("ü".encode(), None)]
    source = builders.batch([builders.record(headers=headers), builders.record(offset_delta=1)])
    left = kafkarec.decode(filtered(source, removed=1), header_keys="binary")
    assert left.column("headers") == [tuple(headers)]
