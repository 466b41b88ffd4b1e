"""Every golden vector and every segment of a real broker: each header field, each record."""

import golden
import pytest
from core_reading import assert_reads_as

pytestmark = pytest.mark.core

CASES = golden.vectors() + golden.segment_files()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reads_as_kafka_reads(case):
    assert_reads_as(case.bytes, case.json)


def test_all_golden_files_are_present():
    assert len(golden.vectors()) == 127
    assert len(golden.invalid()) == 231
    assert len(golden.segment_files()) >= 9
    assert len(golden.consumer_reads()) == 8
