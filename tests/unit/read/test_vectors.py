"""Every golden vector and every segment of a real broker: each header field, each record."""

from __future__ import annotations

import golden
import pytest
import reading
from golden_comparison import assert_reads_as

import kafkarec

pytestmark = pytest.mark.core

CASES = golden.vectors() + golden.segment_files()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reads_as_kafka_reads(case: golden.Case) -> None:
    assert_reads_as(case.bytes, case.json)


@pytest.mark.parametrize(("folder", "isolation"), golden.consumer_reads())
def test_rows_equal_what_a_real_consumer_returned(folder: str, isolation: str) -> None:
    """All segments of a partition in one buffer: the transactions of txn-0 span two."""
    data = golden.partition_bytes(folder)
    columns = (*reading.DEFAULT_COLUMNS, "partition_leader_epoch")
    got = reading.arrow_rows(kafkarec.decode(data, columns=columns, isolation=isolation))
    assert got == golden.consumed(folder, isolation)


def test_all_golden_files_are_present() -> None:
    assert len(golden.vectors()) == 127
    assert len(golden.invalid()) == 231
    assert len(golden.segment_files()) >= 9
    assert len(golden.consumer_reads()) == 8
