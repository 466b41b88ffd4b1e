"""A stream on executors that have never heard of kafkarec, one of which is killed, with its query started anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from long_run import MINUTES
from submitting import Application, lines_of_tasks

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]


@pytest.fixture(scope="module")
def told(fat: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("following")
    (folder / "killed").mkdir()
    names = ("data", "checkpoint", "killed")
    result = Application("following.py", fat, bare_python, folder, *(str(folder / name) for name in names)).result()
    assert sorted(path.name for path in (folder / "killed").iterdir()) == ["executor", "worker"]
    return result | {"lines": lines_of_tasks(bare_python, "read", folder / "data")}


def test_every_record_once_in_order_whoever_is_killed(told: dict[str, Any]) -> None:
    assert min(told["segments"]) > 2
    rows = [row for number in sorted(told["batches"], key=int) for row in told["batches"][number][-1]]
    for partition, rounds in ((0, 8), (1, 7), (2, 6)):
        wanted = [[partition, offset, f"{partition}/{offset}"] for offset in range(rounds * 500)]
        assert [row for row in rows if row[0] == partition] == wanted


def test_a_batch_that_comes_again_is_the_same(told: dict[str, Any]) -> None:
    assert all(runs == runs[:1] * len(runs) for runs in told["batches"].values())


def test_one_line_per_task_in_the_executors_log(told: dict[str, Any]) -> None:
    with_rows = sum(1 for runs in told["batches"].values() if runs[-1])
    assert with_rows and len(told["lines"]) >= with_rows
