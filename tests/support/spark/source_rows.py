"""Runs the data source without a session, as Spark's workers call it, and makes the expected rows."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from paths import SEGMENTS
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import kafkarec
from spark_udfs import schema
from spark_udfs.source import KafkarecDataSource

LOGS = [path for path in sorted(SEGMENTS.glob("*/*.log")) if path.stat().st_size]
EVERYTHING = {"includeHeaders": "true", "columnNameOfCorruptRecord": schema.CORRUPT}


class Read:
    """The result of a read job: `rows` as dicts in order, `batches` as Spark gets them, `tasks` with their `splits`."""

    def __init__(self, path: Path | str | None = None, /, user_schema: StructType | None = None, **given: str):
        where = {} if path is None else {"path": str(path)}
        source = KafkarecDataSource({name.lower(): value for name, value in (where | given).items()})
        struct = user_schema or source.schema()
        self.reader = source.reader(struct)
        self.tasks = self.reader.partitions()
        self.splits = [split for task in self.tasks for split in task.value]
        travelled = pickle.loads(pickle.dumps(self.reader))
        wanted = to_arrow_schema(struct, timezone="UTC")
        self.batches = []
        for task in pickle.loads(pickle.dumps(self.tasks)):
            for batch in travelled.read(task):
                assert batch.schema.equals(wanted), batch.schema
                batch.validate(full=True)
                self.batches.append(batch)
        self.rows = pa.Table.from_batches(self.batches, wanted).to_pylist()

    def again(self) -> list[dict[str, Any]]:
        """The rows when the planned tasks run now."""
        return [row for task in self.tasks for batch in self.reader.read(task) for row in batch.to_pylist()]


def read(path: Path | str, /, user_schema: StructType | None = None, **given: str) -> list[dict[str, Any]]:
    return Read(path, user_schema, **given).rows


def offsets_of(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def expected(record: kafkarec.Record, topic: str | None, partition: int | None) -> dict[str, Any]:
    """Return a record under the column names of Spark's Kafka source; `_corrupt_record` is null."""
    kind = schema.NO_TIMESTAMP_TYPE if record.timestamp_type is None else int(record.timestamp_type)
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    return {
        "key": record.key,
        "value": record.value,
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.datetime,
        "timestampType": kind,
        "headers": headers,
        schema.CORRUPT: None,
    }


def spoil(data: bytes, seed: int, count: int = 2) -> bytes:
    """Return the bytes with some bits flipped."""
    chance, spoiled = random.Random(seed), bytearray(data)
    for _ in range(count):
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
    return bytes(spoiled)


def repeated(data: bytes, times: int, step: int) -> bytes:
    """Repeat batches of magic 2, each time with offsets `step` higher; the CRC does not cover the base offset."""
    found = []
    for turn in range(times):
        for batch in kafkarec.batches(data):
            raw = bytes(batch.raw)
            found.append((int.from_bytes(raw[:8], "big") + turn * step).to_bytes(8, "big") + raw[8:])
    return b"".join(found)
