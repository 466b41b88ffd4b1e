"""Random calls of encode: records and options."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

NOW = 1_700_000_000_000
HEADER_KEYS = ("", "h", "naïve", "€😀", "x" * 70)
SIZES = (0, 1, 100, 200, 500, 1000, 3000, 16384)
LENGTHS = (0, 1, 5, 20, 62, 63, 64, 100, 127, 128, 300)
WIDE = (
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "base_offset",
    "partition_leader_epoch",
    "magic",
    "compression",
    "is_transactional",
    "is_control",
    "producer_id",
    "producer_epoch",
    "sequence",
)


class Made:
    """Random records and options of encode."""

    def __init__(self, seed: int):
        self.dice = dice = random.Random(seed)
        self.magic = dice.choice((0, 1, 2, 2, 2))
        self.codec = dice.choice(("none", "none", "gzip", "snappy", "lz4", *(("zstd",) if self.magic == 2 else ())))
        self.size = dice.choice(SIZES)
        self.options = {"magic": self.magic, "compression": self.codec, "batch_size": self.size}
        self.append_time = None if dice.random() < 0.85 else NOW
        if self.append_time is not None:
            self.options |= {"timestamp_type": "log_append_time", "log_append_time": NOW}
        if self.magic == 2 and dice.random() < 0.4:
            self.options |= {"producer_id": 7, "producer_epoch": 1, "is_transactional": dice.random() < 0.5}
            self.options["base_sequence"] = dice.choice((0, 5, 2**31 - 3))
        if self.magic == 2 and dice.random() < 0.4:
            self.options["partition_leader_epoch"] = dice.choice((0, 9))
        self.rows = self.make_rows(dice.choice((1, 2, 5, 30, 200)))

    def blob(self) -> bytes | None:
        size = self.dice.choice((None, *LENGTHS))
        return None if size is None else self.dice.choice((self.dice.randbytes(size), b"a" * size))

    def make_rows(self, count: int) -> list[tuple[Any, ...]]:
        dice, rows, time = self.dice, [], NOW
        offset = dice.choice((0, 5, 2**40))
        for _ in range(count):
            time += dice.choice((0, 1, -5, 100, 70_000))
            stamp = dice.choice((time, time, time, time, -1, 2**62)) if self.append_time is None else NOW
            headers = [(dice.choice(HEADER_KEYS), self.blob()) for _ in range(dice.choice((0, 0, 0, 1, 3)))]
            rows.append((offset, stamp, self.blob(), self.blob(), headers if self.magic == 2 else []))
            offset += 1
        return rows

    def table(self) -> pa.Table:
        pairs = pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.large_binary())]))
        offsets, times, keys, values, headers = zip(*self.rows, strict=True)
        table = pa.table(
            {
                "offset": offsets,
                "timestamp": pa.array([None if time == -1 else time for time in times], pa.int64()),
                "key": pa.array(keys, pa.binary_view()),
                "value": pa.array(values, pa.binary()),
                "headers": pa.array([[{"key": k, "value": v} for k, v in one] for one in headers], pairs),
            }
        )
        return pa.Table.from_batches(table.to_batches(max_chunksize=self.dice.choice((1, 7, 1000))))
