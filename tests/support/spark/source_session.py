"""One Spark session in this process for all tests of the data source and the SQL functions: local[2], no UI.

    def test_something(spark_session):
        spark_session.read.format("kafkarec").load(path)

Workers import the packages of this checkout; tests on executors without them run the applications in apps/.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import worker_daemon
from paths import ROOT
from spark_submit import shared_spark

CONF = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "1g"}


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
