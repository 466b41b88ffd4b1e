"""kafkarec's results in the text format of tests/support/jvm/Reading.java."""

from __future__ import annotations

from pathlib import Path

from broker import Broker
from jvm_oracle import Oracle

import kafkarec

ISOLATION = ("read_uncommitted", "read_committed")
_COLUMNS = ("offset", "timestamp", "timestamp_type", "sequence", "is_control", "key", "value", "headers")
_CONSUMED = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


def _blob(data: bytes | None) -> str:
    return "null" if data is None else f".{data.hex()}"


def _lines(found: kafkarec.RecordColumns) -> list[str]:
    """A line for each record: its numbers, key, value and headers, in the order of the columns."""
    lines = []
    for *numbers, key, value, headers in zip(*map(found.column, found.schema.names), strict=True):
        words = ["-1" if number is None else str(int(number)) for number in numbers]
        words += [_blob(key), _blob(value), *(f"{_blob(name.encode())}={_blob(content)}" for name, content in headers)]
        lines.append(" ".join(words))
    return lines


def read(data: bytes) -> str:
    """Return the records of `data` in the text format of tests/support/jvm/Reading.java."""
    try:
        found = kafkarec.decode(data, columns=_COLUMNS, control=True, timestamp_unit="int64")
    except kafkarec.KafkaRecordError:
        return "refused"
    return "\n".join([*_lines(found), f"end {found.remaining}"])


def consumer_lines(folder: Path, isolation: str) -> list[str]:
    """Return the records that a consumer of this isolation level gets, one line each."""
    with kafkarec.open(folder) as log:
        return _lines(log.read(isolation=isolation, columns=_CONSUMED, timestamp_unit="int64"))


def consumed_lines(kafka: Oracle, broker: Broker, topic: str, isolation: str) -> list[str]:
    """Return what a consumer of the broker gets, in the same lines."""
    return kafka.lines("consume", broker.address, topic, isolation)[:-1]
