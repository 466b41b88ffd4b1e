"""Every golden vector and every segment of a real broker: each header field, each record."""

from __future__ import annotations

from typing import Any

import golden
import pytest
import reading

import kafkarec

pytestmark = pytest.mark.core

CASES = golden.vectors() + golden.segment_files()


def expected_records(batch: dict[str, Any]) -> list[dict[str, Any]]:
    return [golden.expected_record(record, batch) for record in batch["records"]]


def assert_same_records(got: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert len(got) == len(wanted)
    for index, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        for name, value in theirs.items():
            same = golden.same_blob(mine[name], value) if name in ("key", "value") else mine[name] == value
            assert same, f"record {index}: {name}: {mine[name]!r}, Kafka reads {value!r}"


def assert_reads_as(data: bytes, wanted: dict[str, Any]) -> None:
    """All doors of the engine against one `read` of Kafka's classes."""
    headers = [golden.expected_batch(batch) for batch in wanted["batches"]]
    per_batch = [expected_records(batch) for batch in wanted["batches"]]
    everything = [record for records in per_batch for record in records]
    for_consumers = [
        record
        for batch, records in zip(wanted["batches"], per_batch, strict=True)
        for record in records
        if not batch["isControl"]
    ]
    tail = wanted["sizeInBytes"] - wanted["validBytes"]

    decoded = kafkarec.decode(data)
    assert decoded.remaining == tail
    assert decoded.damage == ()
    assert len(decoded) == len(for_consumers)
    assert reading.batch_rows(decoded.batches) == headers
    assert reading.batch_rows(kafkarec.scan(data)) == headers
    assert_same_records(reading.by_columns(data), for_consumers)
    assert_same_records(reading.by_columns(data, control=True), everything)
    assert_same_records(reading.by_records(data, control=True), everything)

    batches = list(kafkarec.batches(data))
    assert [reading.batch_attributes(batch) for batch in batches] == headers
    for batch, header, records in zip(batches, headers, per_batch, strict=True):
        assert bytes(batch.raw) == data[header["position"] :][: header["size_in_bytes"]]
        assert_same_records([reading.record_row(record) for record in batch], records)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reads_as_kafka_reads(case: golden.Case) -> None:
    assert_reads_as(case.bytes, case.json)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_skipping_finds_nothing_to_skip(case: golden.Case) -> None:
    skipped = kafkarec.decode(case.bytes, columns=reading.RECORD_FIELDS, errors="skip")
    assert skipped.damage == ()
    assert reading.arrow_rows(skipped) == reading.by_columns(case.bytes)
    reading.assert_tiles(case.bytes, skipped)


@pytest.mark.parametrize(("folder", "isolation"), golden.consumer_reads())
def test_rows_equal_what_a_real_consumer_returned(folder: str, isolation: str) -> None:
    """All segments of a partition in one buffer: the transactions of txn-0 span two."""
    data = golden.partition_bytes(folder)
    wanted = [
        golden.expected_record(row | {"sequence": -1}, {}) | {"epoch": row["leaderEpoch"]}
        for row in golden.consumer_rows(folder, isolation)
    ]
    columns = (*reading.DEFAULT_COLUMNS, "partition_leader_epoch")
    got = reading.arrow_rows(kafkarec.decode(data, columns=columns, isolation=isolation))
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        epoch = theirs.pop("epoch")
        theirs.pop("sequence")
        assert mine.pop("partition_leader_epoch") == epoch
        assert mine == theirs


def test_sixty_byte_tail_is_remaining_not_damage() -> None:
    data = golden.vector("v2-none-single").bytes
    assert kafkarec.decode(data + data[:60]).remaining == 60


def test_all_golden_files_are_here() -> None:
    assert len(golden.vectors()) == 127
    assert len(golden.invalid()) == 231
    assert len(golden.segment_files()) >= 9
    assert len(golden.consumer_reads()) == 8
