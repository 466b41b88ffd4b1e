"""filter_to: the filtered batch, compared with Kafka's own filtered batches and with literal values."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import builders
import golden
import pytest
from broker_logs import rows
from compact_filter import filter_to

import kafkarec
from kafkarec.ops.compact import BatchRecords, BatchRetention, BatchRetentionResult, SourceBatch

NOW, DAY = 1_700_001_000_000, 86_400_000


class Keeping:
    """Keeps records by their offsets, and batches by their last offsets."""

    def __init__(
        self,
        keeps: Callable[[int], bool],
        retention: BatchRetention = BatchRetention.DELETE_EMPTY,
        deleted: Iterable[int] = (),
        empty_transaction: bool = False,
    ) -> None:
        self.keeps, self.retention, self.deleted = keeps, retention, set(deleted)
        self.empty_transaction = empty_transaction
        self.seen: list[SourceBatch] = []

    def batch(self, batch: SourceBatch) -> BatchRetentionResult:
        self.seen.append(batch)
        gone = batch.last_offset in self.deleted
        return BatchRetentionResult(BatchRetention.DELETE if gone else self.retention, self.empty_transaction)

    def records(self, verdicts: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytes:
        return bytes(map(self.keeps, rows.offsets))


def everything(offset: int) -> bool:
    return True


def nothing(offset: int) -> bool:
    return False


def unfiltered(vector: bytes, counts: dict[int, int]) -> bytes:
    """The batches that a filtered vector was made from, by base offset and number of records; what was thrown away is
    not known and does not matter."""
    originals = []
    by_base = {batch.base_offset: batch for batch in kafkarec.batches(vector)}
    for base, count in counts.items():
        batch = by_base.get(base)
        left = {record.offset: record for record in batch or ()}
        records = []
        for i in range(count):
            record = left.get(base + i)
            records.append(
                builders.record(
                    offset_delta=i,
                    timestamp_delta=i * 10 if record is None else record.timestamp - builders.NOW,
                    key=b"gone" if record is None else record.key,
                    value=b"gone" if record is None else record.value,
                    headers=[] if record is None else [(key.encode(), value) for key, value in record.headers],
                )
            )
        producer = -1 if batch is None or batch.producer_id is None else batch.producer_id
        append = batch is not None and batch.timestamp_type == 1
        originals.append(
            builders.batch(
                records,
                codec=by_base[max(by_base)].compression,
                base_offset=base,
                leader_epoch=-1,
                attributes=builders.LOG_APPEND if append else 0,
                max_timestamp=None if batch is None else batch.max_timestamp,
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                base_sequence=-1 if producer < 0 else batch.base_sequence,
            )
        )
    return b"".join(originals)


def third(offset: int) -> bool:
    return offset % 3 == 1


RETAIN = BatchRetention.RETAIN_EMPTY
FILTERED = {
    "v2-gzip-filtered": ({0: 10, 10: 6}, Keeping(third)),
    "v2-snappy-filtered": ({0: 10, 10: 6}, Keeping(third)),
    "v2-lz4-filtered": ({0: 10, 10: 6}, Keeping(third)),
    "v2-none-filtered-retain-empty": ({0: 10, 10: 6}, Keeping(lambda offset: offset > 13, RETAIN)),
    "v2-gzip-filtered-retain-empty": ({0: 10, 10: 6}, Keeping(lambda offset: offset > 13, RETAIN)),
    "v2-snappy-filtered-retain-empty": ({0: 10, 10: 6}, Keeping(lambda offset: offset > 13, RETAIN)),
    "v2-filtered-delete-batch": ({0: 2, 2: 2}, Keeping(everything, deleted=[1])),
    "v2-filtered-tombstone-horizon-logappend": ({0: 5}, Keeping(lambda offset: offset != 1)),
    "v2-lz4-filtered-tombstone-horizon": ({3: 5}, Keeping(everything)),
}


@pytest.mark.parametrize("name", FILTERED)
def test_the_vectors_that_kafka_filtered(name: str) -> None:
    vector = golden.vector(name).bytes
    counts, keeping = FILTERED[name]
    assert rows(filter_to(unfiltered(vector, counts), keeping, now=NOW, delete_retention_ms=DAY)) == rows(vector)


def test_a_wrapper_of_magic_0_becomes_a_batch_of_magic_2() -> None:
    vector = golden.vector("v0-gzip-filtered").bytes
    left = {record.offset: record for record in kafkarec.decode(vector)}
    inner = [
        builders.message(
            magic=0,
            offset=offset,
            key=left[offset].key if offset in left else b"gone",
            value=left[offset].value if offset in left else b"gone",
        )
        for offset in range(100, 110)
    ]
    source = builders.wrapper(inner, magic=0, codec="gzip", offset=109)
    filtered = filter_to(source, Keeping(lambda offset: offset in left), now=NOW, delete_retention_ms=DAY)
    assert rows(filtered) == rows(vector)


def test_all_vectors_are_covered() -> None:
    names = {case.name for case in golden.vectors() if "filtered" in case.name}
    assert names == {*FILTERED, "v0-gzip-filtered"}


def test_a_batch_kept_whole_is_copied_even_where_a_writer_would_write_other_bytes() -> None:
    odd = golden.invalid_case("v2-gzip-file-name").bytes
    kept = filter_to(odd, Keeping(everything), now=0, delete_retention_ms=0)
    assert kept == odd


def test_a_horizon_is_set_once() -> None:
    source = builders.batch([builders.record(value=None), builders.record(offset_delta=1)])
    first = filter_to(source, Keeping(everything), now=NOW, delete_retention_ms=DAY)
    [batch] = kafkarec.batches(first)
    assert batch.delete_horizon_ms == NOW + DAY
    assert [record.timestamp for record in batch] == [builders.NOW, builders.NOW]
    assert filter_to(first, Keeping(everything), now=NOW + 5, delete_retention_ms=DAY) == first
    thinned = filter_to(first, Keeping(lambda offset: offset == 1), now=NOW + 5, delete_retention_ms=DAY)
    assert [batch.delete_horizon_ms for batch in kafkarec.batches(thinned)] == [NOW + DAY]
    assert first.stats.horizons_set == 1


def test_a_horizon_that_overflows_a_long_is_none() -> None:
    """Java's sum overflows, and a negative horizon is not set."""
    source = builders.batch([builders.record(value=None)])
    filtered = filter_to(source, Keeping(everything), now=NOW, delete_retention_ms=2**63 - 1)
    [batch] = kafkarec.batches(filtered)
    assert batch.delete_horizon_ms is None
    assert filtered.stats.horizons_set == 0


