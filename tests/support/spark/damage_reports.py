"""damage_report, count and study without a Spark session: their tasks run in this process."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from spark_udfs import cluster, damage, damage_report
from spark_udfs.source.gaps import GAP


@pytest.fixture(autouse=True)
def nothing_is_shipped(monkeypatch) -> None:
    monkeypatch.setattr(cluster, "ship", lambda spark: None)


class Frames:
    """The session methods that they call; tasks are pickled and unpickled, as on their way to executors."""

    sparkContext = SimpleNamespace(
        defaultParallelism=1, getLocalProperty=lambda name: None, setLocalProperty=lambda name, value: None
    )

    def range(self, start: int, stop: int, step: int, slices: int) -> Frames:
        assert slices == stop - start
        self.numbers = list(range(start, stop, step))
        return self

    def mapInArrow(self, body, ddl: str) -> Frames:
        body = pickle.loads(pickle.dumps(body))
        batches = (pa.RecordBatch.from_arrays([pa.array([number])], ["id"]) for number in self.numbers)
        self.names = [column.split()[0] for column in ddl.split(", ")]
        self.lines = [tuple(row.values()) for batch in body(batches) for row in batch.to_pylist()]
        return self

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.names, line, strict=True)) for line in self.lines]

    def collect(self) -> list[Any]:
        return self.lines


def report(path, **given) -> damage.DamageReport:
    found = damage_report(Frames(), path, **given)
    for each in found.files:
        in_file = [row for row in found.rows if row["file"] == each["file"] and row["reason"] != GAP]
        assert (each["damaged"], each["damaged_bytes"]) == (len(in_file), sum(row["length"] for row in in_file))
        if Path(each["file"]).is_file():
            assert each["bytes"] == Path(each["file"]).stat().st_size, each
    return found
