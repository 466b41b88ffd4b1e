"""write_table on a real session: the rows and types of Spark's own table, the errors of tasks, and flat memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paths import SEGMENTS
from source_rows import log_folder

import kafkarec
import spark_udfs

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PythonException
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def test_the_table_is_the_one_that_spark_writes(spark_session: Any, tmp_path: Path) -> None:
    spark, ours, theirs = spark_session, str(tmp_path / "ours"), str(tmp_path / "theirs")
    options = {"includeHeaders": "true", "minPartitions": "3"}
    written = spark_udfs.write_table(spark, str(SEGMENTS), ours, **options)
    source = spark.read.format("kafkarec").options(**options).load(str(SEGMENTS))
    source.withColumn("date", F.to_date("timestamp")).write.partitionBy("topic", "date").parquet(theirs)
    one, other = spark.read.parquet(ours), spark.read.parquet(theirs)
    assert one.schema == other.schema
    assert one.exceptAll(other).count() == other.exceptAll(one).count() == 0
    assert written.rows == one.count() == 1617
    assert spark_udfs.write_table(spark, str(SEGMENTS), ours, **options).rows == 0
    assert spark.read.parquet(ours).count() == 1617


def test_damage_fails_the_job_and_nothing_is_left(spark_session: Any, tmp_path: Path) -> None:
    data = bytearray((SEGMENTS / "txn-0" / f"{0:020}.log").read_bytes())
    data[len(data) // 2] ^= 1
    log_folder(tmp_path / "source" / "txn-0", (0, bytes(data)))
    source, out = str(tmp_path / "source"), tmp_path / "table"
    with pytest.raises(PythonException, match=r"crc mismatch(.|\n)*damage_report"):
        spark_udfs.write_table(spark_session, source, str(out))
    assert [path.name for path in out.iterdir()] == []
    written = spark_udfs.write_table(spark_session, source, str(out), read_mode="PERMISSIVE")
    assert len(written.damage) == 1
    quarantine = spark_session.read.json(f"{out}/_quarantine")
    assert [row.asDict() for row in quarantine.collect()] == [*written.damage]
    good = kafkarec.open(tmp_path / "source" / "txn-0").read(errors="skip")
    assert spark_session.read.parquet(str(out)).count() == len(good) == written.rows
