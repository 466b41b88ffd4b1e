"""Fixtures of the Spark tests: the fat wheel, bare executor environments, spark-submit itself.

The applications in tests/support/spark/apps run as users run them, `spark-submit --py-files <wheel> app.py` on real
executors (`local-cluster`); driver and executors have a Python with pyspark, pyarrow and pandas only. Each application
does many things and writes one JSON file, which the tests read.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import fat_wheels
import pytest
import spark_submit
import spark_versions
import wheelhouse_check
import wheelhouse_pack
import worker_daemon
from commands import applications_removed
from paths import ROOT
from spark_submit import older_python, shared_spark
from subprocesses import run_program

import wheelhouse

# On the newest Spark the docs' own test runs that page.
collect_ignore = [] if os.environ.get("KAFKAREC_SPARK_ENVIRONMENTS") else ["test_payloads.py"]

CONF = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "1g"}
RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"


# ---- a session in this process, for all tests of the data source and the SQL functions

# Its workers import the packages of this checkout.


@pytest.fixture(scope="session")
def spark_environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The session's settings; at the end the active session is stopped, even if a test has made a new one."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = worker_daemon.python(tmp_path_factory.mktemp("workers"), sys.executable)
    os.environ["SPARK_HOME"], conf = shared_spark()
    yield conf | CONF | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def spark_session(spark_environment) -> Any:
    """The session, with everything registered; a new one if a test has stopped it."""
    from pyspark.sql import SparkSession

    import spark_udfs

    builder = SparkSession.builder.master("local[2]")
    for name, value in spark_environment.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark_udfs.register(spark)
    return spark


# ---- the others


@pytest.fixture
def broker(tmp_path):
    """A broker that writes partition folders below tmp_path/data."""
    from stream_broker import Broker  # it needs pyspark

    started = Broker(tmp_path / "data")
    yield started
    started.close()


@pytest.fixture(params=["folder", "bucket"])
def out(request, tmp_path, monkeypatch):
    """The path or URL that jobs write to. Without fsync: in these tests processes crash, machines do not."""
    from publish_jobs import new_store

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return new_store(tmp_path, monkeypatch) if request.param == "bucket" else f"{tmp_path}/out"


@pytest.fixture(scope="session")
def fake_fat(tmp_path_factory):
    """A small fat wheel; see fat_wheels."""
    return fat_wheels.fat_wheel(tmp_path_factory.mktemp("fat"))


@pytest.fixture(scope="session")
def other_version(fat, tmp_path_factory):
    """A fat wheel of the same kafkarec under another version."""
    folder = tmp_path_factory.mktemp("other_version")
    version = f"{wheelhouse.version()}.post1"
    tag, here = f"-cp{RUNNING.replace('.', '')}-", platform.machine()
    wheels = [wheel for wheel in fat.parent.glob("*.whl") if wheel.name.endswith((f"_{here}.whl", "-any.whl"))]
    carried = [wheel for wheel in wheels if tag in wheel.name or "-py3-none" in wheel.name]
    carried = [wheel for wheel in carried if not wheel.name.startswith(("kafkarec-", "spark_udfs-"))]
    (ours,) = (wheel for wheel in wheels if wheel.name.startswith("kafkarec-"))
    files, dist_info = wheelhouse_pack.read_wheel(ours)
    old, new = (text.encode() for text in (wheelhouse.version(), version))
    renamed = {name.replace(dist_info, f"kafkarec-{version}.dist-info"): content for name, content in files.items()}
    for name in ("kafkarec/_version.py", f"kafkarec-{version}.dist-info/METADATA"):
        renamed[name] = renamed[name].replace(old, new, 1)
    target = folder / ours.name.replace(wheelhouse.version(), version, 1)
    wheelhouse_pack.write_wheel(target, renamed, f"kafkarec-{version}.dist-info")
    tree = wheelhouse_pack.Tree(RUNNING, platform.machine(), (2, 17), (target, *carried))
    return wheelhouse_pack.fat_wheel(ROOT / "spark_udfs", version, wheelhouse_pack.trees_data(version, [tree]), folder)


@pytest.fixture(scope="session")
def bare_python():
    """The path of a Python of this version with pyspark, pyarrow and pandas only."""
    yield from environment(RUNNING)


@pytest.fixture(scope="module", params=spark_submit.versions())
def spark_version(request):
    """A version of Spark, such as 4.1, and the path of a Python that has it."""
    python = older_python(request.param) or request.getfixturevalue("bare_python")
    with applications_removed(python):
        yield request.param, python


@pytest.fixture(scope="session")
def other_python():
    """The same for another Python version that this machine has."""
    others = [python for python in wheelhouse.PYTHONS if python != RUNNING]
    interpreters = [python for python in others if wheelhouse_check.find_interpreter(python)]
    if not interpreters:
        pytest.skip(f"no CPython of {', '.join(others)} on this machine")
    yield from environment(interpreters[0])


def environment(python):
    """Yield the environment of the set-up if it fits, else one below .cache that is made once, with the set-up's
    Spark: it is the same for every Python, and takes a minute to install."""
    set_up = ROOT / ".venv-executor" / "bin" / "python"
    folder = ROOT / ".cache" / f"executor-{python}"
    if python == RUNNING and set_up.exists() and version_of(set_up) == python:
        folder = set_up.parents[1]
    elif not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        interpreter = wheelhouse_check.find_interpreter(python) or sys.executable
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
        wanted = ROOT / "requirements" / "executor.txt"
        if set_up.exists():
            wanted = folder / "libraries.txt"
            wanted.write_text(spark_versions.libraries())
            (site,) = folder.glob("lib/python*/site-packages")
            (shared,) = set_up.parents[1].glob("lib/python*/site-packages")
            for name in ("pyspark", "py4j"):
                (site / name).symlink_to(shared / name)
            for name in ("spark-submit", "find-spark-home", "find_spark_home.py"):
                (folder / "bin" / name).symlink_to(set_up.parent / name)
        completed = run_program(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "-r", wanted)
        if completed.returncode:
            pytest.skip(f"no environment of Python {python} can be made: {completed.stderr.strip().splitlines()[-1]}")
        (folder / "complete").touch()
    with applications_removed(str(folder / "bin" / "python")):
        yield str(folder / "bin" / "python")


def version_of(python):
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return run_program(python, "-c", code).stdout.strip()
