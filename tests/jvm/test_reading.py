"""kafkarec reads what Kafka's MemoryRecords and streamingIterator read, and refuses what they refuse (P7)."""

from __future__ import annotations

from pathlib import Path

import jvm_oracle
from jvm_oracle import Oracle
from jvm_reading import read
from random_logs import Maker


def test_random_batches(kafka: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "batches"
    refused = 0
    total = jvm_oracle.count(1000)
    for seed in range(total):
        maker = Maker(seed)
        data = maker.log()
        file.write_bytes(data)
        said = kafka.ask("read", file).out.strip()
        if said.startswith("refused"):
            said = "refused"
            refused += 1
        assert read(data) == said, f"seed {seed}"
    assert 0.2 < refused / total < 0.9, "a comparison of refusals, or of records, alone"
