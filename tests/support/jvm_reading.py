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


def _number(value: int | None) -> str:
    return str(-1 if value is None else value)


def read(data: bytes) -> str:
    """Return the records of `data` in the text format of tests/support/jvm/Reading.java."""
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


def consumer_lines(folder: Path, isolation: str) -> list[str]:
    """Return the records that a consumer of this isolation level gets, one line each."""
    lines = []
    with kafkarec.open(folder) as log:
        for record in log.read(isolation=isolation, columns=_CONSUMED):
            words = [record.offset, -1 if record.timestamp is None else record.timestamp, record.timestamp_type]
            blobs = [_blob(record.key), _blob(record.value)]
            blobs += [f"{_blob(key.encode())}={_blob(value)}" for key, value in record.headers]
            lines.append(" ".join([*map(str, words), *blobs]))
    return lines


def consumed_lines(kafka: Oracle, broker: Broker, topic: str, isolation: str) -> list[str]:
    """Return what a consumer of the broker gets, in the same lines."""
    answer = kafka.ask("consume", broker.address, topic, isolation)
    assert answer.status == 0, answer.err
    return answer.out.splitlines()[:-1]
