"""kafkarec reads what Kafka's MemoryRecords and streamingIterator read, and refuses what they refuse (P7)."""

from __future__ import annotations

from pathlib import Path

import jvm_oracle
from jvm_oracle import Oracle
from random_logs import Maker

import kafkarec

_COLUMNS = ("offset", "timestamp", "timestamp_type", "sequence", "is_control", "key", "value", "headers")


def _blob(data: bytes | None) -> str:
    return "null" if data is None else f".{data.hex()}"


def _number(value: int | None) -> str:
    return str(-1 if value is None else value)


def read(data: bytes) -> str:
    """In the words of tests/jvm/Reading.java."""
    try:
        found = kafkarec.decode(data, columns=_COLUMNS, control=True, timestamp_unit="int64")
    except kafkarec.KafkaRecordError:
        return "refused"
    rows = zip(*(found.column(name) for name in _COLUMNS), strict=True)
    lines = []
    for offset, timestamp, timestamp_type, sequence, is_control, key, value, headers in rows:
        words = [str(offset), *map(_number, (timestamp, timestamp_type, sequence)), str(int(is_control))]
        words += [_blob(key), _blob(value)]
        words += [f"{_blob(name.encode())}={_blob(content)}" for name, content in headers]
        lines.append(" ".join(words))
    return "\n".join([*lines, f"end {found.remaining}"])


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
