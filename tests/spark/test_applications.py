"""Applications with killed workers, without worker reuse, with two versions at once, with another interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden
import pytest
from spark_submit import ONE_EXECUTOR, Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NO_WORKER_REUSE = {"spark.python.worker.reuse": "false", "spark.python.worker.faulthandler.enabled": "true"}


@pytest.fixture(scope="module")
def two_applications(
    fat: Path, other_version: Path, bare_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """Two applications at once on one node and cache, each with its own version; each loses a worker."""
    folder = tmp_path_factory.mktemp("restless")
    cache = folder / "cache"
    conf = {**NO_WORKER_REUSE, "spark.executorEnv.KAFKAREC_CACHE": str(cache)}
    running = [
        Application(
            "killed_bootstrap.py",
            wheel,
            bare_python,
            folder / name,
            str(folder / f"{name}.killed"),
            str(golden.VECTORS),
            master=ONE_EXECUTOR,
            **conf,
        )
        for name, wheel in (("ours", fat), ("other", other_version))
    ]
    ours, other = [application.result() for application in running]
    assert (folder / "ours.killed").exists() and (folder / "other.killed").exists()
    return ours, other, cache


def test_worker_killed_in_the_bootstrap_does_not_poison_the_node(two_applications: Any) -> None:
    ours, _, cache = two_applications
    records = len(kafkarec.decode(golden.vector("v2-zstd-create").bytes))
    for part in ("first", "second"):
        assert [row[3] for row in ours[part]] == [str(records)] * 8
        assert {row[0].rpartition("/")[0] for row in ours[part]} == {str(next(cache.iterdir()))}
    assert ours["sizes"] == [records] * 8
    assert list(cache.glob("*/*.tmp-*")) == []


def test_two_versions_at_once_on_one_node(two_applications: Any) -> None:
    ours, other, cache = two_applications
    assert {row[1] for row in ours["first"]} == {kafkarec.__version__}
    assert {row[1] for row in other["first"]} == {f"{kafkarec.__version__}.post1"}
    paths = {row[0] for results in (ours, other) for row in results["first"]}
    assert len(paths) == 2
    assert {str(path) for path in cache.glob("*/*") if path.is_dir()} == paths


def test_without_worker_reuse_the_second_job_has_new_processes(two_applications: Any) -> None:
    for results in two_applications[:2]:
        assert not {row[2] for row in results["first"]} & {row[2] for row in results["second"]}


def test_another_interpreter_uses_its_own_wheels_and_a_mixed_one_is_reported(
    fat: Path, bare_python: str, other_python: str, tmp_path: Path
) -> None:
    words = ("interpreters.py", fat, other_python, tmp_path, str(golden.VECTORS), bare_python)
    results = Application(*words, master=ONE_EXECUTOR).result()
    assert results["rows"] == len(kafkarec.decode(golden.vector("v2-lz4-create").bytes))
    for row in results["doctor"]:
        tag = row["interpreter"].split()[0]
        assert row["executable"] == other_python
        assert any(f"-{tag}-{tag}-" in wheel for wheel in row["wheels"])
    assert "PYTHON_VERSION_MISMATCH" in results["mismatch"]
