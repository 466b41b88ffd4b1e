"""A stream on bare executors, one of which is killed, whose query is restarted; on Spark 4.1 as test_versions.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from spark_submit import Application, applications_removed, lines_of_tasks, older_python

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, fat: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = older_python("4.1") or request.getfixturevalue("bare_python")
    folder = tmp_path_factory.mktemp("following")
    (folder / "killed").mkdir()
    names = ("data", "checkpoint", "killed")
    with applications_removed(python):
        result = Application("follow_log.py", fat, python, folder, *(str(folder / name) for name in names)).result()
        assert sorted(path.name for path in (folder / "killed").iterdir()) == ["executor", "worker"]
        return result | {"lines": lines_of_tasks(python, "read", folder / "data")}


def test_every_record_once_in_order_despite_a_killed_executor(results: dict[str, Any]) -> None:
    assert min(results["segments"]) > 2
    rows = [row for number in sorted(results["batches"], key=int) for row in results["batches"][number][-1]]
    for partition, rounds in ((0, 8), (1, 7), (2, 6)):
        expected = [[partition, offset, f"{partition}/{offset}"] for offset in range(rounds * 500)]
        assert [row for row in rows if row[0] == partition] == expected


def test_a_repeated_batch_is_the_same(results: dict[str, Any]) -> None:
    assert all(runs == runs[:1] * len(runs) for runs in results["batches"].values())


def test_one_line_per_task_in_the_executors_log(results: dict[str, Any]) -> None:
    with_rows = sum(1 for runs in results["batches"].values() if runs[-1])
    assert with_rows and len(results["lines"]) >= with_rows
