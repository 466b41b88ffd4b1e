"""The input of apps/killed_writing.py, which test_stream_kills.py and test_bucket_kills.py kill, and whether what it
has written is right."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import kafkarec

BATCHES, ROWS, KEYS = 6, 600, 7


def partitions_of(batch: int) -> int:
    """A partition is new in batch 1 and 4."""
    return 2 + (batch + 2) // 3


def row(batch: int, number: int) -> tuple[int, str, str]:
    return number % partitions_of(batch), str(number % KEYS), f"{batch}/{number}"


def make_source(folder: Path, batches: int = BATCHES):
    """A file for each micro-batch; Spark takes them in order of their times."""
    folder.mkdir()
    for batch in range(batches):
        columns = list(zip(*(row(batch, number) for number in range(ROWS)), strict=True))
        names = ("partition", "key", "value")
        types = (pa.int32(), pa.string(), pa.string())
        table = pa.table({name: pa.array(each, kind) for name, each, kind in zip(names, columns, types, strict=True)})
        path = folder / f"{batch:02}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch,) * 2)


def content(out: Path | str, **options) -> dict[int, list[tuple[int, list[tuple[str, str]]]]]:
    """By partition, its batches in the order of its log, each with (key, value) in order; every log is verified. In a
    bucket indexes are published before their log: to verify, it had more offsets."""
    found = {}
    with kafkarec.open(out, **options) as logs:
        for log in logs:
            report = log.verify()
            kinds = {each.kind for each in report.findings}
            assert kinds <= ({"end_was_longer"} if log.path.startswith("s3://") else set()), report.findings
            batches = []
            for offset, each in enumerate(log.read()):
                assert each.offset == offset
                key, value = (each.key or b"").decode(), (each.value or b"").decode()
                batch = int(value.split("/")[0])
                if not batches or batches[-1][0] != batch:
                    batches.append((batch, []))
                batches[-1][1].append((key, value))
            found[log.partition] = batches
    return found


def check(out: Path | str, complete: int, published: str, **options):
    """Assert that the log has batches 0 to `complete` - 1, and the next one as `published` says: in none, some or all
    of its partitions."""
    found, with_next = content(out, **options), 0
    for partition, batches in found.items():
        numbers = [number for number, _ in batches]
        first = next(batch for batch in range(BATCHES) if partition < partitions_of(batch))
        assert numbers in (list(range(first, complete)), list(range(first, complete + 1))), (partition, numbers)
        with_next += numbers[-1:] == [complete]
        for number, rows in batches:
            expected = [row(number, each)[1:] for each in range(ROWS) if row(number, each)[0] == partition]
            assert sorted(rows) == sorted(expected), (partition, number)
            for key in {key for key, _ in expected}:  # one task has all rows of a key
                assert [each for each in rows if each[0] == key] == [each for each in expected if each[0] == key]
    number = partitions_of(complete)
    assert with_next in {"none": [0], "some": range(1, number), "all": [number]}[published]
    assert len(found) in (partitions_of(complete - 1), number)
