"""Drivers killed inside a micro-batch that is not the first, and started again: every record once, read and written.

Runs on the newest Spark, or, with KAFKAREC_SPARK_ENVIRONMENTS (`make sparks LONG=1`), on 4.1, which has no limits of
micro-batches.
"""

from __future__ import annotations

import json
import shutil
from typing import NamedTuple

import pytest
from commands import applications_removed
from copied_streams import BATCHES, ROWS, check, content, make_source
from long_run import MINUTES
from spark_submit import APPLICATIONS, ONE_EXECUTOR, Application, older_python

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

# Executors outlive their driver for a while. Where the driver alone is at work, it has none: they take long to start.
EXECUTORS, DRIVER_ONLY = ONE_EXECUTOR, "local[2]"


@pytest.fixture(scope="module")
def python(request):
    chosen = older_python("4.1") or request.getfixturevalue("bare_python")
    with applications_removed(chosen):
        yield chosen


# ---- read ---------------------------------------------------------------------------------------------------

PLACES = {"reading": EXECUTORS, "planned": DRIVER_ONLY}


def test_a_reading_stream_returns_every_record_once(python, fat, tmp_path):
    options = {"maxPartitionBytes": "4k"} | ({} if older_python("4.1") else {"maxOffsetsPerTrigger": "500"})
    environ = {"KAFKAREC_CACHE": str(tmp_path / "cache")}

    def started(place):
        words = (str(tmp_path), place, f"killed {place}", json.dumps(options))
        master = PLACES.get(place, DRIVER_ONLY)
        return Application("killed_reading.py", fat, python, tmp_path, *words, environ=environ, master=master)

    for batch, place in enumerate(PLACES, 1):
        started(place).killed()
        killed = json.loads((tmp_path / f"killed {place}").read_text())
        assert killed["batch"] == killed["offsets"][-1] == batch, (place, killed)
        assert killed["commits"][-1] == batch - 1, (place, killed)
    result = started("nowhere").result()
    with kafkarec.open(tmp_path / "logs") as logs:
        expected = [[log.partition, each.offset, (each.value or b"").decode()] for log in logs for each in log.read()]
    assert sorted(result["rows"]) == expected
    assert [sum(row[0] == partition for row in expected) for partition in range(3)] == [3000, 3000, 3000]
    assert len(result["batches"]) >= 5


# ---- write --------------------------------------------------------------------------------------------------


class Kill(NamedTuple):
    """The driver is killed before the `count`th call that raises this audit event about such a path, in this
    micro-batch; test_crashed_commits.py has all other places of a commit. published: what a reader finds then of the
    batch, of its partitions."""

    why: str
    batch: int
    event: str
    path: str
    count: int = 1
    published: str = "none"


KILLS = (
    Kill("one of the partitions is published", 3, "ctypes.dlsym", r"renameat2", 2, published="some"),
    Kill("again, by the restart of that batch", 3, "ctypes.dlsym", r"renameat2", published="some"),
    Kill("everything is done but Spark's own commit", 4, "os.scandir", r"/out/_temporary$", 2, published="all"),
)


def test_a_writing_stream_stores_every_record_once_in_order(python, fat, tmp_path):
    make_source(tmp_path / "source")
    (tmp_path / "hook").mkdir()
    shutil.copy(APPLICATIONS / "killing_hook.py", tmp_path / "hook" / "sitecustomize.py")
    environ = {
        "KILLING": str(tmp_path),
        "PYTHONPATH": str(tmp_path / "hook"),
        "KAFKAREC_CACHE": str(tmp_path / "cache"),
    }
    rule, out = tmp_path / "rule.json", tmp_path / "out"

    def started():
        words = (str(tmp_path), str(out))
        return Application("killed_writing.py", fat, python, tmp_path, *words, environ=environ, master=DRIVER_ONLY)

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
    assert result["batches"] == [*range(KILLS[-1].batch, BATCHES)]
    check(out, BATCHES, "none")
    assert sum(len(rows) for batches in content(out).values() for _, rows in batches) == BATCHES * ROWS
    assert sorted(each.name for each in out.iterdir()) == ["_streams.json", *(f"t-{n}" for n in range(4))]
    (entry,) = json.loads((out / "_streams.json").read_text()).values()
    assert entry["batch"] == BATCHES - 1
