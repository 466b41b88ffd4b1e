"""A stream's objects find our package in a worker that Spark gave no path to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

pytest.importorskip("pyspark", reason="pyspark is not installed")

from spark_udfs import registration

NAME = "spark_udfs-0-12345678.zip"

# Run with the archive on sys.path, as Spark's planner is.
MAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark import cloudpickle
from spark_udfs.source import KafkarecDataSource
from spark_udfs.source.stream import StreamReader
from spark_udfs.source.stream_writing import StreamWriter
made = {"data source": KafkarecDataSource({"path": "/x"}), "reader": StreamReader({}, ())}
made["writer"] = StreamWriter("/x", 1, 2, {})
def closure(one): return lambda: one
for name, one in made.items():
    with open(f"{sys.argv[2]}/{name}", "wb") as file: file.write(cloudpickle.dumps(closure(one)))
"""
# Run without it, the files of Spark in a folder.
LOAD = """
import json, os, sys
root, pickled, broken = sys.argv[1:4]
from pyspark.core.files import SparkFiles
from pyspark.worker_util import setup_spark_files
setup_spark_files(root, [sys.argv[4]])
from pyspark import cloudpickle
if broken:
    def refuse(*words): raise PermissionError(13, "not here")
    os.link = os.replace = refuse
found = cloudpickle.loads(open(pickled, "rb").read())()
import spark_udfs
print(json.dumps([type(found).__name__, spark_udfs.__file__, getattr(found, "path", None)]))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Connect puts it on the driver's machine."""
    path = tmp_path_factory.mktemp("driver") / "session" / NAME
    path.parent.mkdir()
    registration._zip_package(str(ROOT), str(path))
    run(MAKE, path, path.parent)
    return path


def run(program: str, *arguments: object) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(root: Path, path: Path, broken: bool = False) -> Any:
    return json.loads(run(LOAD, root, path, "broken" if broken else "", NAME))


def test_in_a_task_of_another_machine(archive: Path, tmp_path: Path) -> None:
    """The file is in the session's folder, and the driver's one is out of reach."""
    there = tmp_path / "files" / "a-session" / NAME
    there.parent.mkdir(parents=True)
    (tmp_path / "files" / "stdout").touch()
    archive.rename(there)
    try:
        kind, file, _ = load(tmp_path / "files", archive.with_name("reader"))
    finally:
        there.rename(archive)
    assert kind == "StreamReader"
    assert file == str(tmp_path / "files" / NAME / "spark_udfs" / "__init__.py")
    assert (tmp_path / "files" / NAME).samefile(archive)  # no copy, and it stays when the session is gone


def test_where_a_stream_is_planned_there_may_be_no_folder(archive: Path, tmp_path: Path) -> None:
    _, file, _ = load(tmp_path / "streaming_job", archive.with_name("data source"))
    assert file.startswith(str(tmp_path / "streaming_job" / NAME))


def test_a_folder_that_takes_no_names(archive: Path, tmp_path: Path) -> None:
    _, file, path = load(tmp_path, archive.with_name("writer"), broken=True)
    assert file.startswith(str(archive)) and path == "/x"


def test_installed_packages_travel_by_name() -> None:
    import pickle

    from spark_udfs.source import KafkarecDataSource

    made = KafkarecDataSource({"path": "/x"})
    assert pickle.loads(pickle.dumps(made)).options == made.options
    assert NAME.encode() not in pickle.dumps(made)
