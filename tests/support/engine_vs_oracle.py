"""Compares the engine with the oracle on one buffer: the same verdict and, where both accept it, the same results."""

from __future__ import annotations

from typing import Any

import builders
import oracle
import reading
from core_reading import FIELDS, assert_viewed_as_copied, read_as

import kafkarec


def assert_agree(data: bytes, *, deep: bool = True, **options: Any) -> oracle.Verdict:
    """Assert that engine and oracle agree, and that views are as copies. `deep` also compares `batches` and `scan`."""
    assert_viewed_as_copied(data, errors="skip", control=True, columns=FIELDS, **options)
    verdict = oracle.decode(data)
    decoded = read_as(verdict, data, **options)
    if deep and verdict.error is None:
        headers = [batch.columns for batch in verdict.batches]
        assert reading.batch_rows(kafkarec.scan(data)) == headers
        assert reading.batch_rows(decoded.batches) == headers
        batches = list(kafkarec.batches(data))
        assert [reading.batch_attributes(batch) for batch in batches] == headers
        records = [[{name: record[name] for name in FIELDS} for record in batch.records] for batch in verdict.batches]
        assert [[reading.record_row(record) for record in batch] for batch in batches] == records
    return verdict


def with_right_checksums(data: bytes) -> bytes:
    """Return the damaged bytes with each batch's checksum made right, so that the checksum does not show the damage."""
    batches, remaining, _ = oracle.frames(data)
    fixed = [
        batch.raw
        if batch.magic == 2 and len(batch.raw) < 61
        else (builders.with_crc if batch.magic == 2 else builders.with_legacy_crc)(batch.raw)
        for batch in batches
    ]
    return b"".join(fixed) + data[len(data) - remaining :]
