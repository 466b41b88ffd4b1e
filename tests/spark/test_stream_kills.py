"""Drivers killed inside a micro-batch that is not the first, and started again: every record once, read and written.

Runs on the newest Spark, or, with KAFKAREC_SPARK_ENVIRONMENTS, on 4.1, which has no limits of micro-batches.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from long_run import MINUTES
from spark_submit import APPLICATIONS, Application, applications_removed, older_python

import kafkarec

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

MASTER = "local-cluster[1,2,1024]"


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = older_python("4.1") or request.getfixturevalue("bare_python")
    with applications_removed(chosen):
        yield chosen


# ---- read ---------------------------------------------------------------------------------------------------

PLACES = ("reading", "planned", "read", "in the sink")


def test_a_reading_stream_returns_every_record_once(python: str, fat: Path, tmp_path: Path) -> None:
    options = {"maxPartitionBytes": "4k"} | ({} if older_python("4.1") else {"maxOffsetsPerTrigger": "500"})
    environ = {"KAFKAREC_CACHE": str(tmp_path / "cache")}

    def started(place: str) -> Application:
        words = (str(tmp_path), place, f"killed {place}", json.dumps(options))
        return Application("killed_reading.py", fat, python, tmp_path, *words, environ=environ, master=MASTER)

    for batch, place in enumerate(PLACES, 1):
        started(place).killed()
        killed = json.loads((tmp_path / f"killed {place}").read_text())
        assert killed["batch"] == killed["offsets"][-1] == batch, (place, killed)
        # Spark's commit follows the sink's at once, and may have been faster than the killer.
        assert killed["commits"][-1] in ((batch - 1, batch) if place == "in the sink" else (batch - 1,)), (
            place,
            killed,
        )
    result = started("nowhere").result()
    with kafkarec.open(tmp_path / "logs") as logs:
        expected = [
            [log.partition, each.offset, (each.value or b"").decode()]
            for log in logs  # type: ignore[union-attr]
            for each in log.read()
        ]
    assert sorted(result["rows"]) == expected
    assert [sum(row[0] == partition for row in expected) for partition in range(3)] == [4800, 4800, 4800]
    assert len(result["batches"]) >= 8


# ---- write --------------------------------------------------------------------------------------------------


class Kill(NamedTuple):
    """The driver is killed before the `count`th call that raises this audit event about such a path, in this
    micro-batch. with_process: and the process that made the call; otherwise it goes on without a driver.
    published: what a reader finds then of the batch, of its partitions."""

    why: str
    batch: int
    event: str
    path: str
    count: int = 1
    with_process: bool = True
    published: str = "none"


KILLS = (
    Kill("a task has begun to stage", 1, "open", r"_temporary/[^/]+-1/.*\.log "),
    Kill("the tasks have staged, the commit begins", 2, "open", r"/out None"),
    Kill("one of the partitions is published", 3, "ctypes.dlsym", r"renameat2", 2, published="some"),
    Kill("again, by the restart of that batch", 3, "ctypes.dlsym", r"renameat2", published="some"),
    Kill("all are published, the batch is not marked", 4, "open", r"_streams\.json\.part w", published="all"),
    Kill("everything is done but Spark's own commit", 5, "os.scandir", r"/out/_temporary$", 2, published="all"),
    Kill("the driver only, its commit goes on", 6, "ctypes.dlsym", r"renameat2", with_process=False, published="later"),
)
BATCHES, ROWS, KEYS = 8, 600, 7


def partitions_of(batch: int) -> int:
    """A partition is new in batch 1, 4 and 7."""
    return 2 + (batch + 2) // 3


def row(batch: int, number: int) -> tuple[int, str, str]:
    return number % partitions_of(batch), str(number % KEYS), f"{batch}/{number}"


def make_source(folder: Path) -> None:
    """A file for each micro-batch; Spark takes them in order of their times."""
    folder.mkdir()
    for batch in range(BATCHES):
        columns = list(zip(*(row(batch, number) for number in range(ROWS)), strict=True))
        names = ("partition", "key", "value")
        types = (pa.int32(), pa.string(), pa.string())
        table = pa.table({name: pa.array(each, kind) for name, each, kind in zip(names, columns, types, strict=True)})
        path = folder / f"{batch:02}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch,) * 2)


def content(out: Path) -> dict[int, list[tuple[int, list[tuple[str, str]]]]]:
    """By partition, its batches in the order of its log, each with (key, value) in order; every log is verified."""
    found: dict[int, list[tuple[int, list[tuple[str, str]]]]] = {}
    with kafkarec.open(out) as logs:
        for log in logs:  # type: ignore[union-attr]
            report = log.verify()
            assert report.ok and not report.findings, report
            batches: list[tuple[int, list[tuple[str, str]]]] = []
            for offset, each in enumerate(log.read()):
                assert each.offset == offset
                key, value = (each.key or b"").decode(), (each.value or b"").decode()
                batch = int(value.split("/")[0])
                if not batches or batches[-1][0] != batch:
                    batches.append((batch, []))
                batches[-1][1].append((key, value))
            found[log.partition] = batches
    return found


def check(out: Path, complete: int, published: str) -> None:
    """Assert that the log has batches 0 to `complete` - 1, and the next one as `published` says: in none, some or all
    of its partitions; "later": in any number of them."""
    found, with_next = content(out), 0
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
    assert with_next in {"none": [0], "some": range(1, number), "all": [number], "later": range(number + 1)}[published]
    assert len(found) in (partitions_of(complete - 1), number)


def test_a_writing_stream_stores_every_record_once_in_order(python: str, fat: Path, tmp_path: Path) -> None:
    make_source(tmp_path / "source")
    (tmp_path / "hook").mkdir()
    shutil.copy(APPLICATIONS / "killing_hook.py", tmp_path / "hook" / "sitecustomize.py")
    environ = {
        "KILLING": str(tmp_path),
        "PYTHONPATH": str(tmp_path / "hook"),
        "KAFKAREC_CACHE": str(tmp_path / "cache"),
    }
    rule, out = tmp_path / "rule.json", tmp_path / "out"

    def started() -> Application:
        return Application("killed_writing.py", fat, python, tmp_path, str(tmp_path), environ=environ, master=MASTER)

    for number, kill in enumerate(KILLS):
        killed = tmp_path / f"killed {number}"
        rule.write_text(json.dumps(kill._asdict() | {"mark": killed.name}))
        log = started().killed()
        assert killed.exists(), f"{kill.why}: {log}"
        state = json.loads(killed.read_text())
        assert state == {"offsets": list(range(kill.batch + 1)), "commits": list(range(kill.batch))}, kill.why
        check(out, kill.batch, kill.published)
    rule.unlink()
    result = started().result()
    assert result["batches"] == [6, 7]
    check(out, BATCHES, "none")
    assert sum(len(rows) for batches in content(out).values() for _, rows in batches) == BATCHES * ROWS
    assert sorted(each.name for each in out.iterdir()) == ["_streams.json", *(f"t-{n}" for n in range(5))]
    (entry,) = json.loads((out / "_streams.json").read_text()).values()
    assert entry["batch"] == BATCHES - 1
