"""Kafka reads what encode writes, and Kafka's builder, given the same records, writes the same and ends batches there.

Compressed payloads are compared as what they decompress to; see tests/jvm/Encoded.java.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import golden
import jvm_oracle
import pyarrow as pa
import pytest
from jvm_oracle import Oracle
from test_jvm_reading import read

import kafkarec

NOW = 1_700_000_000_000
HEADER_KEYS = ("", "h", "naïve", "€😀", "x" * 70)
SIZES = (0, 1, 100, 200, 500, 1000, 3000, 16384)
LENGTHS = (0, 1, 5, 20, 62, 63, 64, 100, 127, 128, 300)
WIDE = (
    "offset", "timestamp", "timestamp_type", "key", "value", "headers", "base_offset", "partition_leader_epoch",
    "magic", "compression", "is_transactional", "is_control", "producer_id", "producer_epoch", "sequence",
)  # fmt: skip


class Made:
    """Random records and options of encode."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.magic = dice.choice((0, 1, 2, 2, 2))
        self.codec = dice.choice(("none", "none", "gzip", "snappy", "lz4", *(("zstd",) if self.magic == 2 else ())))
        self.size = dice.choice(SIZES)
        self.options: dict[str, Any] = {"magic": self.magic, "compression": self.codec, "batch_size": self.size}
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


def test_batches_of_random_rows(kafka: Oracle, tmp_path: Path) -> None:
    """Fields, records and bytes as Kafka's builder has them; each batch ends where hasRoomFor says no."""
    file = tmp_path / "batches"
    batches = 0
    for seed in range(jvm_oracle.count(600)):
        made = Made(seed)
        data = kafkarec.encode(made.rows if seed % 2 else made.table(), **made.options)
        file.write_bytes(data)
        said = kafka.ask("encoded", file, made.size)
        assert said.status == 0, f"seed {seed}: {said.err}"
        assert said.out.startswith("same "), f"seed {seed}: {said.out}"
        count, records = map(int, said.out.split()[1:])
        assert records == len(made.rows), f"seed {seed}"
        batches += count
        assert kafka.ask("read", file).out.strip() == read(data), f"seed {seed}"
        found = kafkarec.decode(data, timestamp_unit="int64")
        stored = [(row[0], None if made.magic == 0 or row[1] == -1 else row[1], *row[2:]) for row in made.rows]
        if made.append_time is None:
            assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == stored, f"seed {seed}"
    assert batches > 5 * jvm_oracle.count(600)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("shrinks", [True, False], ids=["text", "noise"])
def test_the_estimate_over_many_batches(codec: str, shrinks: bool, kafka: Oracle, tmp_path: Path) -> None:
    """The ratio moves by 0.005 a batch at most on its way down, by 0.05 at least on its way up."""
    chance = random.Random(3)
    values = [b'{"user":%d}' % chance.randrange(10**6) * 5 if shrinks else chance.randbytes(60) for _ in range(6000)]
    values += [chance.randbytes(70) for _ in range(500)]
    rows = [(None, NOW + n, b"%d" % n, value, []) for n, value in enumerate(values)]
    data = kafkarec.encode(rows, compression=codec, batch_size=2000)
    (tmp_path / "batches").write_bytes(data)
    said = kafka.ask("encoded", tmp_path / "batches", 2000)
    assert said.out == f"same {len(kafkarec.scan(data))} {len(rows)}", said.out + said.err


def test_a_wrong_border_is_noticed(kafka: Oracle, tmp_path: Path) -> None:
    """The comparison itself: the same batches under another limit."""
    rows = [(None, NOW, None, b"v" * 50, [])] * 50
    (tmp_path / "batches").write_bytes(kafkarec.encode(rows, batch_size=1000))
    assert kafka.ask("encoded", tmp_path / "batches", 1000).out.startswith("same")
    assert "had room" in kafka.ask("encoded", tmp_path / "batches", 1100).out
    assert "no room" in kafka.ask("encoded", tmp_path / "batches", 900).out


def test_golden_vectors_in_every_codec(kafka: Oracle, tmp_path: Path) -> None:
    """The records that Kafka reads of a vector, it reads of what encode makes of it, whatever codec and size."""
    file = tmp_path / "batches"
    for number, case in enumerate(golden.vectors()):
        if case.name == "v1-wrapper-with-v0-inner":
            continue  # a mixture that no writer makes; its records have no timestamp type, those of magic 1 have
        columns = kafkarec.decode(case.bytes, control=True, columns=WIDE, header_keys="binary", timestamp_unit="int64")
        wanted = read(case.bytes).rpartition("\n")[0]
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        ways = [
            kafkarec.encode(columns, magic="keep", compression="keep"),
            kafkarec.encode(columns, magic="keep", compression="none"),
        ]
        if set(columns.batches.column("magic")) == {2}:
            ways += [kafkarec.encode(one, compression=codec) for one in (columns, columns.to_arrow())]
        for way, data in enumerate(ways):
            file.write_bytes(data)
            said = kafka.ask("read", file).out.strip()
            assert said.rpartition("\n")[0] == wanted, f"{case.name}, way {way}"


def test_columns_taken_apart_and_put_together(kafka: Oracle, tmp_path: Path) -> None:
    """Slices of decoded columns with producers: Kafka reads the same records and sequences of the parts."""
    file = tmp_path / "batches"
    for seed in range(jvm_oracle.count(100)):
        made = Made(seed)
        if made.magic < 2:
            continue
        data = kafkarec.encode(made.rows, **made.options)
        columns = kafkarec.decode(data, control=True, timestamp_unit="int64")
        cut = made.dice.randrange(len(columns) + 1)
        parts = [columns[:cut], columns[cut:]]
        file.write_bytes(b"".join(kafkarec.encode(part, compression=made.codec, batch_size=300) for part in parts))
        assert kafka.ask("read", file).out.strip() == read(data), f"seed {seed}"
