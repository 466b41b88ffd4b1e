"""What a user reads first when something fails is the cause: on each Spark, for options, paths, schema and damage.

Counted are the lines of `str(error)` before the cause. Without KAFKAREC_SPARK_ENVIRONMENTS only the newest Spark; with
it all others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from paths import VECTORS
from spark_submit import ONE_EXECUTOR, Application, executor_stderr

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Run(NamedTuple):
    """What the application read, and what its executors logged."""

    cases: dict[str, dict[str, Any]]
    early: list[int]
    stderr: str


@pytest.fixture(scope="module")
def run(spark_version, fat, tmp_path_factory):
    (_, python), folder = spark_version, tmp_path_factory.mktemp("causes")
    twice = {"spark.task.maxFailures": "2"}
    words = ("causes.py", fat, python, folder, str(VECTORS), str(folder / "work"))
    found = Application(*words, master=ONE_EXECUTOR, **twice).result()
    (folder / "log.txt").write_text(found["log"])
    return Run(found["cases"], found["early"], executor_stderr(python))


def lines_before(message, cause):
    lines = message.splitlines()
    found = [number for number, line in enumerate(lines) if cause in line]
    assert found, (cause, message)
    return found[0]


def test_each_case_is_an_error(run):
    assert {name for name, each in run.cases.items() if each["message"] is None} == set()
    assert {"decode", "explode", "mode", "read_log"} <= run.cases.keys()


def test_the_cause_stands_in_the_first_lines(run):
    """After Spark's own sentence, and before 4.2 an empty line."""
    read = {name: lines_before(each["message"], each["cause"]) for name, each in run.cases.items()}
    assert {name: lines for name, lines in read.items() if lines > 2} == {}


def test_no_frame_of_ours_is_shown(run):
    shown = {name: str(each["message"]) for name, each in run.cases.items()}
    assert {name: text for name, text in shown.items() if "/spark_udfs/" in text} == {}


def test_a_task_logs_its_cause_in_one_line(run):
    logged = [line for line in run.stderr.splitlines() if "ERROR spark_udfs: kafkarec failed: " in line]
    tasks = ("function", "map", "read", "write", "eval", "stream read", "stream write")
    causes = {each["cause"] for each in run.cases.values() if each["place"] in tasks}
    assert {cause for cause in causes if not any(cause in line for line in logged)} == set()
    (damage,) = {line.partition("failed: ")[2] for line in logged if run.cases["read_log"]["cause"] in line}
    assert damage.startswith("CorruptRecordError: crc mismatch in ") and "; mode PERMISSIVE keeps" in damage


def test_a_data_frame_that_was_made_before_register_works(run):
    """Its Python functions keep the list of files of the session as it was then."""
    assert run.early == [5, 5]
