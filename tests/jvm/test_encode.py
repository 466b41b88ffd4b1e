"""Kafka reads the output of `encode`; Kafka's builder makes the same batches of the same records, with the same
borders.

Compressed payloads are compared after decompression; see tests/support/jvm/Encoded.java.
"""

from __future__ import annotations

import random
from pathlib import Path

import golden
import jvm_oracle
import pytest
from jvm_oracle import Oracle
from jvm_reading import read
from random_encode_calls import NOW, WIDE, Made

import kafkarec


def test_batches_of_random_rows_equal_those_of_kafka(kafka: Oracle, tmp_path: Path) -> None:
    """Fields, records and bytes equal those of Kafka's builder; each batch ends where hasRoomFor returns false."""
    file = tmp_path / "batches"
    batches = 0
    for seed in range(jvm_oracle.count(600)):
        random_rows = Made(seed)
        data = kafkarec.encode(random_rows.rows if seed % 2 else random_rows.table(), **random_rows.options)
        file.write_bytes(data)
        answer = kafka.ask("encoded", file, random_rows.size)
        assert answer.status == 0, f"seed {seed}: {answer.err}"
        assert answer.out.startswith("same "), f"seed {seed}: {answer.out}"
        count, records = map(int, answer.out.split()[1:])
        assert records == len(random_rows.rows), f"seed {seed}"
        batches += count
        assert kafka.ask("read", file).out.strip() == read(data), f"seed {seed}"
        columns = kafkarec.decode(data, timestamp_unit="int64")
        stored = [
            (row[0], None if random_rows.magic == 0 or row[1] == -1 else row[1], *row[2:]) for row in random_rows.rows
        ]
        if random_rows.append_time is None:
            assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in columns] == stored, f"seed {seed}"
    assert batches > 5 * jvm_oracle.count(600)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("shrinks", [True, False], ids=["text", "noise"])
def test_the_estimated_ratio_over_many_batches(codec: str, shrinks: bool, kafka: Oracle, tmp_path: Path) -> None:
    """The estimated ratio falls by at most 0.005 per batch and rises by at least 0.05."""
    rng = random.Random(3)
    values = [b'{"user":%d}' % rng.randrange(10**6) * 5 if shrinks else rng.randbytes(60) for _ in range(6000)]
    values += [rng.randbytes(70) for _ in range(500)]
    rows = [(None, NOW + n, b"%d" % n, value, []) for n, value in enumerate(values)]
    data = kafkarec.encode(rows, compression=codec, batch_size=2000)
    (tmp_path / "batches").write_bytes(data)
    answer = kafka.ask("encoded", tmp_path / "batches", 2000)
    assert answer.out == f"same {len(kafkarec.scan(data))} {len(rows)}", answer.out + answer.err


def test_the_worked_example_is_what_kafka_writes(kafka: Oracle, tmp_path: Path) -> None:
    """The batch of docs/explanation/batch.md."""
    rows = [{"timestamp": 1714000000000, "value": value} for value in (b"hello", b"world")]
    (tmp_path / "batches").write_bytes(kafkarec.encode(rows))
    answer = kafka.ask("encoded", tmp_path / "batches", 16384)
    assert answer.out == "same 1 2", answer.out + answer.err


def test_a_wrong_batch_border_is_noticed(kafka: Oracle, tmp_path: Path) -> None:
    """Check of the comparison: the same batches under another size limit are reported as different."""
    rows = [(None, NOW, None, b"v" * 50, [])] * 50
    (tmp_path / "batches").write_bytes(kafkarec.encode(rows, batch_size=1000))
    assert kafka.ask("encoded", tmp_path / "batches", 1000).out.startswith("same")
    assert "had room" in kafka.ask("encoded", tmp_path / "batches", 1100).out
    assert "no room" in kafka.ask("encoded", tmp_path / "batches", 900).out


def test_golden_vectors_re_encoded_in_every_codec(kafka: Oracle, tmp_path: Path) -> None:
    """Kafka reads the same records from a vector and from its re-encoded form, in every codec and batch size."""
    file = tmp_path / "batches"
    for number, case in enumerate(golden.vectors()):
        if case.name == "v1-wrapper-with-v0-inner":
            continue  # inner messages of another magic than the wrapper's: no writer produces them
        columns = kafkarec.decode(case.bytes, control=True, columns=WIDE, header_keys="binary", timestamp_unit="int64")
        expected = read(case.bytes).rpartition("\n")[0]
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
        variants = [
            kafkarec.encode(columns, magic="keep", compression="keep"),
            kafkarec.encode(columns, magic="keep", compression="none"),
        ]
        if set(columns.batches.column("magic")) == {2}:
            variants += [kafkarec.encode(one, compression=codec) for one in (columns, columns.to_arrow())]
        for variant, data in enumerate(variants):
            file.write_bytes(data)
            answer = kafka.ask("read", file).out.strip()
            assert answer.rpartition("\n")[0] == expected, f"{case.name}, way {variant}"


def test_slices_of_columns_re_encoded(kafka: Oracle, tmp_path: Path) -> None:
    """Kafka reads the same records and sequences from encoded slices of decoded columns with producers."""
    file = tmp_path / "batches"
    for seed in range(jvm_oracle.count(100)):
        random_rows = Made(seed)
        if random_rows.magic < 2:
            continue
        data = kafkarec.encode(random_rows.rows, **random_rows.options)
        columns = kafkarec.decode(data, control=True, timestamp_unit="int64")
        cut = random_rows.dice.randrange(len(columns) + 1)
        parts = [columns[:cut], columns[cut:]]
        file.write_bytes(
            b"".join(kafkarec.encode(part, compression=random_rows.codec, batch_size=300) for part in parts)
        )
        assert kafka.ask("read", file).out.strip() == read(data), f"seed {seed}"
