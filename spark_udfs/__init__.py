"""Kafka record batches in Spark: decode, explode and scan columns of raw bytes with kafkarec.

    spark-submit --py-files wheelhouse/spark_udfs-<version>-py3-none-any.whl app.py

    import spark_udfs
    spark_udfs.register(spark)      # ships kafkarec to the executors, registers the SQL functions
    spark.sql("SELECT inline_outer(kafka_decode(value)) FROM raw")

    from spark_udfs import functions as K
    df.select(K.kafka_decode("value", mode="PERMISSIVE"))
    K.kafka_explode(df, "value", keep=["source"])

| file | what |
|---|---|
| registration | `register(spark)`: ships the wheel, registers the SQL functions |
| functions | the verbs: `kafka_decode`, `kafka_scan`, `kafka_explode`, `kafka_internal`, `kafka_internal_rows` |
| schema | the one table of columns: kafkarec's name, Spark's name, Spark type, Arrow type |
| decoding | what runs in the workers: Arrow arrays of bytes in, Arrow arrays of structs out |
| internal | what runs in the workers for the records of internal topics |
| options | the options of the verbs, checked on the driver |
| diagnosis | `doctor(spark)`: what each executor has |
| bootstrap/ | compiled wheels on executors, standard library only |

Importing this package imports neither pyspark nor kafkarec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bootstrap import Activation, BootstrapError, activate

if TYPE_CHECKING:
    from .diagnosis import Diagnosis
    from .registration import Registered

__all__ = ["Activation", "BootstrapError", "activate", "doctor", "register"]


def register(spark: Any) -> Registered:
    """Ships kafkarec to the executors of this session and registers its SQL functions; may be called again.

    `spark`: a SparkSession, classic or Connect.  Returns a table to print of what is there now.
    """
    from .registration import register as run

    return run(spark)


def doctor(spark: Any) -> Diagnosis:
    """Runs a small job and tells, per executor: Python, libc, cache path, wheels, versions. Printable."""
    from .diagnosis import doctor as run

    return run(spark)
