"""Where spark_udfs is installed, Spark finds `format("kafkarec")` by this package's name: no `register` is needed.

    SELECT * FROM kafkarec_view      -- CREATE TEMPORARY VIEW kafkarec_view USING kafkarec OPTIONS (path '/backup')

At the first use of any data source Spark imports every package named pyspark_* and uses its `DefaultSource`
(pyspark/sql/worker/lookup_data_sources.py). An exception raised here would hide the data sources of all these packages,
so none is raised: without spark_udfs this module prints one line to standard error and defines no data source. kafkarec
itself is imported when something is read or written.
"""

from __future__ import annotations

import sys

try:
    from spark_udfs.source import KafkarecDataSource as DefaultSource
except Exception as error:
    print(f"pyspark_kafkarec: no data source kafkarec: {type(error).__name__}: {error}", file=sys.stderr)
else:
    __all__ = ["DefaultSource"]