def test_an_emptied_batch_keeps_offsets_sequences_and_max_timestamp() -> None:
    source = builders.good_batch(
        5,
        base_offset=10,
        codec="zstd",
        producer_id=7,
        producer_epoch=3,
        base_sequence=20,
        leader_epoch=4,
        attributes=builders.TRANSACTIONAL | builders.LOG_APPEND,
        max_timestamp=99,
    )
    [batch] = kafkarec.batches(filter_to(source, Keeping(nothing, RETAIN), now=NOW, delete_retention_ms=DAY))
    assert (batch.base_offset, batch.last_offset, batch.base_sequence, batch.last_sequence) == (10, 14, 20, 24)
    assert (batch.producer_id, batch.producer_epoch, batch.partition_leader_epoch) == (7, 3, 4)
    assert (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type) == (None, 99, 1)
    assert (batch.size_in_bytes, batch.record_count, batch.compression, batch.is_transactional) == (61, 0, "none", True)


REFUSED = {
    "offsets that do not go up": builders.batch(
        [builders.record(offset_delta=delta) for delta in (2, 1, 0)], last_offset_delta=2
    ),
    "a negative timestamp": builders.batch(
        [builders.record(timestamp_delta=-5 - builders.NOW, offset_delta=i) for i in range(3)]
    ),
    "a producer without epoch": builders.good_batch(3, producer_id=7, base_sequence=0),
    "a producer without sequence": builders.good_batch(3, producer_id=7, producer_epoch=0),
    "a transaction without producer": builders.good_batch(3, attributes=builders.TRANSACTIONAL),
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_what_kafkas_builder_refuses_is_refused_where_a_batch_is_rewritten(source: bytes) -> None:
    whole = filter_to(source, Keeping(everything), now=NOW, delete_retention_ms=DAY)
    assert whole == source
    front = builders.good_batch(1)
    with pytest.raises(kafkarec.InvalidRecordError) as caught:
        filter_to(front + source, ThinsLast(), now=NOW, delete_retention_ms=DAY)
    assert (caught.value.position, caught.value.next_position) == (len(front), len(front) + len(source))


class ThinsLast(Keeping):
    """Drops the last record of every batch with more than one record."""

    def __init__(self) -> None:
        super().__init__(everything)

    def records(self, verdicts: list[tuple[SourceBatch, BatchRetentionResult]], rows: BatchRecords) -> bytes:
        keep = bytearray(b"\x01" * len(rows))
        for batch, _ in verdicts:
            keep[batch.stop - 1] = batch.stop - batch.start == 1
        return bytes(keep)


def test_header_keys_keep_their_bytes() -> None:
    headers = [(b"\xff\xed\xa0\x80", b"x"), ("ü".encode(), None)]
    source = builders.batch([builders.record(headers=headers), builders.record(offset_delta=1)])
    filtered = filter_to(source, Keeping(lambda offset: offset == 0), now=NOW, delete_retention_ms=DAY)
    assert kafkarec.decode(filtered, header_keys="binary").column("headers") == [tuple(headers)]
