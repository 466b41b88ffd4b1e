"""Loads what each of Spark's Python workers needs into the daemon that forks them: otherwise each worker loads it by
itself, half a second of processor time for the few rows of a test.

Python runs this file where PYTHONPATH has its folder.
"""

import sys

if sys.orig_argv[-2:] == ["pyspark.daemon", "pyspark.worker"]:
    import pandas  # noqa: F401
    import pyarrow.compute  # noqa: F401
    import pyspark.worker  # noqa: F401
