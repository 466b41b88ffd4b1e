"""Compares all reading functions of kafkarec with one `read` of Kafka's classes."""

from __future__ import annotations

from typing import Any

import golden
import reading

import kafkarec


def expected_records(batch: dict[str, Any]) -> list[dict[str, Any]]:
    return [golden.expected_record(record, batch) for record in batch["records"]]


def assert_same_records(got: list[dict[str, Any]], wanted: list[dict[str, Any]]):
    assert len(got) == len(wanted)
    for index, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        for name, value in theirs.items():
            same = golden.same_blob(mine[name], value) if name in ("key", "value") else mine[name] == value
            assert same, f"record {index}: {name}: {mine[name]!r}, Kafka reads {value!r}"


def assert_reads_as(data: bytes, wanted: dict[str, Any]):
    """Assert that decode, scan and batches return what Kafka's classes read."""
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
    assert reading.arrow_rows(decoded.batches) == headers
    assert reading.arrow_rows(kafkarec.scan(data)) == headers
    assert_same_records(reading.by_columns(data), for_consumers)
    assert_same_records(reading.by_columns(data, control=True), everything)
    assert_same_records(reading.by_records(data, control=True), everything)

    batches = list(kafkarec.batches(data))
    assert [reading.batch_attributes(batch) for batch in batches] == headers
    for batch, header, records in zip(batches, headers, per_batch, strict=True):
        assert bytes(batch.raw) == data[header["position"] :][: header["size_in_bytes"]]
        assert_same_records([reading.record_row(record) for record in batch], records)
