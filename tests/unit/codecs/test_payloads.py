"""Each compressed golden payload, good or damaged, in a batch that declares no records."""

import builders
import golden
import oracle
import pytest
from core_reading import error_as_oracle

pytestmark = pytest.mark.core

BATCHES = [
    pytest.param(batch.raw, id=f"{case.name}-{index}")
    for case in golden.vectors() + golden.invalid()
    for index, batch in enumerate(oracle.frames(case.bytes)[0])
    if batch.magic == 2 and len(batch.raw) > 61 and batch.raw[22] & 7
]


@pytest.mark.parametrize("raw", BATCHES)
def test_a_payload_of_no_records_is_opened_as_by_kafka(raw):
    """Only what Kafka's stream constructor checks can be refused."""
    error_as_oracle(builders.with_crc(builders.patched(raw, 57, bytes(4))))
    assert len(BATCHES) > 100
