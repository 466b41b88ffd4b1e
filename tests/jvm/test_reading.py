"""kafkarec reads the records that Kafka's MemoryRecords and streamingIterator read, and refuses what they refuse
(P7)."""

from __future__ import annotations

from pathlib import Path

import jvm_oracle
from jvm_oracle import Oracle
from jvm_reading import read
from random_logs import Maker


def test_random_batches_are_read_as_by_kafka(kafka: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "batches"
    refused = 0
    total = jvm_oracle.count(1000)
    for seed in range(total):
        maker = Maker(seed)
        data = maker.log()
        file.write_bytes(data)
        answer = kafka.ask("read", file).out.strip()
        if answer.startswith("refused"):
            answer = "refused"
            refused += 1
        assert read(data) == answer, f"seed {seed}"
    assert 0.2 < refused / total < 0.9, "nearly all logs were refused, or nearly none"
