"""A stream's pickled objects import our package in a worker that has no sys.path entry for it."""

import json
import os
import sys

import pytest
from paths import ROOT
from subprocesses import output_of

from spark_udfs import cluster

NAME = "spark_udfs-0-12345678.zip"

# Run with the archive on sys.path, as in Spark's planner.
MAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark import cloudpickle
from spark_udfs.source import KafkarecDataSource
from spark_udfs.source.stream import StreamReader
from spark_udfs.source.writing import Writer
objects = {"data source": KafkarecDataSource({"path": "/x"}), "reader": StreamReader({}, ())}
objects["writer"] = Writer("/x")
def closure(one): return lambda: one
for name, one in objects.items():
    with open(f"{sys.argv[2]}/{name}", "wb") as file: file.write(cloudpickle.dumps(closure(one)))
"""
# Run without it, with the files of Spark in a folder.
LOAD = """
import json, os, sys
root, pickled, broken = sys.argv[1:4]
from pyspark import SparkFiles
from pyspark.worker_util import setup_spark_files
setup_spark_files(root, [sys.argv[4]])
from pyspark import cloudpickle
if broken:
    def refuse(*arguments): raise PermissionError(13, "not here")
    os.link = os.replace = refuse
loaded = cloudpickle.loads(open(pickled, "rb").read())()
import spark_udfs
print(json.dumps([type(loaded).__name__, spark_udfs.__file__, getattr(loaded, "job", None)]))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The zip of spark_udfs at the path that Spark Connect uses on the driver."""
    path = tmp_path_factory.mktemp("driver") / "session" / NAME
    path.parent.mkdir()
    cluster._zip_package(str(ROOT), str(path))
    run(MAKE, path, path.parent)
    return path


def run(program, *arguments):
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return output_of(sys.executable, "-P", "-c", program, *arguments, env=environ)


def load(root, path, broken=False):
    return json.loads(run(LOAD, root, path, "broken" if broken else "", NAME))


def test_a_task_on_another_machine_finds_the_package(archive, tmp_path):
    """The file is in the session's folder; the driver's file is not accessible."""
    stored = tmp_path / "files" / "a-session" / NAME
    stored.parent.mkdir(parents=True)
    (tmp_path / "files" / "stdout").touch()
    archive.rename(stored)
    try:
        kind, file, _ = load(tmp_path / "files", archive.with_name("reader"))
    finally:
        stored.rename(archive)
    assert kind == "StreamReader"
    assert file == str(tmp_path / "files" / NAME / "spark_udfs" / "__init__.py")
    assert (tmp_path / "files" / NAME).samefile(archive)  # a link, which stays when the session ends


def test_the_planner_of_a_stream_needs_no_folder(archive, tmp_path):
    _, file, _ = load(tmp_path / "streaming_job", archive.with_name("data source"))
    assert file.startswith(str(tmp_path / "streaming_job" / NAME))


def test_where_the_folder_cannot_be_written_the_drivers_file_is_imported(archive, tmp_path):
    _, file, path = load(tmp_path, archive.with_name("writer"), broken=True)
    assert file.startswith(str(archive)) and path == "/x"


def test_installed_packages_are_pickled_by_name():
    import pickle

    from spark_udfs.source import KafkarecDataSource

    data_source = KafkarecDataSource({"path": "/x"})
    assert pickle.loads(pickle.dumps(data_source)).options == data_source.options
    assert NAME.encode() not in pickle.dumps(data_source)
