"""Kafka reads the output of `encode`; Kafka's builder makes the same batches of the same records, with the same
borders.

Compressed payloads are compared after decompression; see tests/support/jvm/Encoded.java.
"""

import jvm_oracle
from jvm_reading import read
from random_encode_calls import NOW, Made

import kafkarec


def test_batches_of_random_rows_equal_those_of_kafka(kafka, tmp_path):
    """Fields, records and bytes equal those of Kafka's builder; each batch ends where hasRoomFor returns false."""
    file = tmp_path / "batches"
    batches = 0
    for seed in range(jvm_oracle.count(600)):
        random_rows = Made(seed)
        data = kafkarec.encode(random_rows.rows if seed % 2 else random_rows.table(), **random_rows.options)
        file.write_bytes(data)
        [answer] = kafka.lines("encoded", file, random_rows.size)
        assert answer.startswith("same "), f"seed {seed}: {answer}"
        count, records = map(int, answer.split()[1:])
        assert records == len(random_rows.rows), f"seed {seed}"
        batches += count
        assert kafka.ask("read", file).out.strip() == read(data), f"seed {seed}"
        columns = kafkarec.decode(data, timestamp_unit="int64")
        stored = [
            (row[0], None if random_rows.magic == 0 or row[1] == -1 else row[1], *row[2:]) for row in random_rows.rows
        ]
        assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in columns] == stored, f"seed {seed}"
    assert batches > 5 * jvm_oracle.count(600)


def test_the_worked_example_is_what_kafka_writes(kafka, tmp_path):
    """The batch of docs/explanation/batch.md."""
    rows = [{"timestamp": 1714000000000, "value": value} for value in (b"hello", b"world")]
    (tmp_path / "batches").write_bytes(kafkarec.encode(rows))
    assert kafka.lines("encoded", tmp_path / "batches", 16384) == ["same 1 2"]


def test_a_wrong_batch_border_is_noticed(kafka, tmp_path):
    """Check of the comparison: the same batches under another size limit are reported as different."""
    rows = [(None, NOW, None, b"v" * 50, [])] * 50
    (tmp_path / "batches").write_bytes(kafkarec.encode(rows, batch_size=1000))
    assert kafka.ask("encoded", tmp_path / "batches", 1000).out.startswith("same")
    assert "had room" in kafka.ask("encoded", tmp_path / "batches", 1100).out
    assert "no room" in kafka.ask("encoded", tmp_path / "batches", 900).out
