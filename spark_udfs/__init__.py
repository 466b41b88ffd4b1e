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
| registration | `register(spark)`: registers the SQL functions and the data source |
| cluster | adds the wheel to the session's files, so that executors can import it; calls a function in a task |
| functions | the SQL functions, also as Column functions, and DataFrame functions |
| capabilities | what this pyspark has, and what takes its place where it is missing |
| schema | the one table of columns: kafkarec's name, Spark's name, Spark type, Arrow type |
| decoding | runs in the workers: Arrow arrays of bytes in, Arrow arrays of structs out |
| encoding | runs in the workers of `kafka_encode`: arrays of structs in, raw batches out |
| arrow_in_pandas | runs in the workers of a pyspark without Arrow functions |
| udtf | `LATERAL kafka_explode(value)`: a table function |
| internal | runs in the workers: decodes the records of internal topics |
| function_options | the options of kafka_decode and kafka_scan, checked on the driver |
| source/ | `spark.read`, `df.write`, `readStream` and `writeStream` with `format("kafkarec")` |
| read_functions | `read_log(spark, path)`: the rows of the data source by mapInArrow; `count`, `offsets_at` |
| write_functions | `write_log(df, path)`: writes records with the offsets they have to partition folders |
| table_writing | `write_table(spark, path, out)`: tasks write the records to a table of Parquet files |
| damage | `damage_report(spark, path)`: which bytes of which files are damaged |
| errors | what a worker reports and logs when it fails: the cause first |
| stream_lag | `lag(query)`: how many offsets a stream has still to read |
| diagnosis | `doctor(spark)`: the Python and kafkarec of each executor |
| bootstrap | makes kafkarec's compiled packages importable on executors; standard library only |

Importing this package imports neither pyspark nor kafkarec.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bootstrap import Activation, BootstrapError, activate
from .errors import Conflict, NeedsNewerSpark

if TYPE_CHECKING:
    from .damage import damage_report
    from .diagnosis import doctor
    from .read_functions import count, offsets_at, read_log
    from .registration import register
    from .stream_lag import lag
    from .table_writing import write_table
    from .write_functions import sweep, write_log

__all__ = [
    "Activation",
    "BootstrapError",
    "Conflict",
    "NeedsNewerSpark",
    "activate",
    "count",
    "damage_report",
    "doctor",
    "lag",
    "offsets_at",
    "read_log",
    "register",
    "sweep",
    "write_log",
    "write_table",
]


_MODULES = {
    "count": "read_functions",
    "damage_report": "damage",
    "doctor": "diagnosis",
    "lag": "stream_lag",
    "offsets_at": "read_functions",
    "read_log": "read_functions",
    "register": "registration",
    "sweep": "write_functions",
    "write_log": "write_functions",
    "write_table": "table_writing",
}

__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """The functions, whose modules import pyspark, on their first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found
